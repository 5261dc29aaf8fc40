"""The command line. Commands import what they need when they run, so that help is instant."""

import io
import os
import re
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import typer

from unihssl.cli import (
    ablation,
    audit,
    benchmark,
    compare,
    data,
    demo,
    evaluate,
    export,
    features,
    label,
    methods,
    plot,
    predict,
    report,
    select,
    sensitivity,
    serve,
    suggest,
    table,
    train,
)
from unihssl.cli.options import Command, UsageError, as_options
from unihssl.cli.settings_options import CONTEXT
from unihssl.errors import RunInterruptedError, UserError, full_memory, printable

# How long torch's CPU threads wait actively before they sleep. On shared cores longer spinning made small networks at
# least twice as slow (results/speed.md); on idle ones it made no difference.
SPINS = "10000"

app = typer.Typer(
    name="unihssl",
    help="Labels from one domain, images from another, one model for both.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


@app.callback(invoke_without_command=True)
def version(show: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if show:
        from unihssl import __version__

        typer.echo(__version__)
        raise typer.Exit


COMMANDS: tuple[Callable[..., None], ...] = (
    demo.demo,
    train.train,
    compare.compare,
    evaluate.evaluate,
    predict.predict,
    report.report,
    audit.audit,
    suggest.suggest,
    label.label,
    select.select,
    features.features,
    export.export,
    serve.serve,
    methods.methods,
    benchmark.benchmark,
    ablation.ablation,
    sensitivity.sensitivity,
    table.table,
)
for command in COMMANDS:
    app.command(cls=Command, context_settings=CONTEXT if command in (train.train, compare.compare) else None)(command)
plot.register(app)
data.register(app)


def _usage_message(error: Any) -> str:
    """What is wrong with a call; for an unknown option that has the name of a knob, how to set the knob."""
    from unihssl.config import READING, Settings

    option = str(getattr(error, "option_name", ""))
    knob = option.removeprefix("--").replace("-", "_")
    options = {name for parameter in error.ctx.command.params for name in parameter.opts} if error.ctx else set()
    if knob == "preset" and "--schedule" in options:
        return f"No such option: {option}; a method's preset is --set preset=NAME, the length of training --schedule."
    if knob in Settings.__dataclass_fields__ and "--set" in options and ("--seeds" in options or knob in READING):
        return f"No such option: {option}; that is a knob: --set {knob}=VALUE."
    message = str(error.format_message()).rstrip(".")  # empty where the help was shown instead
    message = re.sub("Input should be a valid (integer|number).*", r"it should be a valid \1", message)
    return message if not message or message.endswith("?") else f"{message}."


def main() -> None:
    """Run a command. A user's error is one line on stderr; the exit code is 1, or 2 for a bad call."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # read when torch is imported
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # paths that are not UTF-8
    try:
        if (("--out", "-") in pairwise(sys.argv) or "--out=-" in sys.argv) and sys.argv[1] != "predict":
            raise UserError("--out -: only unihssl predict prints on standard output; name a file or a folder")
        sys.exit(app(standalone_mode=False) if len(sys.argv) > 1 else app())
    except UserError as error:
        typer.echo(f"error: {error.worded(as_options)}", err=True)
        sys.exit(1)
    except UsageError as error:
        command = error.ctx.command_path if getattr(error, "ctx", None) else "unihssl"
        if message := _usage_message(error):
            typer.echo(printable(f"error: {message} See: {command} --help"), err=True)
        sys.exit(2)
    except RunInterruptedError as stop:
        typer.echo(stop.worded(as_options), err=True)
        sys.exit(130)
    except OSError as error:  # of the machine: a name too long, no permission, a full disk behind standard output
        place = f"{error.filename}: " if error.filename else ""
        typer.echo(printable(f"error: {place}{error.strerror or error}"), err=True)
        sys.exit(1)
    except (typer.Abort, KeyboardInterrupt):
        typer.echo("stopped", err=True)
        sys.exit(130)
    except (MemoryError, RuntimeError) as error:
        if not (whose := full_memory(error)):
            raise
        typer.echo(
            f"error: the {whose}'s memory is full: end other programs, or give fewer or smaller samples", err=True
        )
        sys.exit(1)

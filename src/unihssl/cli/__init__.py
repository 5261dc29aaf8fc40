"""The command line. Commands import what they need when they run, so that help is instant."""

import os
import sys
from typing import Any

import typer

from unihssl.cli import ablation, benchmark, data, demo, evaluate, methods, plot, predict, sensitivity, table, train
from unihssl.errors import RunInterruptedError, UserError

# How long torch's CPU threads spin for each other before they sleep. Where other programs want the same cores, spinning
# for longer made small networks at least twice as slow (results/README.md); where none did, this made no difference.
SPINS = "10000"

UsageError: Any = typer.BadParameter.__base__  # typer has its own copy of click since 0.20, click's before

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


for module in (demo, train, evaluate, predict, plot, methods, benchmark, ablation, sensitivity, table, data):
    module.register(app)


def _as_knob(error: Any) -> str:
    """What to write where an option is unknown, but a knob has its name."""
    from unihssl.config import Settings

    name = str(getattr(error, "option_name", "")).removeprefix("--").replace("-", "_")
    commands = {option for parameter in error.ctx.command.params for option in parameter.opts} if error.ctx else set()
    known = "--set" in commands and name in Settings.__dataclass_fields__
    return f"; that is a knob: --set {name}=VALUE" if known else ""


def main() -> None:
    """Run a command; what the user got wrong is one line on stderr: exit code 1, or 2 for the call itself."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # read when torch is imported
    try:
        sys.exit(app(standalone_mode=False) if len(sys.argv) > 1 else app())
    except UserError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    except UsageError as error:
        command = error.ctx.command_path if getattr(error, "ctx", None) else "unihssl"
        if message := error.format_message().rstrip("."):  # it has none where the help was shown instead
            end = "" if message.endswith("?") else f"{_as_knob(error)}."
            typer.echo(f"error: {message}{end} See: {command} --help", err=True)
        sys.exit(2)
    except (RunInterruptedError, typer.Abort, KeyboardInterrupt) as stop:
        typer.echo(str(stop) or "stopped", err=True)
        sys.exit(130)

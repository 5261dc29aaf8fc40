"""What several commands share: options, how settings are spelled on the command line, how a result is shown."""

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from unihssl.errors import Setting, UserError

UsageError: Any = typer.BadParameter.__base__  # of click, or of typer's own copy of it since 0.20

JSON = typer.Option(False, "--json", help="Print JSON on stdout and nothing else.")
HELD_OUT = typer.Option(
    False, "--held-out", help="The sources given are the run's own: use only what it held out of them."
)
DOMAINS = ("labeled", "unlabeled")
DEVICE = typer.Option("auto", help="auto, cpu or cuda.")
UNLABELED = typer.Option([], help="Where the unlabeled domain is now, or other images of it; repeatable.")
SETTINGS = typer.Option([], "--set", metavar="NAME=VALUE", help="Set any knob; may be repeated.")

READING = typer.Option(
    [], "--set", metavar="NAME=VALUE", help="How a CSV is read, such as path_column=file. [default: as the run did]"
)

FLAGS = {"resume", "held_out", "int8"}
OPTIONS = {"labeled", "unlabeled", "out", "config"}  # settings have --set, which more commands have
OPTIONS |= {"root", "pair", "pairs", "methods", "of", "knob", "values", "seeds", "schedule"}
OPTIONS |= {"launcher", "workers", "gpus_per_run"}
OPTIONS |= {"n", "labels", "max_risk", "max_loss", "target_labels", "unknown_above", "by", "classes", "run", "port"}


def as_options(setting: Setting) -> str:
    """A setting in an error message as it is spelled on the command line.

    >>> as_options(Setting("seeds", 3)), as_options(Setting("lr", 0.1)), as_options(Setting("resume", True))
    ('--seeds 3', '--set lr=0.1', '--resume')
    """
    if setting.name == "resume_call":
        return shlex.join(["unihssl", "train", "--resume", "--out", str(setting.value)])
    option = f"--{setting.name.replace('_', '-')}"
    value = shlex.quote(f"{setting.value:g}" if isinstance(setting.value, float) else str(setting.value))
    if setting.name in FLAGS or (setting.name in OPTIONS and setting.value is None):
        return option
    if setting.name in OPTIONS:
        return f"{option} {value}"
    return f"--set {setting.name}" if setting.value is None else f"--set {setting.name}={value}"


def one_source(given: list[str]) -> str | None:
    """What a repeated option names, as the one text that stands for all of it; None if it was not given."""
    from unihssl.data.source import SEPARATOR

    return SEPARATOR.join(given) or None


class Command(TyperCommand):
    """Refuses a second source where one is taken; the last would win in silence."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, options = self.make_parser(ctx).parse_args(list(args))
        given = Counter(option.name for option in options)
        for name in ("labeled", "target_labels", "labels", "config"):
            if given[name] > 1:
                raise UserError(f"{Setting(name)} was given {given[name]} times; name one")
        return super().parse_args(ctx, args)


def print_json(content: Any) -> None:
    typer.echo(json.dumps(content))


def split_setting(text: str) -> tuple[str, str]:
    """Name and value of `--set NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UserError(f"--set takes NAME=VALUE, got '{text}'")
    return name.strip(), value.strip()


def show_result(result: dict[str, Any], as_json: bool, domains: Sequence[str] = DOMAINS) -> None:
    """Print accuracies, pooled and by domain, of every prediction rule; `domains` were to be measured."""
    if as_json:
        return print_json(result)
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    measured = {name: result[name] for name in ("pooled", "labeled", "unlabeled") if name in result}
    if not measured:
        typer.echo(f"No labeled test images were held out, so nothing was measured. Run: {result.get('run')}")
        return
    rules = sorted(next(iter(measured.values()))["accuracy_by_rule"], key=lambda rule: rule != result["rule"])
    columns = ["test images", "n", "accuracy", *(f"by {rule}" for rule in rules[1:]), "class mean", "macro F1"]
    title = f"Test accuracy (prediction rule: {result['rule']})" if len(rules) > 1 else "Test accuracy"
    table = Table(*columns, title=title, title_justify="left")
    labels = {"pooled": "both, pooled", "labeled": "labeled domain", "unlabeled": "unlabeled domain"}
    for name, part in (measured | result.get("sources", {})).items():
        numbers = [*(part["accuracy_by_rule"][rule] for rule in rules), part["class_mean_accuracy"], part["macro_f1"]]
        shares = (f"{100 * number:.1f}%" for number in numbers)
        table.add_row(Text(labels.get(name, f"  {name}")), str(part["n"]), *shares)
    Console().print(table)
    for name in domains:
        if name not in result:
            run = shlex.quote(str(result.get("run", "")))
            ways = [f"unihssl evaluate {run} --{name} FOLDER, with a folder for each class"]
            ways += [f"unihssl audit {run} --n 100 --out audit.csv, to label 100"] if name == "unlabeled" else []
            hint = f"; to measure it: {'; or '.join(ways)}" if "run" in result else ""
            typer.echo(f"The {name} domain was not measured: no test images of known class{hint}")
    if "domain_accuracy" in result:
        typer.echo(f"Domain of a test image predicted correctly: {100 * result['domain_accuracy']:.1f}%")
    if "run" in result:
        typer.echo(f"Run directory: {result['run']}")

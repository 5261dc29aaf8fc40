"""What several commands share: the --json flag, where runs go, --set parsing, and how a result is shown."""

import json
from pathlib import Path
from typing import Any

import typer

from unihssl.errors import UserError

JSON = typer.Option(False, "--json", help="Print JSON on stdout and nothing else.")

HELD_OUT = typer.Option(
    False, "--held-out", help="The sources given are the run's own: take only what it held out of them."
)

# Commands that run a grid take these three; experiments.launchers.make_launcher takes their values.
LAUNCHER = typer.Option("local", help="Where runs go: local (processes here) or ray (a cluster; see docs/scaling.md).")
WORKERS = typer.Option(2, min=1, help="Runs at a time, each in its own process; they share the GPUs.")
GPUS_PER_RUN = typer.Option(
    None, metavar="SHARE", help="With ray: GPUs of each run, 0.25 for four runs on a card. [default: room for all]"
)

# Those on a data set of the catalog take these too; cli.grid makes a protocol of their values.
DATASET = typer.Argument(help="Data set: digits, office-31, office-home, visda-2017, isic-2019, pacs, ...")
ROOT = typer.Option(Path("data"), help="Folder or archive of the data set; see: unihssl data check.")
PAIRS = typer.Option(
    "", help="labeled/unlabeled pairs with commas, or paper, or all. [default: the paper's where it has any, else all]"
)
SEEDS = typer.Option(3, min=1, help="Seeds 0, 1, ... to run each with.")
PRESET = typer.Option(
    "", help="How long to train: paper (10 + 100 epochs), fast, or recipe. [default: paper; digits: recipe]"
)
BACKBONE = typer.Option("", help="timm model name or small_cnn. [default: the paper's for the data set]")
WEIGHTS = typer.Option("", help="pretrained, none, or a weights file.", show_default="pretrained")
GROUP_BY = typer.Option("", help="Keep groups on one side of the split: lesion_id of isic-2019.")
SETTINGS = typer.Option([], "--set", metavar="NAME=VALUE", help="Set any knob; may be repeated.")
OUT = typer.Option(None, help="Folder of the runs; finished ones are not run again. [default: runs/DATASET]")


def split_setting(text: str) -> tuple[str, str]:
    """NAME=VALUE of --set."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UserError(f"--set takes NAME=VALUE, got '{text}'")
    return name.strip(), value.strip()


def show_result(result: dict[str, Any], as_json: bool) -> None:
    """Accuracy pooled and by domain, by every prediction rule."""
    if as_json:
        typer.echo(json.dumps(result))
        return
    from rich.console import Console
    from rich.table import Table

    measured = [result[name] for name in ("pooled", "labeled", "unlabeled") if name in result]
    if not measured:
        typer.echo(f"No labeled test images were held out, so nothing was measured. Run: {result.get('run')}")
        return
    rules = list(measured[0]["accuracy_by_rule"])
    others = [f"by {rule}" for rule in rules if rule != result["rule"]]
    columns = ["test images", "n", "accuracy", *others, "class mean", "macro F1"]
    title = f"Test accuracy (prediction rule: {result['rule']})" if others else "Test accuracy"
    table = Table(*columns, title=title, title_justify="left")
    for name in ("pooled", "labeled", "unlabeled"):
        label = "both, pooled" if name == "pooled" else f"{name} domain"
        if name not in result:
            continue
        part = result[name]
        ordered = sorted(rules, key=lambda rule: rule != result["rule"])
        by_rule = [f"{100 * part['accuracy_by_rule'][rule]:.1f}%" for rule in ordered]
        rest = [f"{100 * part[key]:.1f}%" for key in ("class_mean_accuracy", "macro_f1")]
        table.add_row(label, str(part["n"]), *by_rule, *rest)
    Console().print(table)
    missing = [name for name in ("labeled", "unlabeled") if name not in result]
    if missing:
        way = f"; give some with: unihssl evaluate {result['run']} --{missing[0]} FOLDER" if "run" in result else ""
        typer.echo(f"The {missing[0]} domain was not measured: no test images of known class{way}")
    if "domain_accuracy" in result:
        typer.echo(f"Domain of a test image told right: {100 * result['domain_accuracy']:.1f}%")
    if "run" in result:
        typer.echo(f"Run directory: {result['run']}")

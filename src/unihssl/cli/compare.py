"""`unihssl compare`"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from unihssl.cli.options import JSON, as_options, print_json, split_setting
from unihssl.cli.settings_options import with_settings
from unihssl.cli.train import check_sources
from unihssl.errors import RunInterruptedError, Setting, UserError

if TYPE_CHECKING:
    from unihssl.experiments.results import Record

METHODS = "supervised,mcc+sup,unihssl"
FIXED = ("method", "preset", "seed")  # by --methods and --seeds


@partial(with_settings, hidden=FIXED)
def compare(
    labeled: str = typer.Option(help="Labeled domain, as for unihssl train."),
    unlabeled: list[str] = typer.Option(help="Unlabeled domain, as for unihssl train."),
    methods: str = typer.Option(METHODS, help="Methods with commas; mcc:original is one with another preset."),
    seeds: int = typer.Option(3, min=1, help="Seeds 0, 1, ... to train each with."),
    out: Path = typer.Option(Path("runs/compare"), help="Folder of the runs; finished ones are not trained again."),
    settings: list[str] = typer.Option([], "--set", metavar="NAME=VALUE", help="Set any knob of all runs."),
    json: bool = JSON,
    *,
    knobs: dict[str, Any],
) -> None:
    """Train several methods on your own two domains and compare them in one table.

    Where classes of the unlabeled domain are known, they measure the methods there. Where none are, the runs are ranked
    by scores that need no label of that domain (`unihssl select`), and the table holds the labeled domain alone.

    The last stage of every method is as long as Uni-HSSL's, unless you say how long or name a preset; those before it
    are the method's own. Repeat the command to resume: finished runs are not trained again.
    """
    sources = unlabeled if len(unlabeled) > 1 else unlabeled[0]
    check_sources(labeled, sources)

    from unihssl.cli.display import TerminalDisplay
    from unihssl.cli.grid_command import show
    from unihssl.cli.select import show_ranking
    from unihssl.experiments.pair_tables import detail_rows
    from unihssl.experiments.results import read_records
    from unihssl.experiments.selection import select
    from unihssl.pipeline.train import train

    asked = dict(map(split_setting, settings)) | knobs
    if fixed := asked.keys() & set(FIXED):
        name = min(fixed)
        option = f"--{name}" if name in knobs else f"--set {name}"
        raise UserError(f"{option}: methods and seeds are chosen by --methods and --seeds (mcc:original is a preset)")
    recipes = make_recipes(methods, asked)
    folders = []
    with TerminalDisplay(quiet=json) as display:
        display.note(f"{len(recipes) * seeds} runs, one after another; each says how long it will take")
        for seed in range(seeds):
            for row, recipe in recipes.items():
                folder = out / f"{row.replace(':', '-')}-{seed}"
                folders.append(folder)
                display.note(f"{row}, seed {seed}")
                try:
                    train(folder, labeled, sources, recipe | {"seed": seed}, resume=folder.exists(), display=display)
                except RunInterruptedError:
                    if display.silent:  # the first process reports it
                        raise typer.Exit(130) from None
                    raise RunInterruptedError("stopped; rerun to continue with the unfinished runs") from None
    if display.silent:
        return
    records = read_records(folders)
    measured = any("unlabeled" in record.result for record in records)
    try:
        ranking = [] if measured or len(folders) < 2 else select(folders)
    except UserError as error:  # too few images, say: the table is there all the same
        display.note(f"note: the runs are not ranked: {error.worded(as_options)}")
        ranking = []
    if json:
        best = {"ranking": [{"run": str(c.run), **c.scores} for c in ranking]} if ranking else {}
        return print_json({"rows": detail_rows(records)} | best)
    if any("pooled" in record.result for record in records):
        show(records)
    else:
        show_details(records)
    by_class = sorted({record.label for record in records if "sampling" in record.result})
    if by_class and len(by_class) < len(recipes):
        everywhere = as_options(Setting("sampling", "balanced"))
        typer.echo(f"{', '.join(by_class)} drew labeled classes equally often, the others in turn ({everywhere}: all)")
    steps = {record.label: record.steps for record in records if record.steps}
    typer.echo(f"steps of all stages: {', '.join(f'{label} {count}' for label, count in steps.items())}")
    if ranking:
        typer.echo("No class of the unlabeled domain is known, so nothing above says how good a method is there.")
        show_ranking(ranking)
    typer.echo(f"The runs are in {out}")


def show_details(records: Sequence["Record"]) -> None:
    """The tables where nothing is pooled: each pair in detail, and the remarks of the table of pooled accuracies."""
    from rich.console import Console

    from unihssl.experiments.pair_tables import detail_tables
    from unihssl.experiments.render import terminal
    from unihssl.experiments.tables import main_tables

    console, remarks = Console(), [remark for table in main_tables(records) for remark in table.remarks]
    *tables, last = detail_tables(records)
    for table in (*tables, replace(last, remarks=(*last.remarks, *remarks))):
        console.print(terminal(table, console.width))


def make_recipes(rows: str, asked: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The knobs of each row; without a length or a preset its last stage is as long as the default method's."""
    from unihssl.methods.recipe import LENGTHS, resolve

    common = resolve({name: asked[name] for name in ("backbone", "optimizer") if name in asked})[0]
    length = {} if LENGTHS & asked.keys() else {"epochs": common.epochs, "max_steps": common.max_steps}
    recipes = {}
    for row in (name.strip() for name in rows.split(",")):
        method, _, preset = row.partition(":")
        recipes[row] = asked | {"method": method} | ({"preset": preset} if preset else length)
        resolve(recipes[row])  # refuses bad values before anything is trained
    return recipes

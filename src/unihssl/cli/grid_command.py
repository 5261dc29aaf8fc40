"""What benchmark, ablation and sensitivity share: their options, and the way from runs to tables."""

import functools
import inspect
import typing
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from unihssl.cli.options import JSON, SETTINGS, as_options, print_json, split_setting
from unihssl.errors import UserError

if TYPE_CHECKING:
    from unihssl.experiments.protocol import Protocol
    from unihssl.experiments.results import Record
    from unihssl.experiments.runner import Run


@dataclass(frozen=True)
class GridOptions:
    """The shared options: each field is a parameter of the commands, in the order of their help."""

    dataset: str = typer.Argument(help="Data set: digits, office-31, office-home, visda-2017, isic-2019, pacs, ...")
    root: Path = typer.Option(Path("data"), help="Folder or archive of the data set; see: unihssl data check.")
    pairs: str = typer.Option(
        "",
        help="labeled/unlabeled pairs with commas, or paper, or all. "
        "[default: the paper's where it has any, else all; sensitivity: the first]",
    )
    seeds: int = typer.Option(3, min=1, help="Seeds 0, 1, ... to run each with.")
    schedule: str = typer.Option(
        "", help="How long to train: paper (10 + 100 epochs), fast, or recipe. [default: paper; digits: recipe]"
    )
    backbone: str = typer.Option("", help="timm model name or small_cnn. [default: the paper's for the data set]")
    weights: str = typer.Option("", help="pretrained, none, or a weights file.", show_default="pretrained")
    group_by: str = typer.Option("", help="Keep groups on one side of the split: lesion_id of isic-2019.")
    settings: list[str] = SETTINGS
    out: Path | None = typer.Option(
        None, help="Folder of the runs; finished ones are not run again. [default: runs/DATASET]"
    )
    launcher: str = typer.Option(
        "local", help="Where runs go: local (processes here) or ray (a cluster; see docs/scaling.md)."
    )
    workers: int = typer.Option(2, min=1, help="Runs at a time, each in its own process; they share the GPUs.")
    gpus_per_run: float | None = typer.Option(
        None, metavar="SHARE", help="With ray: GPUs of each run, 0.25 for four runs on a card. [default: room for all]"
    )
    json: bool = JSON

    def protocol(self) -> "Protocol":
        from unihssl.data import catalog
        from unihssl.experiments.protocol import Protocol

        if self.weights not in ("", "pretrained", "none") and not Path(self.weights).is_file():
            raise UserError(f"{self.weights}: no such weights file")
        asked = {"backbone": self.backbone, "weights": self.weights, "group_by": self.group_by}
        asked = dict(map(split_setting, self.settings)) | {name: value for name, value in asked.items() if value}
        return Protocol(catalog.get(self.dataset), self.root, self.schedule, asked)


OWN_AFTER = "pairs"  # a command's own options follow this one


def grid_command(command: Callable[..., None]) -> Callable[..., None]:
    """Add the shared options to a command's signature; the command gets them as its first argument, `GridOptions`."""
    hints = typing.get_type_hints(GridOptions)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters: list[inspect.Parameter] = []
    for field in fields(GridOptions):
        parameters.append(inspect.Parameter(field.name, keyword, default=field.default, annotation=hints[field.name]))
        if field.name == OWN_AFTER:
            own = list(inspect.signature(command).parameters.values())[1:]
            parameters += [parameter.replace(kind=keyword) for parameter in own]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        options = GridOptions(**{field.name: values.pop(field.name) for field in fields(GridOptions)})
        command(options, **values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def run_and_report(options: GridOptions, protocol: "Protocol", runs: Sequence["Run"]) -> None:
    """Train what is not finished, with a line for each run, then show the tables of these runs.

    The written tables are of all runs of the data set and experiment in the output folder.
    """
    from unihssl.cli.grid_progress import GridProgress, name_of
    from unihssl.data.source import counted, first_few
    from unihssl.experiments.launchers import make_launcher
    from unihssl.experiments.pair_tables import detail_rows
    from unihssl.experiments.report import write_report
    from unihssl.experiments.results import read_records
    from unihssl.experiments.runner import distinct, finished, run_grid
    from unihssl.files import make_folder

    launcher = make_launcher(options.launcher, options.workers, options.gpus_per_run)
    out = options.out or Path("runs") / protocol.dataset.name
    runs = distinct(runs)
    waiting = [run for run in runs if not finished(run, out.resolve())]
    for note in [*protocol.cautions(), *(protocol.check([run.pair for run in waiting]) if waiting else [])]:
        typer.echo(f"note: {note}", err=True)
    make_folder(out)
    if waiting:
        done = f", {len(runs) - len(waiting)} already finished" if len(waiting) < len(runs) else ""
        count = counted(len(waiting), "run")
        typer.echo(f"{count} to train{done}; {launcher.workers} at a time, in {out}", err=True)
    failures: dict[str, str] = {}
    with (
        GridProgress(waiting, out.resolve()) as progress,
        closing(run_grid(runs, protocol.loader, out, launcher, as_options)) as grid,
    ):
        for number, run in enumerate(grid, start=1):
            trained = number > len(runs) - len(waiting)
            if trained:
                progress.end(run)
            accuracy = f"{100 * run.result['pooled']['accuracy']:.1f}%" if "pooled" in run.result else "done"
            outcome = accuracy + ("" if trained else " (already finished)")
            if run.failure:
                repeated = run.failure in failures.values()
                outcome = "failed like an earlier run" if repeated else f"failed: {run.failure}"
                failures[name_of(run)] = run.failure
            if not options.json:
                progress.print(f"[{number}/{len(runs)}] {name_of(run)}: {outcome}")
    roles = {(role.experiment, role.variant) for run in runs for role in run.roles}
    folders = {folder for run in runs if (folder := run.folder(out)).is_dir()}
    records = [r for r in read_records(folders) if (r.experiment, r.variant) in roles]
    if options.json:
        print_json(detail_rows(records))
    else:
        show(records)
    if records:
        table = records[0].dataset, records[0].experiment
        known = [r for r in read_records([out], preferred=folders) if (r.dataset, r.experiment) == table]
        if note := write_report(known, out, records[0].experiment):
            typer.echo(f"note: {note}", err=True)
        typer.echo(f"The tables are in {out}", err=True)
    if failures:
        named = f"{first_few(list(failures))}; first: {next(iter(failures.values()))}"
        raise UserError(f"{len(failures)} of {len(runs)} runs failed: {named}")


def show(records: Sequence["Record"]) -> None:
    from rich.console import Console

    from unihssl.experiments.render import terminal
    from unihssl.experiments.report import all_tables

    console = Console()
    for table in all_tables(records):
        console.print(terminal(table, console.width))

"""What the commands that train a grid of runs share: from options to a protocol, and from runs to tables."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from unihssl.cli.options import split_setting
from unihssl.errors import UserError

if TYPE_CHECKING:
    from unihssl.experiments.launchers import Launcher
    from unihssl.experiments.protocol import Protocol
    from unihssl.experiments.results import Record
    from unihssl.experiments.runner import Run


def make_protocol(
    dataset: str, root: Path, preset: str, backbone: str, weights: str, group_by: str, settings: Sequence[str]
) -> "Protocol":
    from unihssl.data import catalog
    from unihssl.experiments.protocol import Protocol

    if weights not in ("", "pretrained", "none") and not Path(weights).is_file():
        raise UserError(f"{weights}: no such weights file")
    asked = {"backbone": backbone, "weights": weights, "group_by": group_by}
    asked = dict(map(split_setting, settings)) | {name: value for name, value in asked.items() if value}
    return Protocol(catalog.get(dataset), root, preset, asked)


def run_and_report(
    protocol: "Protocol", runs: Sequence["Run"], out: Path | None, launcher: "Launcher", as_json: bool
) -> None:
    """Train what is not finished, saying so line by line; then show the tables of these runs.

    Those that are written are of all runs of the data set and experiment in `out`: a call for some adds to them.
    """
    from unihssl.cli.grid_progress import GridProgress, name_of
    from unihssl.data.catalog.dataset import counted
    from unihssl.data.readers import some
    from unihssl.experiments.pair_tables import detail_rows
    from unihssl.experiments.report import write_report
    from unihssl.experiments.results import read_records
    from unihssl.experiments.runner import distinct, finished, run_grid
    from unihssl.files import make_folder

    out = out or Path("runs") / protocol.dataset.name
    runs = distinct(runs)
    waiting = [run for run in runs if not finished(run, out.resolve())]
    for note in [*protocol.cautions(), *(protocol.check([run.pair for run in waiting]) if waiting else [])]:
        typer.echo(f"note: {note}", err=True)
    make_folder(out)
    if waiting:
        before = f", {len(runs) - len(waiting)} were finished" if len(waiting) < len(runs) else ""
        count = counted(len(waiting), "run")
        typer.echo(f"{count} to train{before}; {launcher.workers} at a time, in {out}", err=True)
    failures: dict[str, str] = {}
    with (
        GridProgress(waiting, out.resolve()) as progress,
        closing(run_grid(runs, protocol.loader, out, launcher)) as grid,
    ):
        for number, run in enumerate(grid, start=1):
            trained = number > len(runs) - len(waiting)
            if trained:
                progress.over(run)
            outcome = _accuracy(run) + ("" if trained else " (was finished)")
            if run.failure:
                outcome = "failed, as one before" if run.failure in failures.values() else f"failed: {run.failure}"
                failures[name_of(run)] = run.failure
            if not as_json:
                progress.say(f"[{number}/{len(runs)}] {name_of(run)}: {outcome}")
    wanted = {(role.experiment, role.variant) for run in runs for role in run.roles}
    folders = {folder for run in runs if (folder := run.folder(out)).is_dir()}
    records = [r for r in read_records(folders) if (r.experiment, r.variant) in wanted]
    if as_json:
        import json

        typer.echo(json.dumps(detail_rows(records)))
    else:
        show(records)
    if records:
        of = records[0].dataset, records[0].experiment
        known = [r for r in read_records([out], preferred=folders) if (r.dataset, r.experiment) == of]
        if note := write_report(known, out, records[0].experiment):
            typer.echo(f"note: {note}", err=True)
        typer.echo(f"The tables are in {out}", err=True)
    if failures:
        named = f"{some(list(failures))}; first: {next(iter(failures.values()))}"
        raise UserError(f"{len(failures)} of {len(runs)} runs failed: {named}")


def show(records: Sequence["Record"]) -> None:
    from rich.console import Console

    from unihssl.experiments.pair_tables import detail_tables
    from unihssl.experiments.render import terminal
    from unihssl.experiments.tables import main_tables

    console = Console()
    for table in [*main_tables(records), *detail_tables(records)]:
        console.print(terminal(table, console.width))


def _accuracy(run: "Run") -> str:
    return f"{100 * run.result['pooled']['accuracy']:.1f}%" if "pooled" in run.result else "done"

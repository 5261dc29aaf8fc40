"""`unihssl demo`"""

from pathlib import Path
from typing import Any

import typer

from unihssl.cli.options import JSON, SETTINGS, print_json, split_setting
from unihssl.cli.report import add_report
from unihssl.errors import RunInterruptedError

METHODS = {"supervised": "Supervised", "unihssl": "Uni-HSSL"}


def demo(
    reverse: bool = typer.Option(False, "--reverse", help="UCI labeled, MNIST unlabeled: the harder direction."),
    seed: int = typer.Option(0, min=0, help="First seed."),
    seeds: int = typer.Option(1, min=1, help="Repeat with this many seeds and show the means."),
    settings: list[str] = SETTINGS,
    out: Path | None = typer.Option(
        None, help="Folder of the runs; the same command resumes them.", show_default="a new temporary one"
    ),
    json: bool = JSON,
) -> None:
    """Train on real digits that ship with the package: MNIST labeled, UCI unlabeled.

    Compares Supervised (labeled data alone) with Uni-HSSL on held-out digits of both domains. Nothing is downloaded;
    it takes about a minute on two CPU cores.
    """
    import tempfile
    import time

    from unihssl.cli.display import TerminalDisplay
    from unihssl.data import catalog
    from unihssl.experiments.protocol import Protocol
    from unihssl.files import make_folder
    from unihssl.methods.recipe import all_knobs, resolve
    from unihssl.pipeline.train import train

    protocol = Protocol(catalog.get("digits"), asked=dict(map(split_setting, settings)))
    protocol.check_asked([*METHODS])
    requested = {method: protocol.knobs(method) for method in METHODS}
    recipes = {method: all_knobs(*resolve(knobs)) for method, knobs in requested.items()}  # refuses bad values early
    if out:
        make_folder(out)
    folder = out or Path(tempfile.mkdtemp(prefix="unihssl-demo-"))
    labeled, unlabeled = catalog.load("digits", "uci/mnist" if reverse else "mnist/uci")
    runs: list[dict[str, Any]] = []
    with (
        TerminalDisplay(quiet=json) as ours,
        TerminalDisplay(quiet=True) as baseline,  # need not warn: it cannot learn the unlabeled domain
    ):
        for number in range(seed, seed + seeds):
            for method in METHODS:
                ours.note(f"{METHODS[method]}, seed {number}")
                display = ours if method == "unihssl" else baseline
                begin = time.monotonic()
                path = folder / f"{'reverse-' if reverse else ''}{method}-{number}"
                resume = path.exists()
                knobs = (recipes if resume else requested)[method] | {"seed": number}  # all of them must agree
                try:
                    model = train(path, labeled, unlabeled, knobs, resume=resume, display=display)
                except RunInterruptedError:
                    what_next = "rerun to continue" if out else f"repeat it with --out {folder} to continue"
                    raise RunInterruptedError(f"stopped; {what_next}") from None
                runs.append({"method": method, "seed": number, "seconds": time.monotonic() - begin, **model.result})
        report = add_report(path, ours, labeled=labeled, unlabeled=unlabeled)  # of the last run, which is ours
    title = "UCI labeled, MNIST unlabeled" if reverse else "MNIST labeled, UCI unlabeled"
    if json:
        return print_json({"pair": title, "runs": runs, "out": str(folder)})
    _show(runs, title)
    typer.echo(f"Open {report} in a browser." if report else f"The runs are in {folder}")
    typer.echo("Your own images: unihssl train --labeled FOLDER --unlabeled FOLDER --out runs/first")


def _show(runs: list[dict[str, Any]], title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    seeds = len({run["seed"] for run in runs})
    heading = f"Digits, {title}: test accuracy, mean of {seeds} seed{'s' * (seeds > 1)}"
    table = Table(title=heading, title_justify="left")
    for column in ("method", "both domains, pooled", "labeled part", "unlabeled part", "time"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method, name in METHODS.items():
        own = [run for run in runs if run["method"] == method]
        parts = ("pooled", "labeled", "unlabeled")
        accuracy = [100 * sum(run[part]["accuracy"] for run in own) / seeds for part in parts]
        table.add_row(name, *(f"{a:.1f}%" for a in accuracy), f"{sum(run['seconds'] for run in own) / seeds:.0f} s")
    Console().print(table)

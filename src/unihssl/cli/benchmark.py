"""`unihssl benchmark`"""

from pathlib import Path

import typer

from unihssl.cli.grid_command import make_protocol, run_and_report
from unihssl.cli.options import (
    BACKBONE,
    DATASET,
    GPUS_PER_RUN,
    GROUP_BY,
    JSON,
    LAUNCHER,
    OUT,
    PAIRS,
    PRESET,
    ROOT,
    SEEDS,
    SETTINGS,
    WEIGHTS,
    WORKERS,
)


def register(app: typer.Typer) -> None:
    app.command()(benchmark)


def benchmark(
    dataset: str = DATASET,
    root: Path = ROOT,
    pairs: str = PAIRS,
    methods: str = typer.Option(
        "",
        help="Method names with commas, or paper, or all; mcc:original is a method with a preset of its own. "
        "[default: the paper's eight and unihssl on its data sets, else all]",
    ),
    seeds: int = SEEDS,
    preset: str = PRESET,
    backbone: str = BACKBONE,
    weights: str = WEIGHTS,
    group_by: str = GROUP_BY,
    settings: list[str] = SETTINGS,
    out: Path | None = OUT,
    launcher: str = LAUNCHER,
    workers: int = WORKERS,
    gpus_per_run: float | None = GPUS_PER_RUN,
    json: bool = JSON,
) -> None:
    """Run every method on the same splits of a data set's pairs and print one table, beside the paper's figures.

    Each run has a folder named by its configuration. An interrupted benchmark goes on where it was when called
    again; a failed run is named at the end and does not stop the others. table.md, .tex, .csv and .json are written
    beside the runs; `unihssl table` makes them again from the folders alone. How to read them: docs/experiments.md.
    """
    from unihssl.experiments.designs import benchmark_runs
    from unihssl.experiments.launchers import make_launcher

    protocol = make_protocol(dataset, root, preset, backbone, weights, group_by, settings)
    runs = benchmark_runs(protocol, protocol.pairs(pairs), protocol.methods(methods), seeds)
    run_and_report(protocol, runs, out, make_launcher(launcher, workers, gpus_per_run), json)

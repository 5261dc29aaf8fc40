"""`unihssl sensitivity`"""

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
    PRESET,
    ROOT,
    SEEDS,
    SETTINGS,
    WEIGHTS,
    WORKERS,
)


def register(app: typer.Typer) -> None:
    app.command()(sensitivity)


def sensitivity(
    dataset: str = DATASET,
    root: Path = ROOT,
    pairs: str = typer.Option(
        "", help="labeled/unlabeled pairs with commas, or paper, or all. [default: the first; of office-31 W/A]"
    ),
    knob: str = typer.Option("", help="The knob to vary. [default: the paper's four, one after the other]"),
    values: str = typer.Option("", help="Its values with commas. [default: ours for the paper's four]"),
    method: str = typer.Option(
        "", help="The method whose knob it is, or method:preset. [default: unihssl:paper; with --set preset=… unihssl]"
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
    """One knob through its values, all others as they are: lambda_pa, lambda_pl, lambda_mixup and beta, or any other.

    Runs are kept and resumed like those of `unihssl benchmark`, and shared with them in one --out. sensitivity.md,
    .tex, .csv and .json are written beside the runs.
    """
    from unihssl.experiments.designs import sensitivity_runs, sensitivity_values
    from unihssl.experiments.launchers import make_launcher
    from unihssl.experiments.paper import METHOD, UNIHSSL

    protocol = make_protocol(dataset, root, preset, backbone, weights, group_by, settings)
    chosen = protocol.pairs(pairs) if pairs else protocol.pairs()[:1]
    method = method or (METHOD if "preset" in protocol.asked else UNIHSSL)
    runs = sensitivity_runs(protocol, chosen, seeds, sensitivity_values(knob, values), method)
    run_and_report(protocol, runs, out, make_launcher(launcher, workers, gpus_per_run), json)

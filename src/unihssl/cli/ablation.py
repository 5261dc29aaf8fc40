"""`unihssl ablation`"""

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
    app.command()(ablation)


def ablation(
    dataset: str = DATASET,
    root: Path = ROOT,
    pairs: str = PAIRS,
    of: str = typer.Option("paper", help="The recipe to take apart: paper (its six variants), or robust."),
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
    """Uni-HSSL whole and with each part left out: the six variants of the paper's ablation.

    With --of robust: our recipe without each of its ingredients, and the paper's with each of them alone.

    Runs are kept and resumed like those of `unihssl benchmark`, and shared with them in one --out. ablation.md
    (ablation-of-robust.md), .tex, .csv and .json are written beside the runs.
    """
    from unihssl.experiments.designs import ablation_runs
    from unihssl.experiments.launchers import make_launcher

    protocol = make_protocol(dataset, root, preset, backbone, weights, group_by, settings)
    runs = ablation_runs(protocol, protocol.pairs(pairs), seeds, of)
    run_and_report(protocol, runs, out, make_launcher(launcher, workers, gpus_per_run), json)

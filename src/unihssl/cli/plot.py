"""`unihssl plot`"""

import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import typer

from unihssl.cli.options import DEVICE, HELD_OUT, JSON, Command, one_source, print_json

RUNS = "Run directories, or a grid's folder: every finished run below it."
PAIR = typer.Option("", help="Only runs of this pair, such as A/W.")
METHOD = typer.Option("", help="Only runs of this method, or of this row of a table.")
SEED = typer.Option(None, min=0, help="Only runs of this seed.")
OUT = typer.Option(
    None,
    help="Folder to write to; a figure of the same name is replaced.",
    show_default="plots in the run's own folder; of a figure of several runs, in the folder that holds them",
)
LABELED = typer.Option(None, help="Images of the labeled domain, in class folders, a CSV or an .npz.")
UNLABELED = typer.Option([], help="Images of the unlabeled domain, likewise; repeatable.")
LONGEST = 80  # characters of a figure's name


def register(app: typer.Typer) -> None:
    plot = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
    for command in (learning, confusion, features, sensitivity):
        plot.command(cls=Command)(command)
    app.add_typer(plot, name="plot", help="Figures of runs: learning, confusion, features, sensitivity.")


def learning(
    runs: list[Path] = typer.Argument(help=RUNS),
    pair: str = PAIR,
    method: str = METHOD,
    seed: int | None = SEED,
    out: Path | None = OUT,
    json: bool = JSON,
) -> None:
    """Losses, mask rate and pseudo-label accuracy against the training step.

    Run directories, finished or not, become one figure. Runs that differ in their seed alone become a mean and a band
    of ± one standard deviation. Of a grid's folder every run becomes a figure, learning-PAIR-ROW-SEED.
    """
    from unihssl.experiments import plots

    chosen = plots.select_runs(runs, plots.RunFilter(pair, method, seed))
    if all(map(plots.is_run, runs)):
        _print(plots.learning_curves(chosen, _shared(chosen, "learning", out)), json)
    else:
        stems = _stems(chosen, "learning", out)
        _print([file for run, stem in stems.items() for file in plots.learning_curves([run], stem)], json)


def confusion(
    runs: list[Path] = typer.Argument(help=RUNS),
    pair: str = PAIR,
    method: str = METHOD,
    seed: int | None = SEED,
    labeled: str | None = LABELED,
    unlabeled: list[str] = UNLABELED,
    held_out: bool = HELD_OUT,
    out: Path | None = OUT,
    device: str = DEVICE,
    json: bool = JSON,
) -> None:
    """Confusion matrices of both domains, on the run's own held-out images or on those given.

    Several runs become a figure each, confusion-PAIR-ROW-SEED.
    """
    from unihssl.experiments import plots

    plots.require_matplotlib()
    files: list[Path] = []
    chosen = plots.select_runs(runs, plots.RunFilter(pair, method, seed))
    for run, stem in _stems(chosen, "confusion", out).items():
        result = plots.run_result(run, labeled, one_source(unlabeled), held_out=held_out, device=device)
        files += plots.confusion_matrices(result, stem, title=plots.run_title(run))
    _print(files, json)


def features(
    run: Path = typer.Argument(help="Run directory of a finished run."),
    labeled: str | None = LABELED,
    unlabeled: list[str] = UNLABELED,
    held_out: bool = HELD_OUT,
    seed: int = typer.Option(0, min=0, help="Seed of the map and of the choice of its points."),
    out: Path | None = OUT,
    device: str = DEVICE,
    json: bool = JSON,
) -> None:
    """t-SNE maps of both domains' features, before and after training."""
    from unihssl.experiments.plots import feature_map, require_matplotlib, run_features

    require_matplotlib()
    f = run_features(run, labeled, one_source(unlabeled), held_out=held_out, device=device)
    titles = ("before training", f"after training ({f.method})")
    arrays = (f.before, f.after, f.domain, f.label)
    stem = _shared([run], "features", out)
    _print(feature_map(*arrays, stem, class_names=f.class_names, titles=titles, seed=seed), json)


def sensitivity(
    runs: list[Path] = typer.Argument(help="Folders of a sensitivity study's runs, or of folders of them."),
    out: Path | None = OUT,
    json: bool = JSON,
) -> None:
    """Accuracy against each knob of a sensitivity study, from its runs: sensitivity-KNOB."""
    from unihssl.errors import UserError
    from unihssl.experiments.report import draw_figures
    from unihssl.experiments.results import SENSITIVITY, read_all

    records = [r for r in read_all(runs) if r.experiment == SENSITIVITY]
    named = ", ".join(map(str, runs))
    if not records:
        raise UserError(f"{named}: no run of a sensitivity study is in it")
    datasets = sorted({r.dataset for r in records})
    if len(datasets) > 1:
        raise UserError(f"{named}: runs on {' and '.join(datasets)}; draw one data set at a time")
    files = draw_figures(records, out or _common_folder(runs) / "plots")
    if not files:
        raise UserError(f"{named}: nothing to draw: no value of a knob has a seed with all pairs")
    _print(files, json)


def _stems(runs: Sequence[Path], kind: str, out: Path | None) -> dict[Path, Path]:
    """Run -> its figure, without suffix: in the run's own folder, or in `out`, where several get their own names."""
    from unihssl.experiments.plots import figure_names
    from unihssl.run_folder import RunFolder

    if out is None:
        return {run: RunFolder(run).plots / kind for run in runs}
    if len(runs) == 1:
        return {runs[0]: out / kind}
    return {run: out / f"{kind}-{name}" for run, name in figure_names(runs).items()}


def _shared(runs: Sequence[Path], kind: str, out: Path | None) -> Path:
    """One figure of all runs, without suffix. In the folder that holds several, it is named after them."""
    from unihssl.run_folder import RunFolder

    if out is not None:
        return out / kind
    if len(runs) == 1:
        return RunFolder(runs[0]).plots / kind
    folder = _common_folder(runs)
    names = "-".join(sorted(str(run.resolve().relative_to(folder)).replace("/", "-") for run in runs))
    if len(names) > LONGEST:
        names = f"{len(runs)}-runs-{zlib.crc32(names.encode()):08x}"
    return folder / "plots" / f"{kind}-{names}"


def _common_folder(runs: Sequence[Path]) -> Path:
    return Path(os.path.commonpath([run.resolve() for run in runs]))


def _print(files: Sequence[Path], as_json: bool) -> None:
    paths = [str(file) for file in files]
    if as_json:
        print_json({"files": paths})
    else:
        typer.echo("\n".join(paths))

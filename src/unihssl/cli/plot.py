"""`unihssl plot`"""

from pathlib import Path

import typer

from unihssl.cli.options import JSON

RUN = typer.Argument(help="Run directory of a finished run.")
OUT = typer.Option(Path("plots"), help="Folder to write to; a figure of the same kind is replaced.")
LABELED = typer.Option(None, help="Images of the labeled domain, in class folders, a CSV or an .npz.")
UNLABELED = typer.Option(None, help="Images of the unlabeled domain, likewise.")
HELD_OUT = typer.Option(
    False, "--held-out", help="The sources given are the run's own: take only what it held out of them."
)
DEVICE = typer.Option("auto", help="auto, cpu or cuda.")


def register(app: typer.Typer) -> None:
    plot = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
    for command in (learning, confusion, features):
        plot.command()(command)
    app.add_typer(plot, name="plot", help="Figures of runs: learning, confusion, features.")


def learning(
    runs: list[Path] = typer.Argument(help="Run directories, finished or not."), out: Path = OUT, json: bool = JSON
) -> None:
    """Losses, mask rate and pseudo-label accuracy against the training step.

    Runs that differ in their seed alone become a mean and a band of ± one standard deviation.
    """
    from unihssl.experiments.plots import learning_curves

    _say(learning_curves(runs, out / "learning"), json)


def confusion(
    run: Path = RUN,
    labeled: str | None = LABELED,
    unlabeled: str | None = UNLABELED,
    held_out: bool = HELD_OUT,
    out: Path = OUT,
    device: str = DEVICE,
    json: bool = JSON,
) -> None:
    """Confusion matrices of both domains, on the run's own held-out images or on those given."""
    from unihssl.experiments.plots import confusion_matrices, require_matplotlib, run_guesses

    require_matplotlib()
    guesses = run_guesses(run, labeled, unlabeled, held_out=held_out, device=device)
    _say(confusion_matrices(guesses.parts, guesses.class_names, out / "confusion", title=guesses.method), json)


def features(
    run: Path = RUN,
    labeled: str | None = LABELED,
    unlabeled: str | None = UNLABELED,
    held_out: bool = HELD_OUT,
    seed: int = typer.Option(0, min=0, help="Seed of the map and of the choice of its points."),
    out: Path = OUT,
    device: str = DEVICE,
    json: bool = JSON,
) -> None:
    """t-SNE maps of both domains' features, of the encoder as training found it and as it left it."""
    from unihssl.experiments.plots import feature_map, require_matplotlib, run_features

    require_matplotlib()
    f = run_features(run, labeled, unlabeled, held_out=held_out, device=device)
    titles = ("before training", f"after training ({f.method})")
    arrays = (f.before, f.after, f.domain, f.label)
    _say(feature_map(*arrays, out / "features", class_names=f.class_names, titles=titles, seed=seed), json)


def _say(files: tuple[Path, ...], as_json: bool) -> None:
    import json

    typer.echo(json.dumps({"files": [str(f) for f in files]}) if as_json else "\n".join(str(f) for f in files))

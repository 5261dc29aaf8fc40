"""`unihssl evaluate`"""

from pathlib import Path

import typer

from unihssl.cli.options import HELD_OUT, JSON, show_result


def register(app: typer.Typer) -> None:
    app.command()(evaluate)


def evaluate(
    run: Path = typer.Argument(help="Run directory of a finished run."),
    labeled: str | None = typer.Option(None, help="Test images of the labeled domain, in class folders or a CSV."),
    unlabeled: str | None = typer.Option(None, help="Test images of the unlabeled domain, likewise."),
    held_out: bool = HELD_OUT,
    device: str = typer.Option("auto", help="auto, cpu or cuda."),
    json: bool = JSON,
) -> None:
    """Measure a trained model.

    Without options: on the run's own held-out images. With them: on all images of the sources given; make sure
    that none of them trained the model (the run's split.json lists those that did).
    """
    from unihssl.api import evaluate as measure

    result = measure(run, labeled, unlabeled, device, held_out=held_out)
    for note in [] if json else result["notes"]:
        typer.echo(f"note: {note}", err=True)
    show_result(result, json)

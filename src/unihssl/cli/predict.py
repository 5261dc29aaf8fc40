"""`unihssl predict`"""

from collections import Counter
from pathlib import Path

import typer

from unihssl.cli.options import JSON


def register(app: typer.Typer) -> None:
    app.command()(predict)


def predict(
    run: Path = typer.Argument(help="Run directory, or a folder written by save()."),
    images: list[str] = typer.Argument(help="Image files or folders (or one .npy, .npz or CSV)."),
    out: Path = typer.Option(Path("preds.csv"), help="CSV file to write."),
    device: str = typer.Option("auto", help="auto, cpu or cuda."),
    json: bool = JSON,
) -> None:
    """Classify images of either domain into a CSV file.

    Columns: path, class, confidence, a probability for each class, and the probability that the image comes from
    the unlabeled domain. Unreadable images are named and left out.
    """
    import json as json_format

    from unihssl.evaluation.model import load_model
    from unihssl.evaluation.table import write_predictions
    from unihssl.training.setup import pick_device

    model = load_model(run, pick_device(device))
    samples = images[0] if len(images) == 1 else images
    predictions = model.predictions(samples)
    write_predictions(out, model, predictions)
    counts = Counter(model.classes_[model.probabilities(predictions).argmax(1)].tolist())
    if json:
        summary = {
            "out": str(out),
            "images": len(predictions.names),
            "classes": counts,
            "notes": predictions.notes,
        }
        typer.echo(json_format.dumps(summary))
        return
    for note in predictions.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(f"{len(predictions.names)} images -> {out}")
    for name, count in counts.most_common():
        typer.echo(f"  {count:6d}  {name}")

"""`unihssl predict`"""

from collections import Counter
from pathlib import Path

import typer

from unihssl.cli.options import DEVICE, JSON, print_json


def predict(
    run: Path = typer.Argument(help="Run directory, or a folder written by save()."),
    images: list[str] = typer.Argument(help="Image files or folders (or one .npy, .npz or CSV)."),
    out: Path | None = typer.Option(None, help="CSV file to write; it is replaced.", show_default="a new preds.csv"),
    device: str = DEVICE,
    json: bool = JSON,
) -> None:
    """Classify images of either domain into a CSV file.

    Columns: path, class, confidence, a probability for each class, and the probability that the image comes from
    the unlabeled domain. Unreadable images are named and left out.
    """
    from unihssl.errors import UserError
    from unihssl.evaluation.model import load_model, write_predictions
    from unihssl.files import make_folder

    target = out or Path("preds.csv")
    if out is None and target.exists():
        raise UserError(f"{target} exists already: pass --out to name another file or to replace it")
    if target.is_dir():
        raise UserError(f"{target}: is a folder; --out names a CSV file")
    model = load_model(run, device)
    make_folder(target.parent)
    samples = images[0] if len(images) == 1 else images
    predictions = model.predictions(samples)
    write_predictions(target, model, predictions)
    counts = Counter(predictions.classes.tolist())
    if json:
        summary = {"out": str(target), "images": len(predictions.names), "classes": counts}
        return print_json(summary | {"notes": predictions.notes})
    for note in predictions.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(f"{len(predictions.names)} images -> {target}")
    for name, count in counts.most_common():
        typer.echo(f"  {count:6d}  {name}")

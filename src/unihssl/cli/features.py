"""`unihssl features`"""

from pathlib import Path
from typing import Any

import typer

from unihssl.cli.options import DEVICE, JSON, SETTINGS, as_options, print_json, split_setting


def features(
    images: str = typer.Argument(help="Folder of images (class folders give y), a CSV, an .npz or .npy of images."),
    out: Path = typer.Argument(help="File to write, an .npz; it is replaced."),
    backbone: str = typer.Option("", help="timm model name.", show_default="resnet50"),
    weights: str = typer.Option("", help="pretrained, none, or a weights file.", show_default="pretrained"),
    settings: list[str] = SETTINGS,
    device: str = DEVICE,
    json: bool = JSON,
) -> None:
    """Write the features that a frozen backbone has of images: x (N, D), y (class names) and names (N,).

    The file can be a domain of `unihssl train`, which then trains a small network on the features.
    """
    from unihssl.cli.display import TerminalDisplay
    from unihssl.errors import UserError, worded
    from unihssl.evaluation.extract import extract_features
    from unihssl.methods.recipe import resolve

    if out.suffix != ".npz":
        raise UserError(f"{out}: features are written to a file that ends in .npz")
    given: dict[str, Any] = {"backbone": backbone, "weights": weights}
    asked = dict(map(split_setting, settings)) | {name: value for name, value in given.items() if value}
    with TerminalDisplay(quiet=json) as display:
        found = extract_features(images, resolve(asked | {"device": device})[0], display.counter)
        notes = [worded(note, as_options) for note in found.notes]
        for note in notes:
            display.note(f"note: {note}")
    found.write(out)
    if json:
        classes = sorted(set(found.labels.tolist()) - {""})
        return print_json({"out": str(out), "shape": found.x.shape, "classes": classes, "notes": notes})
    typer.echo(f"{found.x.shape[0]} images, {found.x.shape[1]} features each -> {out}")

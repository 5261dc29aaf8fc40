"""`unihssl export`"""

from pathlib import Path

import typer

from unihssl.cli.options import JSON, one_source, print_json


def export(
    run: Path = typer.Argument(help="Run directory, or a folder written by save()."),
    path: Path = typer.Argument(help="File to write, .onnx or .pt2 (torch.export); it is replaced."),
    int8: bool = typer.Option(False, "--int8", help="Quantise to 8-bit integers, calibrated on training images."),
    max_loss: float = typer.Option(1.0, min=0, help="Points of accuracy that --int8 may cost on either domain."),
    labeled: str | None = typer.Option(None, help="With --int8: where the run's labeled data is now."),
    unlabeled: list[str] = typer.Option([], help="With --int8: where the run's unlabeled data is now; repeatable."),
    json: bool = JSON,
) -> None:
    """Write a trained model as one file that answers without this package.

    It takes decoded images of any size and gives class probabilities, the domain and, after `unihssl audit`,
    calibrated confidences and where to abstain. It is compared with PyTorch before it gets its name.
    """
    from unihssl.api import export_run

    was_there = path.is_file()  # not a pipe, which is written to
    metadata = export_run(run, path, int8=int8, labeled=labeled, unlabeled=one_source(unlabeled), max_loss=max_loss)
    if json:
        return print_json(metadata | {"out": str(path)})
    for role, of in (metadata["int8"] or {}).items():
        kind = "held-out" if of["held_out"] else "training"
        accuracy = "accuracy" if of["held_out"] else "agreement"
        numbers = f"{100 * of['float']:.1f}% as float, {100 * of['int8']:.1f}% as int8"
        typer.echo(f"{role} domain, {of['n']} {kind} samples: {accuracy} {numbers}")
    if was_there:
        typer.echo(f"note: {path} was there before and has been replaced", err=True)
    size = "images of any size" if metadata["stored_size"] else "vectors"
    typer.echo(f"{metadata['method']} on {metadata['backbone']}, takes {size} -> {path}")

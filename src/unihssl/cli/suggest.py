"""`unihssl suggest`"""

import shlex
from pathlib import Path

import typer

from unihssl.cli.options import DEVICE, JSON, UNLABELED, one_source, print_json


def suggest(
    run: Path = typer.Argument(help="Run directory of a finished run."),
    n: int = typer.Option(50, help="How many images.", min=1),
    out: Path = typer.Option(help="CSV file to write: images to label."),
    by: str = typer.Option(
        "clusters", help="clusters (uncertain images, one of each cluster), margin (the most uncertain) or random."
    ),
    exclude: list[Path] = typer.Option([], help="CSV files of images to leave out, such as an audit's; repeatable."),
    with_labels: bool = typer.Option(False, "--with-labels", help="Begin the file with the run's own target labels."),
    unlabeled: list[str] = UNLABELED,
    seed: int = typer.Option(0, min=0, help="Another seed suggests other images."),
    device: str = DEVICE,
    json: bool = JSON,
) -> None:
    """Suggest which images of the unlabeled domain to label.

    Writes a CSV to be filled in, best images first: by `unihssl label`, or by hand. Then train again with
    `--target-labels`. Never suggests test images, images with target labels, or those of the run's audit.
    """
    from unihssl.data.label_file import read_label_rows
    from unihssl.evaluation.load import load_model
    from unihssl.evaluation.suggest_run import draw_suggestions
    from unihssl.pipeline.settings import settings_of
    from unihssl.run_folder import RunFolder

    folder = RunFolder(run)
    rows = [(file.parent, row["path"]) for file in exclude for row in read_label_rows(file)]
    left_out = [name for place, path in rows for name in (path, str(place / path))]
    chosen_from = draw_suggestions(
        folder,
        load_model(run, device),
        settings_of(folder),
        out,
        n,
        by=by,
        seed=seed,
        unlabeled=one_source(unlabeled),
        exclude=left_out,
        with_labels=with_labels,
    )
    if json:
        return print_json({"out": str(out), "n": n, "chosen_from": chosen_from})
    own = len(folder.read_split()["unlabeled"].get("target_labels", ()))
    if own and not with_labels:
        typer.echo(f"note: {own} target labels of this run are not in {out}; --with-labels adds them", err=True)
    typer.echo(f"{n} of {chosen_from} images -> {out}")
    file = shlex.quote(str(out))
    typer.echo(f"Label them with: unihssl label {file}")
    sources = "".join(f" --unlabeled {shlex.quote(source)}" for source in unlabeled)
    config = shlex.quote(str(folder.config))
    typer.echo(f"Then train with: unihssl train --config {config}{sources} --target-labels {file} --out NEW")

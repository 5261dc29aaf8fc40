"""`unihssl predict`"""

import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from unihssl.cli.options import DEVICE, READING, print_json, split_setting
from unihssl.errors import UserError

FIRST_AUDIT = "unihssl audit {run} --n 100 --out audit.csv"


def predict(
    run: Path = typer.Argument(help="Run directory, or a folder written by save()."),
    images: list[str] = typer.Argument(help="Image files or folders (or one .npy, .npz or CSV)."),
    out: Path | None = typer.Option(
        None, help="CSV file to write; it is replaced. - is standard output.", show_default="a new preds.csv"
    ),
    max_risk: float | None = typer.Option(
        None, help="Share of wrong answers allowed, for the column abstain.", show_default="the audit's"
    ),
    unknown_above: float | None = typer.Option(
        None, help="Novelty, such as 99, above which the column unknown says yes.", min=1, max=100
    ),
    device: str = DEVICE,
    settings: list[str] = READING,
    json: bool = typer.Option(
        False, "--json", help="Print the predictions as JSON on stdout; a CSV file is written only with --out."
    ),
) -> None:
    """Classify images of either domain into a CSV file.

    Columns: path, class, confidence, novelty, a probability for each class, and the probability that the image comes
    from the unlabeled domain. Unreadable images are named and left out.

    A novelty of 99 means: the image is farther from all training images than 99% of these are from each other.

    After `unihssl audit` confidences and probabilities are calibrated, and the column abstain says where to give no
    answer, so that in the unlabeled domain at most --max-risk of the answers are wrong.
    """
    to_stdout = str(out) in ("-", "/dev/stdout")
    target = Path("preds.csv") if out is None else out
    if out is None and not json and target.exists():
        raise UserError(f"{target} exists already: pass --out to name another file or to replace it")
    if target.is_dir():
        raise UserError(f"{target}: is a folder; --out names a CSV file")
    if json and to_stdout:
        raise UserError("--json and --out - both print on standard output: choose one")

    from unihssl.evaluation.changed import changed_data_notes, other_version_note
    from unihssl.evaluation.load import load_model
    from unihssl.evaluation.predictions import NO_REFERENCE
    from unihssl.evaluation.samples import reading
    from unihssl.files import make_folder

    model = load_model(run, device)
    changes = [*other_version_note(model), *changed_data_notes(model)]
    model.settings = reading(model.settings, dict(map(split_setting, settings)))
    if model.audited is None and max_risk is not None:
        raise UserError(f"{run}: --max-risk needs an audit: {FIRST_AUDIT.format(run=shlex.quote(str(run)))}")
    if model.reference is None and unknown_above is not None:
        raise UserError(f"{run}: --unknown-above cannot be told: {NO_REFERENCE}")
    if not to_stdout:
        make_folder(target.parent)
    predictions = model.predictions(images[0] if len(images) == 1 else images)
    if out is not None or not json:
        predictions.to_csv(sys.stdout if to_stdout else target, max_risk, unknown_above)
    notes = [*predictions.notes, *changes, *_nothing_answered(model.audited, max_risk)]
    counts = Counter(predictions.classes.tolist())
    abstained = None if model.audited is None else int(model.abstains(predictions, max_risk).sum())
    unknown = None if unknown_above is None else int(predictions.is_unknown(unknown_above).sum())
    if json:
        summary: dict[str, Any] = {"out": None if out is None else str(target), "images": len(predictions.names)}
        summary |= {"classes": counts, "unknown": unknown, "abstained": abstained}
        summary |= {"notes": notes, "calibrated": model.audited is not None}
        table = predictions.columns(max_risk, unknown_above)
        rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        return print_json(summary | {"predictions": rows})
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    if abstained is None:
        way_out = FIRST_AUDIT.format(run=shlex.quote(str(run)))
        typer.echo(f"note: confidences are not calibrated for the unlabeled domain; to do so: {way_out}", err=True)
    if to_stdout:
        return
    answers = "" if abstained is None else f", {abstained} of them without an answer (abstain)"
    answers += "" if unknown is None else f", {unknown} of them probably of no class (unknown)"
    typer.echo(f"{len(predictions.names)} images{answers} -> {target}")
    for name, count in counts.most_common():
        typer.echo(f"  {count:6d}  {name}")


def _nothing_answered(audit: dict[str, Any] | None, max_risk: float | None) -> Iterator[str]:
    """A note where every image is left without an answer, because the audit cannot show the risk asked for."""
    from unihssl.evaluation.audit import risk_answer

    risk = None if audit is None else risk_answer(audit, audit["max_risk"] if max_risk is None else max_risk)
    if audit and risk and risk["threshold"] is None:
        yield (
            f"abstain is yes for every image: the {len(audit['sample']['label'])} labels of the audit cannot show that "
            f"{100 * risk['max_risk']:g}% of the answers or fewer would be wrong; raise --max-risk, or label more"
        )

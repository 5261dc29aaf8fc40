"""`unihssl audit`"""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from unihssl.cli.options import DEVICE, JSON, UNLABELED, one_source


def audit(
    run: Path = typer.Argument(help="Run directory of a finished run."),
    n: int = typer.Option(100, help="How many images to draw.", min=1),
    out: Path | None = typer.Option(None, help="CSV file to write: images to label, drawn at random."),
    labels: Path | None = typer.Option(None, help="That file, with its labels filled in: answer from it."),
    max_risk: float = typer.Option(0.05, help="Share of wrong answers allowed."),
    unlabeled: list[str] = UNLABELED,
    seed: int = typer.Option(0, min=0, help="Another seed draws other images."),
    device: str = DEVICE,
    json: bool = JSON,
) -> None:
    """Measure a model on the unlabeled domain, from a few labels.

    First `--n 100 --out audit.csv` draws images at random. Label all of them: `unihssl label audit.csv`, or by hand in
    the column label. Then `--labels audit.csv` says how accurate the model is there, calibrates its confidences, and
    finds the confidence above which at most --max-risk of its answers are wrong. The answer is kept in the run's
    audit.json, which `unihssl predict` uses.
    """
    import json as json_format

    from unihssl.errors import UserError
    from unihssl.evaluation.audit_run import answer_audit, draw_audit
    from unihssl.evaluation.load import load_model
    from unihssl.pipeline.settings import settings_of
    from unihssl.run_folder import RunFolder

    if (out is None) == (labels is None):
        raise UserError("pass either --out, to draw images to label, or --labels, to answer from their labels")
    folder = RunFolder(run)
    model, settings = load_model(run, device), settings_of(folder)
    if out is not None:
        size = draw_audit(folder, model, settings, out, n, seed=seed, unlabeled=one_source(unlabeled))
        again = [word for source in unlabeled for word in ("--unlabeled", source)]
        then = shlex.join(["unihssl", "audit", str(run), "--labels", str(out), *again])
        lines = [
            f"{n} of {size} images, drawn at random -> {out}",
            f"Label them with: {shlex.join(['unihssl', 'label', str(out)])}",
            f"Then: {then}",
        ]
        if left_out := len(folder.read_suggested()):
            why = "they are the doubtful ones, so audit before you suggest where they are many"
            typer.echo(f"note: {left_out} images that were suggested are not drawn from; {why}", err=True)
        typer.echo(json_format.dumps({"out": str(out), "n": n, "domain_size": size}) if json else "\n".join(lines))
        return
    assert labels is not None
    answer = answer_audit(folder, model, settings, labels, max_risk, unlabeled=one_source(unlabeled))
    if json:
        typer.echo(json_format.dumps(answer))
        return
    for note in answer["notes"]:
        typer.echo(f"note: {note}", err=True)
    typer.echo("\n".join([*_in_words(answer), f"Kept in {folder.audit}"]))


def _in_words(answer: dict[str, Any]) -> Iterator[str]:
    """The answer, a sentence or a list at a time."""
    from unihssl.data.source import counted

    yield f"Accuracy on the unlabeled domain: {_share(answer['accuracy'])}, from {counted(answer['n'], 'label')}."
    expected = _percent(answer["mean_confidence"])
    yield f"The model itself expects {expected}; its temperature there is {_temperatures(answer)}."
    if answer["class_accuracy"]:
        yield "Accuracy by class, each interval by itself (classes with 10 labels or more):"
        yield from (f"  {name}: {_share(of)}, from {of['n']} labels" for name, of in answer["class_accuracy"].items())
    yield "Shares of the classes there:"
    yield from (f"  {name}: {_share(of)}" for name, of in answer["class_shares"].items())
    yield _risk(answer)
    if answer["labeled"] and answer["labeled"]["risk"]:
        part = answer["labeled"]
        yield (
            f"With it, {_percent(part['answered'])} of the labeled domain's held-out images are answered, and "
            f"{_share(part['risk'])} of these answers are wrong."
        )


def _risk(answer: dict[str, Any]) -> str:
    risk, sure = _percent(answer["max_risk"]), _percent(1 - answer["delta"])
    if answer["threshold"] is None:
        return f"No confidence can be shown to leave {risk} wrong answers or fewer: label more, or raise --max-risk."
    return (
        f"Answer only at a confidence of {answer['threshold']:.4f} or more, before calibration; about "
        f"{_percent(answer['answered'])} of the images have it. With probability {sure} or more over the draw of the "
        f"sample, at most {risk} of the answers given on the unlabeled domain are wrong."
    )


def _temperatures(answer: dict[str, Any]) -> str:
    labeled = answer["labeled_temperature"]
    return f"{answer['temperature']:.2f}" + (f" (labeled domain: {labeled:.2f})" if labeled else "")


def _share(of: dict[str, Any]) -> str:
    return f"{_percent(of['value'])} ({_percent(of['low'])} to {_percent(of['high'])})"


def _percent(number: float) -> str:
    return f"{100 * number:.1f}%"

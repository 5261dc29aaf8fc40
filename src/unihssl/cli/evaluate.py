"""`unihssl evaluate`"""

from pathlib import Path

import typer

from unihssl.cli.options import (
    DEVICE,
    DOMAINS,
    HELD_OUT,
    JSON,
    READING,
    as_options,
    one_source,
    show_result,
    split_setting,
)


def evaluate(
    run: Path = typer.Argument(help="Run directory of a finished run."),
    labeled: str | None = typer.Option(None, help="Test images of the labeled domain, in class folders or a CSV."),
    unlabeled: list[str] = typer.Option([], help="Test images of the unlabeled domain, likewise; repeatable."),
    held_out: bool = HELD_OUT,
    device: str = DEVICE,
    settings: list[str] = READING,
    json: bool = JSON,
) -> None:
    """Measure a trained model on its run's held-out images, or on all images of the sources given.

    Make sure that none of the given images trained the model: the run's split.json lists those that did.
    """
    from unihssl.pipeline.measure import measure

    knobs = dict(map(split_setting, settings))
    result = measure(run, labeled, one_source(unlabeled), device, held_out=held_out, spell=as_options, knobs=knobs)
    for note in [] if json else result["notes"]:
        typer.echo(f"note: {note}", err=True)
    named = [name for name, given in (("labeled", labeled), ("unlabeled", unlabeled)) if given]
    show_result(result, json, DOMAINS if held_out else named or DOMAINS)

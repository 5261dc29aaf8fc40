"""`unihssl train`"""

import os
from pathlib import Path
from typing import Any

import typer

from unihssl.cli.options import JSON, SETTINGS, as_options, show_result, split_setting
from unihssl.cli.report import add_report


def train(
    labeled: str = typer.Option("", help="Labeled domain: a folder of class folders, a CSV, or an .npz (x, y)."),
    unlabeled: str = typer.Option("", help="Unlabeled domain: a folder of images, a CSV, an .npz or .npy."),
    target_labels: str = typer.Option(
        "",
        help="Labels of the unlabeled domain to train on: a CSV (path,label), or 'column' for the filled labels of an "
        "unlabeled CSV.",
    ),
    out: Path | None = typer.Option(None, help="Run directory to create, or to resume with --resume."),
    method: str = typer.Option("", help="Training method.", show_default="unihssl"),
    backbone: str = typer.Option("", help="timm model name, small_cnn or mlp.", show_default="resnet50"),
    weights: str = typer.Option("", help="pretrained, none, or a weights file.", show_default="pretrained"),
    seed: int | None = typer.Option(
        None, help="Seed of the split, the initial weights and all random numbers.", show_default="0"
    ),
    placement: str = typer.Option(
        "", help="Where decoded images are kept: auto, gpu, host or disk (memory-mapped).", show_default="auto"
    ),
    precision: str = typer.Option("", help="auto (bf16 on a GPU), bf16 or fp32.", show_default="auto"),
    resume: bool = typer.Option(False, help="Resume the run in --out that was stopped or killed."),
    settings: list[str] = SETTINGS,
    config: Path | None = typer.Option(None, help="YAML file of knobs; --set and options override it."),
    report: bool = typer.Option(True, help="Write report.html into the run directory."),
    json: bool = JSON,
) -> None:
    """Train a model on two domains and test it on held-out images of both.

    Folders are the simplest input: `--labeled scans_a` with one sub-folder for each class, `--unlabeled scans_b` with
    or without. Class folders of the unlabeled domain only serve to *measure*. Of the images whose class is known, 10%
    of each domain are held out for testing.

    The run directory holds every setting, the split, the model, the log (with TensorBoard events), the results and
    report.html, which shows them.
    Resume a run that was killed with `unihssl train --resume --out RUN`. `unihssl methods unihssl` lists every knob of
    --set and --config.
    """
    # DDP looks for unused parameters, which some methods have. In every process it would warn that it found none.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

    from unihssl.api import train as run
    from unihssl.errors import RunInterruptedError, UserError
    from unihssl.methods.recipe import current_names
    from unihssl.run_folder import read_yaml
    from unihssl.training.display import Display

    given: dict[str, Any] = {"method": method, "backbone": backbone, "weights": weights, "seed": seed}
    given |= {"placement": placement, "precision": precision, "target_labels": target_labels}
    given = {name: value for name, value in given.items() if value not in ("", None)}
    values = (current_names(read_yaml(config)) if config else {}) | dict(map(split_setting, settings)) | given
    if out is None:
        raise UserError("no run directory given: pass --out RUN")
    labeled, unlabeled = labeled or values.pop("labeled", ""), unlabeled or values.pop("unlabeled", "")
    with Display(quiet=json, spell=as_options) as display:
        try:
            model = run(out, labeled, unlabeled, values, resume=resume, display=display)
        except RunInterruptedError as stop:
            if display.silent:  # the first process reports it
                raise typer.Exit(130) from stop
            raise
    if display.silent:
        return
    show_result(model.result | {"run": str(out)}, json)
    if report:
        add_report(out, display)

"""`unihssl train`"""

import os
from pathlib import Path
from typing import Any

import typer

from unihssl.cli.options import JSON, show_result, split_setting


def register(app: typer.Typer) -> None:
    app.command(epilog="Every knob of --set and --config: `unihssl methods unihssl`.")(train)


def train(
    labeled: str = typer.Option("", help="Labeled domain: a folder of class folders, a CSV, or an .npz (x, y)."),
    unlabeled: str = typer.Option("", help="Unlabeled domain: a folder of images, a CSV, an .npz or .npy."),
    out: Path | None = typer.Option(None, help="Run directory to create (or to go on with, see --resume)."),
    method: str = typer.Option("", help="Training method.", show_default="unihssl"),
    backbone: str = typer.Option("", help="timm model name, small_cnn or mlp.", show_default="resnet50"),
    weights: str = typer.Option("", help="pretrained, none, or a weights file.", show_default="pretrained"),
    seed: int | None = typer.Option(None, help="Seeds split, weights and draws.", show_default="0"),
    placement: str = typer.Option(
        "", help="Where decoded images are kept: auto, gpu, host or disk (memory-mapped).", show_default="auto"
    ),
    precision: str = typer.Option("", help="auto (bf16 on a GPU), bf16 or fp32.", show_default="auto"),
    resume: bool = typer.Option(False, help="Go on with the run in --out where it was stopped or killed."),
    settings: list[str] = typer.Option([], "--set", metavar="NAME=VALUE", help="Set any knob; may be repeated."),
    config: Path | None = typer.Option(None, help="YAML file of knobs; --set and options win over it."),
    json: bool = JSON,
) -> None:
    """Train a model on two domains and test it on held-out images of both.

    Folders are the simplest input: `--labeled scans_a` with one sub-folder a class, `--unlabeled scans_b` with or
    without. If the unlabeled folder has the same class folders, they are used to *measure* only. Of the images
    whose class is known, 10% of each domain are held out for testing.

    The run directory gets config.yaml, model.safetensors, metrics.jsonl, TensorBoard events, the split and the
    results. A run that was killed goes on with `unihssl train --resume --out RUN`.
    """
    # Each process would warn that DDP looked for unused parameters and found none: some methods have some.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

    from unihssl.api import train as run
    from unihssl.errors import RunInterruptedError, UserError
    from unihssl.training.display import Display
    from unihssl.training.run_directory import read_yaml

    given: dict[str, Any] = {
        "method": method,
        "backbone": backbone,
        "weights": weights,
        "placement": placement,
        "precision": precision,
    }
    given = {name: value for name, value in given.items() if value} | ({} if seed is None else {"seed": seed})
    values = (read_yaml(config) if config else {}) | dict(map(split_setting, settings)) | given
    if out is None:
        raise UserError("no run directory given: pass --out RUN")
    labeled, unlabeled = labeled or values.pop("labeled", ""), unlabeled or values.pop("unlabeled", "")
    with Display(quiet=json) as display:
        try:
            model = run(out, labeled, unlabeled, values, resume=resume, display=display)
        except RunInterruptedError as stop:
            if display.silent:  # the first process says it
                raise typer.Exit(130) from stop
            raise
    if display.silent:
        return
    show_result(model.result | {"run": str(out)}, json)

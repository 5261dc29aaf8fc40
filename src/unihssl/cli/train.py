"""`unihssl train`"""

import os
from pathlib import Path
from typing import Any

import typer

from unihssl.cli.options import JSON, SETTINGS, show_result, split_setting
from unihssl.cli.report import add_report
from unihssl.cli.settings_options import with_settings
from unihssl.errors import UserError


@with_settings
def train(
    labeled: str = typer.Option("", help="Labeled domain: a folder of class folders, a CSV, or an .npz (x, y)."),
    unlabeled: list[str] = typer.Option(
        [], help="Unlabeled domain: a folder of images, a CSV, an .npz or .npy. Repeat it for several sources."
    ),
    target_labels: str = typer.Option(
        "",
        help="Labels of the unlabeled domain to train on: a CSV (path,label), or 'column' for the filled labels of an "
        "unlabeled CSV.",
    ),
    out: Path | None = typer.Option(None, help="Run directory to create, or to resume with --resume."),
    method: str = typer.Option("", help="Training method.", show_default="unihssl"),
    backbone: str = typer.Option("", help="timm model name, small_cnn or mlp.", show_default="resnet50"),
    weights: str = typer.Option("", help="pretrained, none, or a weights file.", show_default="pretrained"),
    resume: bool = typer.Option(False, "--resume", help="Resume the run in --out that was stopped or killed."),
    settings: list[str] = SETTINGS,
    config: Path | None = typer.Option(None, help="YAML file of knobs; --set and options override it."),
    report: bool = typer.Option(True, help="Write report.html into the run directory."),
    json: bool = JSON,
    *,
    knobs: dict[str, Any],
) -> None:
    """Train a model on two domains and test it on held-out images of both.

    Folders are the simplest input: `--labeled scans_a` with one sub-folder for each class, `--unlabeled scans_b` with
    or without. Class folders of the unlabeled domain only serve to *measure*. Of the images whose class is known, 10%
    of each domain are held out for testing.

    The run directory holds every setting, the split, the model, the log (with TensorBoard events), the results and
    report.html, which shows them. Resume a run that was killed with `unihssl train --resume --out RUN`.

    A method's own settings are options as well, such as `--lambda-pl 0.5`; `unihssl methods NAME` lists them.
    """
    from unihssl.plain_files import read_yaml
    from unihssl.run_folder import RunFolder

    if out is None:
        raise UserError("no run directory given: pass --out RUN")
    given = {"method": method, "backbone": backbone, "weights": weights, "target_labels": target_labels}
    given = {name: value for name, value in given.items() if value} | knobs
    from_file, values = read_yaml(config) if config else {}, dict(map(split_setting, settings)) | given
    named = {role: values.pop(role, from_file.pop(role, "")) for role in ("labeled", "unlabeled")}
    labeled = labeled or named["labeled"]
    sources = unlabeled if len(unlabeled) > 1 else [*unlabeled, named["unlabeled"]][0]
    if not resume:
        check_sources(labeled, sources)
    report = report and not RunFolder(out).is_finished  # nothing of a run that is finished already is written again

    # DDP looks for unused parameters, which some methods have. In every process it would warn that it found none.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

    from unihssl.cli.display import TerminalDisplay
    from unihssl.errors import RunInterruptedError
    from unihssl.methods.recipe import current_names
    from unihssl.pipeline.train import train as run

    chosen = {"method": values["method"]} if "method" in values else {}
    values = current_names(from_file | chosen) | values  # a file may have been written by an earlier version

    with TerminalDisplay(quiet=json) as display:
        try:
            model = run(out, labeled, sources, values, resume=resume, display=display)
        except RunInterruptedError as stop:
            if display.silent:  # the first process reports it
                raise typer.Exit(130) from stop
            raise
    if display.silent:
        return
    show_result(model.result | {"run": str(out)}, json)
    if report:
        add_report(out, display)


def check_sources(labeled: str, unlabeled: str | list[str]) -> None:
    """Refuse sources that do not exist, before torch is imported, which takes seconds."""
    from unihssl.data.readers import check_there, several

    check_there(labeled, "labeled")
    for source in several(unlabeled):
        check_there(source, "unlabeled")

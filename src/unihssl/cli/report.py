"""`unihssl report`"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from unihssl.cli.options import DEVICE, JSON, as_options, one_source, print_json

if TYPE_CHECKING:
    from unihssl.training.display import Display


def report(
    runs: list[Path] = typer.Argument(help="A finished run; or several runs, or folders of runs, to compare."),
    out: Path | None = typer.Option(
        None, help="File to write.", show_default="report.html in the run; comparison.html of several"
    ),
    no_images: bool = typer.Option(False, "--no-images", help="Show no image and no file name of a sample."),
    labeled: str | None = typer.Option(None, help="Where the run's labeled data is now, if it has moved."),
    unlabeled: list[str] = typer.Option([], help="Where the run's unlabeled data is now; repeatable."),
    device: str = DEVICE,
    json: bool = JSON,
) -> None:
    """Write a run's report: one HTML file that needs nothing else, or several runs side by side.

    It says in words how good the model is on each domain and whether the unlabeled one was learnt, and shows why.
    """
    from unihssl.report.compare import is_single, write_comparison
    from unihssl.report.page import write_report

    if is_single(runs):
        where: dict[str, Any] = {"labeled": labeled, "unlabeled": one_source(unlabeled), "device": device}
        path = write_report(runs[0], out, images=not no_images, **where)
    else:
        path = write_comparison(runs, out or Path("comparison.html"))
    print_json({"out": str(path)}) if json else typer.echo(f"Report: {path}")


def add_report(run: Path, display: "Display", **sources: Any) -> Path | None:
    """Write the report of a run that has just finished. Whatever goes wrong is a note: the run itself is complete."""
    from unihssl.errors import UserError

    try:
        from unihssl.report.page import write_report

        path = write_report(run, **sources)
    except (Exception, KeyboardInterrupt) as error:
        why = error.worded(as_options) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        again = shlex.join(["unihssl", "report", str(run)])
        display.note(f"note: the report was not written ({why}); the run is complete. Try: {again}")
        return None
    display.note(f"Report: {path}")
    return path

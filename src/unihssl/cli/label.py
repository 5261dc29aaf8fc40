"""`unihssl label`"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from unihssl.run_folder import RunFolder


def label(
    file: Path = typer.Argument(help="CSV of images to label (path,label), as suggest and audit write it."),
    classes: str = typer.Option("", help="The classes, such as cat,dog."),
    run: Path | None = typer.Option(
        None,
        help="Run directory: its classes, and its model's guesses on request.",
        show_default="the one that wrote the file",
    ),
    port: int = typer.Option(0, min=0, max=65535, help="Port of the page; 0 takes a free one."),
    browser: bool = typer.Option(True, help="Open the page in the browser."),
) -> None:
    """Label images on a page that only this machine can open.

    Every answer is in the file before the next image is shown: stop with Ctrl-C and continue at any time. Keys 1 to 9,
    then a to z, choose a class; the arrow keys undo and skip. The model's guess is hidden unless asked for.
    """
    import webbrowser

    from unihssl.data.label_file import run_of
    from unihssl.errors import UserError
    from unihssl.interrupt import termination_interrupts
    from unihssl.labeling.guesses import Guesses
    from unihssl.labeling.images import listed_images
    from unihssl.labeling.server import LabelServer
    from unihssl.labeling.sheet import LabelSheet, only_labeler
    from unihssl.run_folder import RunFolder

    if not file.is_file():
        raise UserError(f"{file}: no such file; draw images to label with: unihssl suggest RUN --n 50 --out {file}")
    if not classes and run is None and (found := run_of(file)) and RunFolder(found).is_run:
        run = found
    if bool(classes) == (run is not None):
        raise UserError("pass either --classes a,b,c or --run RUN: the classes to choose from")
    folder = RunFolder(run) if run else None
    names = folder.read_model()["classes"] if folder else classes.split(",")
    names = list(dict.fromkeys(name for name in (str(name).strip() for name in names) if name))
    if len(names) < 2:
        raise UserError(f"--classes {classes}: two classes or more are needed, with commas between them")
    with only_labeler(file), termination_interrupts():
        sheet = LabelSheet(file, names)
        items = listed_images(file, [row["path"] for row in sheet.rows], folder)
        with LabelServer(sheet, items, Guesses(run) if run else None, port) as server:
            typer.echo(f"Label {file} at {server.url} (Ctrl-C ends)")
            try:
                if browser:
                    webbrowser.open(server.url)
                server.serve_forever()
            except KeyboardInterrupt:
                with server.lock:  # an answer on its way is still saved
                    done = sheet.labeled == len(sheet.rows)
                    how = ["--run", str(run)] if run else ["--classes", classes]
                    again = shlex.join(["unihssl", "label", str(file), *how])
                    what_next = _uses(file, folder) if done else f"; to continue: {again}"
                    typer.echo(f"{sheet.labeled} of {len(sheet.rows)} images labeled{what_next}")


def _uses(file: Path, folder: "RunFolder | None") -> str:
    """The commands that take a file whose images are all labeled."""
    if folder is None:
        return f" in {file}"
    name, run, config = (shlex.quote(str(path)) for path in (file, folder.path, folder.config))
    uses = [f"to measure the model, if drawn by `unihssl audit`: unihssl audit {run} --labels {name}"]
    if folder.is_run:
        train = f"unihssl train --config {config} --target-labels {name} --out NEW"
        uses.append(f"to train with them, if suggested: {train}")
    return "\n".join(["", *uses])

"""One call from two domains to a trained, measured model: what `unihssl train` and `evaluate` run."""

import tempfile
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Unpack

from unihssl.config import Settings, describe_knobs
from unihssl.errors import RunInterruptedError, Setting, UserError
from unihssl.evaluation.export_int8 import export_int8
from unihssl.evaluation.export_model import export_model
from unihssl.evaluation.load import load_model
from unihssl.evaluation.model import Model
from unihssl.knobs import Knobs
from unihssl.pipeline.measure import measure
from unihssl.pipeline.settings import settings_of
from unihssl.pipeline.train import train
from unihssl.plain_files import as_path
from unihssl.run_folder import RunFolder
from unihssl.training.callbacks import Callback
from unihssl.training.display import Display, watched


def fit(
    labeled: Any,
    unlabeled: Any,
    *more: Any,
    out: str | Path | None = None,
    target_labels: Any = None,
    resume: bool = False,
    verbose: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **knobs: Unpack[Knobs],
) -> Model:
    """Train on a labeled and an unlabeled domain and measure the model on both.

    >>> model = unihssl.fit("scans_a", "scans_b", out="runs/first", epochs=20)
    >>> model = unihssl.fit(x, y, x_unlabeled, method="mcc", backbone="mlp")
    >>> model.result["labeled"]["accuracy"]

    A domain is a path (folder, CSV, .npz) or arrays: `(x, y)` for the labeled one, `x` or `(x, y)` for the unlabeled
    one, whose labels, if any, only serve to measure. A list of paths makes one unlabeled domain of several sources; a
    list of arrays holds samples, one by one. Three arrays are `x`, `y` and the unlabeled `x`. `x` holds images
    (N, H, W[, 3]) or feature vectors (N, D), `y` labels (N,). `target_labels` are labels of the unlabeled domain to
    train on: a CSV (`path,label`), `"column"` for those in an unlabeled CSV, a mapping from name, path or row number to
    label, or labels (N,) with None or -1 for samples without one. Without `out` the run directory is a temporary one.

    Progress is shown in a terminal or a notebook; `verbose` decides otherwise. Notes go to the logger "unihssl". Where
    nothing is shown, skipped images, and an unlabeled domain that was probably not learnt, are Python warnings. Both
    are in the returned model's `result`, too ("notes", "warnings"). Ctrl-C saves and raises `KeyboardInterrupt`.
    `callbacks` see every step, epoch and the end.

    Settings, with their defaults (presets and backbones change some; `unihssl methods NAME` lists a method's own):
    """
    labeled, unlabeled, out = _sources(labeled, unlabeled, more, out)
    if resume and out is None:
        raise UserError(f"{Setting('resume', True)} needs {Setting('out')}, the folder of the run to resume")
    if not isinstance(callbacks, Sequence) or any(isinstance(c, type) or not hasattr(c, "on_start") for c in callbacks):
        raise UserError("callbacks must be a list of objects of unihssl.Callback, such as [MyCallback()]")
    folder = nullcontext(str(as_path(out, "out"))) if out is not None else tempfile.TemporaryDirectory()
    verbose = watched() if verbose is None else verbose
    with folder as path, Display(verbose) as display:
        options: dict[str, Any] = {"target_labels": target_labels, "resume": resume, "callbacks": callbacks}
        try:
            model = train(Path(path), labeled, unlabeled, knobs, display=display, **options)
        except RunInterruptedError as stop:
            kept = str(stop) if out is not None else "stopped; nothing is kept without out"
            raise KeyboardInterrupt(kept) from None
    model.folder = Path(out).absolute() if out is not None else None
    if not verbose:
        for text in (*model.result.get("notes", ()), *model.result.get("warnings", ())):
            warnings.warn(text, stacklevel=2)
    return model


fit.__doc__ = f"{fit.__doc__}\n" + "".join(
    f"    {name} = {default or repr('')}: {about}\n"
    for name, default, _, about in describe_knobs(Settings)
    if name not in fit.__annotations__
)


def _sources(labeled: Any, unlabeled: Any, more: tuple[Any, ...], out: Any) -> tuple[Any, Any, str | Path | None]:
    """Both domains and the run's folder: of `(a, b)`, `(a, b, out)` or `(x, y, x_unlabeled)`."""
    if more and not isinstance(more[0], str | Path | None):
        labeled, unlabeled, more = (labeled, unlabeled), more[0], more[1:]
    if more and out is None:
        out, more = more[0], more[1:]
    if getattr(labeled, "ndim", 0) > 1 and getattr(unlabeled, "ndim", 0) == 1:
        raise UserError("no unlabeled samples are given: fit(x, y, x_unlabeled)")
    if more:
        raise TypeError("fit takes two domains, or x, y and the unlabeled x, and then a folder")
    return labeled, unlabeled, out


def evaluate(
    run: str | Path | Model, labeled: Any = None, unlabeled: Any = None, device: str = "auto", *, held_out: bool = False
) -> dict[str, Any]:
    """Score a trained model on its own held-out images, or on all labeled images of the sources given.

    >>> unihssl.evaluate("runs/first")["pooled"]["accuracy"]
    >>> unihssl.evaluate(model, unlabeled=(x, y))["unlabeled"]["accuracy"]

    With `held_out` the sources are the run's own (they have moved, or were arrays), and only what the run held out is
    used. The result has the keys of `result.json`. Its notes, such as on images that the run was trained on, are also
    Python warnings.
    """
    result = measure(run, labeled, unlabeled, device, held_out=held_out)
    for note in result["notes"]:
        warnings.warn(note, stacklevel=2)
    return result


def export_run(
    run: str | Path,
    path: str | Path,
    *,
    int8: bool = False,
    labeled: Any = None,
    unlabeled: Any = None,
    max_loss: float = 1.0,
) -> dict[str, Any]:
    """Write a run's model as one file, ONNX or `.pt2`; returns the metadata in it.

    >>> unihssl.export_run("runs/first", "model.onnx", int8=True)["int8"]["unlabeled"]["int8"]
    0.912

    With `int8` it is quantised, and refused if that loses more than `max_loss` points of accuracy on what the run held
    out of either domain. `labeled` and `unlabeled` are the run's own sources, if they have moved or were arrays.
    """
    folder, target = RunFolder(run), as_path(path, "the file")
    given = {"max_loss": max_loss != 1.0, "labeled": labeled is not None, "unlabeled": unlabeled is not None}
    for ignored in (name for name, there in given.items() if there and not int8):
        raise UserError(f"{Setting(ignored)} is for {Setting('int8', True)} alone: add that, or leave it out")
    model = load_model(folder.path)
    if not int8:
        return export_model(model, target)
    if not folder.split.exists():
        raise UserError(f"{folder.path}: {Setting('int8', True)} needs the folder of a run, for its training samples")
    return export_int8(folder, model, settings_of(folder), target, labeled, unlabeled, max_loss)

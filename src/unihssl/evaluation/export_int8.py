"""The export of a run's model as int8: calibrated on its training samples, and its price measured."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from unihssl.config import Settings
from unihssl.errors import Setting, UserError
from unihssl.evaluation.export_model import export_model
from unihssl.evaluation.model import Model
from unihssl.evaluation.samples import known_samples, training_samples
from unihssl.export.files import Run, edit_metadata, onnx_run
from unihssl.export.int8 import quantize
from unihssl.files import atomic, make_folder
from unihssl.run_folder import RunFolder
from unihssl.run_schema import ROLES

CALIBRATION = 128  # training samples of each domain that the ranges of activations come from
BATCH = 64


def export_int8(
    run: RunFolder,
    model: Model,
    settings: Settings,
    path: Path,
    labeled: Any = None,
    unlabeled: Any = None,
    max_loss: float = 1.0,
) -> dict[str, Any]:
    """Write a run's model as int8 ONNX; returns the metadata, whose `int8` has the accuracies of both domains.

    Refused if it loses more than `max_loss` points of accuracy on what the run held out of a domain. Where nothing of
    known class was held out, answers on training samples that differ from the float model's count as lost. `labeled`
    and `unlabeled` say where the run's own sources are now, if they have moved or were arrays.
    """
    if path.suffix != ".onnx":
        raise UserError(f"{path}: {Setting('int8', True)} is for .onnx files")
    given = {"labeled": labeled, "unlabeled": unlabeled}
    seen = {role: training_samples(run, role, model, settings, given[role], CALIBRATION) for role in ROLES}
    with tempfile.TemporaryDirectory() as folder:
        exact, quantized = Path(folder, "float.onnx"), Path(folder, "int8.onnx")
        metadata = export_model(model, exact, seen["unlabeled"])
        quantize(exact, quantized, np.concatenate(list(seen.values())))
        tested = _tested(run, model, settings, given)
        metadata["int8"] = {
            role: _accuracies(onnx_run(exact), onnx_run(quantized), *tested.get(role, (seen[role], None)))
            for role in ROLES
        }
        _refuse_loss(path, metadata["int8"], max_loss)
        edit_metadata(quantized, metadata)
        make_folder(path.parent)
        with atomic(path) as temporary:
            shutil.copyfile(quantized, temporary)
    return metadata


def _tested(
    run: RunFolder, model: Model, settings: Settings, given: dict[str, Any]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """What the run held out, by domain: samples and classes."""
    records = run.read_split()
    sources = {role: given[role] for role in ROLES if records[role]["test"]}
    parts = known_samples(run, model, settings, **sources, held_out=True) if sources else {}
    return {role: (part.store.samples.numpy()[part.rows], part.labels) for role, part in parts.items()}


def _accuracies(exact: Run, quantized: Run, samples: np.ndarray, labels: np.ndarray | None) -> dict[str, Any]:
    """Shares of right answers of both files; without labels the float file's answers are the right ones."""
    answers = _answers(exact, samples)
    truth = answers if labels is None else labels
    rights = {"float": answers == truth, "int8": _answers(quantized, samples) == truth}
    return {"n": len(truth), "held_out": labels is not None} | {name: float(r.mean()) for name, r in rights.items()}


def _answers(run: Run, samples: np.ndarray) -> np.ndarray:
    parts = (samples[i : i + BATCH] for i in range(0, len(samples), BATCH))
    return np.concatenate([run(part)["probabilities"].argmax(1) for part in parts])


def _refuse_loss(path: Path, found: dict[str, dict[str, Any]], max_loss: float) -> None:
    for role, of in found.items():
        lost = 100 * (of["float"] - of["int8"])
        if lost > max_loss + 1e-9:
            kind = "held-out" if of["held_out"] else "training"
            raise UserError(
                f"{path}: not written, as int8 loses {lost:.1f} points on {of['n']} {kind} {role} samples "
                f"({100 * of['float']:.1f}% to {100 * of['int8']:.1f}%); {Setting('max_loss', float(np.ceil(lost)))} "
                "accepts that"
            )

"""The numbers of a model: once at the end of its run, and whenever asked."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unihssl.config import Settings
from unihssl.data.domain import Domain
from unihssl.data.pair import DomainPair
from unihssl.errors import Setting, Spell, UserError, python_spelling, worded
from unihssl.evaluation.changed import changed_data_notes, other_version_note
from unihssl.evaluation.check_run import check_unlabeled
from unihssl.evaluation.load import load_model
from unihssl.evaluation.metrics import score, score_sources
from unihssl.evaluation.model import Model
from unihssl.evaluation.nearest import reference_rows
from unihssl.evaluation.novelty import Reference
from unihssl.evaluation.predictions import Predictions
from unihssl.evaluation.samples import known_samples, reading
from unihssl.evaluation.unlabeled_check import in_words
from unihssl.run_folder import RunFolder
from unihssl.training.display import Display


def finish_run(
    model: Model, tester: Model, pair: DomainPair, settings: Settings, folder: RunFolder, display: Display
) -> None:
    """Save the model, test it once, and check whether the unlabeled domain was learnt.

    `tester` predicts for `pair`: the model itself or, where `pair` holds features of a frozen backbone, its head.
    """
    model.write(folder)
    tested = {}
    for role, part in pair.parts.items():
        rows = part.split.test
        tested[role] = tester.predict_store(part.store, rows), part.domain.labels[rows]
    model.result = score(tested, model.rule, pair.classes)
    model.result |= by_source(model, *tested["unlabeled"], pair.unlabeled.domain, pair.unlabeled.split.test)
    notes = [note for part in pair.parts.values() for note in part.domain.notes]
    predicted = {role: predictions for role, (predictions, _) in tested.items()}
    found = check_unlabeled(tester, pair, settings, predicted, folder.read_metrics())
    model.result |= found | {"notes": notes}
    if sampling := pair.sampling_notes(settings):  # a remark, not a note: nothing is wrong
        model.result["sampling"] = worded(sampling[0], display.spell)
    display.note("domain B (unlabeled), no labels needed:")
    for fact in in_words(found["unlabeled_check"]):
        display.note(f"  - {fact}")
    for warning in model.result["warnings"]:
        display.note(f"warning: {warning}")
    for kind in ("notes", "warnings"):  # saved, and shown in the report, as whoever trained spells settings
        model.result[kind] = [worded(text, display.spell) for text in model.result[kind]]
    folder.write_result(model.result)


def measure(
    run: str | Path | Model,
    labeled: Any = None,
    unlabeled: Any = None,
    device: str = "auto",
    *,
    held_out: bool = False,
    spell: Spell = python_spelling,
    knobs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What `evaluate` returns, without warnings; notes spell settings by `spell`. `knobs` say how sources are read."""
    if isinstance(run, Model) and device not in ("auto", run.device.type, str(run.device)):
        raise UserError(f"{Setting('device', device)} is for a run's folder; this model is loaded, on {run.device}")
    model = run if isinstance(run, Model) else load_model(run, device)
    folder = RunFolder((model.folder or "this model") if isinstance(run, Model) else run)
    settings = reading(model.settings, knobs or {})
    samples = known_samples(folder, model, settings, labeled, unlabeled, held_out=held_out)
    parts = {role: (model.predict_store(part.store, part.rows), part.labels) for role, part in samples.items()}
    result = score(parts, model.rule, model.classes_.tolist())
    if "unlabeled" in samples:
        result |= by_source(model, *parts["unlabeled"], samples["unlabeled"].domain, samples["unlabeled"].rows)
    notes = [note for part in samples.values() for note in part.domain.notes] + other_version_note(model)
    notes += changed_data_notes(model) if labeled is None and unlabeled is None else []
    return result | {"notes": [worded(note, spell) for note in notes]}


def reference_features(model: Model, pair: DomainPair, seed: int) -> Reference | None:
    """Features of training samples of both domains, drawn at random; None if the network shows none."""
    drawn = reference_rows({role: len(part.split.train) for role, part in pair.parts.items()}, seed)
    found = []
    for role, part in pair.parts.items():
        rows = part.split.train[drawn[role]]
        found.append(model.predict_store(part.store, rows, keep_features=True).features)
    known = [torch.from_numpy(features) for features in found if features is not None]
    return Reference.of(torch.cat(known).to(model.device)) if known else None


def by_source(
    model: Model, predictions: Predictions, labels: np.ndarray, domain: Domain, rows: np.ndarray
) -> dict[str, Any]:
    """Where the unlabeled domain is made of several sources, the scores of each."""
    if domain.sources is None or not len(rows):
        return {}
    return {"sources": score_sources(predictions, labels, domain.sources[rows], model.rule)}

"""The audit of a finished run: draw images of its unlabeled domain to label, then answer from their labels."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unihssl import methods
from unihssl.config import Settings
from unihssl.data.batch_random import seed_for
from unihssl.data.domain import Domain, spread_rows, unlabeled_domain
from unihssl.data.label_file import LabelFile, find_rows, labeled_rows, read_label_file, write_label_file
from unihssl.data.readers import is_reference, several
from unihssl.data.source import first_few
from unihssl.errors import Setting, UserError
from unihssl.evaluation.audit import audit_answer, calibrated, draw_sample, fit_temperature, is_calibrated, share
from unihssl.evaluation.model import Model
from unihssl.evaluation.samples import held_out_domain
from unihssl.run_folder import RunFolder

REFERENCE = 500  # images, spread over the domain, whose confidences place the thresholds to test
NOT_TOLD_APART = (
    "the model does not tell the domains apart well enough to calibrate each by itself: confidences are calibrated for "
    "the unlabeled domain, and on the labeled one usually too low"
)


def draw_audit(
    run: RunFolder,
    model: Model,
    settings: Settings,
    out: Path,
    n: int,
    *,
    seed: int = 0,
    unlabeled: Any = None,
) -> int:
    """Write a CSV of `n` images, drawn at random from the unlabeled domain, to be labeled. Returns the domain's size.

    Images whose labels trained the model, and suggested ones, whose labels will, are not of that domain.
    """
    domain = audited_domain(run, model, settings, unlabeled)
    domain = without(domain, [*trained_on(run, model), *run.read_suggested()])
    if not 0 < n <= len(domain):
        left_out = "the images of the unlabeled domain that neither trained with their labels nor were suggested"
        raise UserError(f"{Setting('n')} must be from 1 to {len(domain)}, {left_out}; got {n}")
    rng = np.random.default_rng(seed_for("audit", seed))
    write_label_file(out, domain, draw_sample(len(domain), n, rng, domain.groups), run.path)
    return len(domain)


def answer_audit(
    run: RunFolder,
    model: Model,
    settings: Settings,
    labels: Path,
    max_risk: float = 0.05,
    *,
    unlabeled: Any = None,
) -> dict[str, Any]:
    """Answer from the labels of a random sample, and keep the answer in the run's audit.json."""
    domain = audited_domain(run, model, settings, unlabeled)
    file = read_label_file(labels, model.classes_.tolist())
    _refuse_trained(file, domain, run, model)
    domain = without(domain, trained_on(run, model))
    rows, classes = labeled_rows(file, domain)
    notes = [*_suggested_notes(file, domain, rows, run), *([_gap_note(file)] if file.has_gaps else [])]
    last = (run.read_audit() or {"n": 0})["n"]
    notes += [f"the last audit had more labels ({last}) than this one ({len(rows)})"] if last > len(rows) else []
    sample = domain.keep(rows)
    labeled = Domain(sample.name, sample.items, sample.names, classes, tuple(model.classes_.tolist()))
    labeled, store = model.decode(labeled, "unlabeled")  # unreadable images are left out
    predictions = model.predict_store(store)
    probabilities = model.probabilities(predictions)
    reference = _confidences(model, domain)
    audit = audit_answer(probabilities, labeled.labels, labeled.classes, reference, max_risk)
    audit["sample"]["path"] = labeled.names
    audit["domain_size"] = len(domain)
    audit["notes"] = [*labeled.notes, *notes]
    audit |= _labeled_domain(run, model, settings, audit)
    if audit["labeled_temperature"] and not is_calibrated(audit, probabilities, predictions.unlabeled_domain):
        audit["labeled_temperature"] = None
        audit["notes"].append(NOT_TOLD_APART)
    run.write_audit(audit)
    return audit


def audited_domain(run: RunFolder, model: Model, settings: Settings, given: Any = None) -> Domain:
    """The run's unlabeled domain, as far as it was readable; or all of the source given in its place."""
    record = run.read_split()["unlabeled"]
    source = record["source"] if given is None else given
    parts = several(source) if isinstance(source, str) else []
    if gone := [part for part in parts if not is_reference(part) and not Path(part).exists()]:
        raise UserError(
            f"{gone[0]}: the unlabeled data of this run is not there; say where with {Setting('unlabeled')}"
        )
    domain = unlabeled_domain(source, tuple(model.classes_.tolist()), settings)
    if given is not None:
        return domain
    return domain.keep(
        np.flatnonzero(np.isin(domain.names, [*record["train"], *record["test"], *record.get("unused", ())]))
    )


def trained_on(run: RunFolder, model: Model) -> list[str]:
    """The images of the unlabeled domain whose labels the model was trained on, by name: no audit may use them."""
    record = run.read_split()["unlabeled"]
    return record["train"] if methods.get(model.method).needs_truth else list(record.get("target_labels", ()))


def without(domain: Domain, images: Collection[str]) -> Domain:
    """The domain without these images (names or paths)."""
    return domain.keep(np.setdiff1d(np.arange(len(domain)), find_rows(domain, images, Path.cwd())))


def _refuse_trained(file: LabelFile, domain: Domain, run: RunFolder, model: Model) -> None:
    """Stop if an image of the file trained the model with its label, in the unlabeled domain or in the labeled one."""
    rows = find_rows(domain, file.images, file.path.parent)
    used = set(find_rows(domain, trained_on(run, model), Path.cwd())) - {-1}
    elsewhere = [image for image, row in zip(file.images, rows, strict=True) if row < 0]
    files = {(file.path.parent / image).resolve(): image for image in elsewhere}
    seen = {image for image, row in zip(file.images, rows, strict=True) if row in used}
    refuse_images(sorted(seen | {files[path] for path in trained_files(run, model) & files.keys()}), str(file.path))


def refuse_images(trained: Sequence[str], where: str) -> None:
    """Stop an audit whose images trained the model."""
    if trained:
        raise UserError(
            f"{where}: {len(trained)} of its images trained the model, with their labels ({first_few(trained)}); "
            "an audit needs images whose labels the model has not seen"
        )


def trained_files(run: RunFolder, model: Model) -> set[Path]:
    """The files whose labels the model was trained on, of both domains."""
    split, found = run.read_split(), set()
    for role, trained in {"labeled": split["labeled"]["train"], "unlabeled": trained_on(run, model)}.items():
        sources = [Path(source) for source in several(split[role]["source"])]
        # Of several sources, the names begin with that of the folder.
        places = {s if s.is_dir() and len(sources) == 1 else s.parent for s in sources}
        found |= {(place / name).resolve() for place in places for name in trained}
    return found


def _suggested_notes(file: LabelFile, domain: Domain, rows: np.ndarray, run: RunFolder) -> list[str]:
    """Refuse a file of suggested images, the doubtful ones; where only some are among it, a note says so."""
    suggested = np.isin(rows, find_rows(domain, run.read_suggested(), Path.cwd())).sum()
    if suggested == len(rows):
        raise UserError(
            f"{file.path}: its images were suggested, not drawn at random, so they say nothing of the whole domain; "
            "draw some with unihssl audit, or train with these as target labels"
        )
    why = "unless all were drawn before that, they are no random sample"
    return [f"{file.path}: {suggested} of its {len(rows)} images were suggested; {why}"] if suggested else []


def _gap_note(file: LabelFile) -> str:
    return (
        f"{file.path}: some images were skipped. If the hard ones were, the accuracy is too high: label them, too "
        "(the end of the file may stay empty: its rows are in random order)"
    )


def _confidences(model: Model, domain: Domain) -> np.ndarray:
    rows = spread_rows(len(domain), REFERENCE)
    _, store = model.decode(domain.keep(rows), "unlabeled")
    return np.asarray(model.probabilities(model.predict_store(store)).max(1))


def _labeled_domain(run: RunFolder, model: Model, settings: Settings, audit: dict[str, Any]) -> dict[str, Any]:
    """The labeled domain's temperature, and how the calibrated model and the threshold do there; empty if unknown.

    Both come from what was held out there: one half fits the temperature, the other half tests it. The threshold was
    found without any of these images.
    """
    domain = held_out_domain(run, "labeled", model, settings)
    if domain is None or len(domain) < 2:
        return {"labeled": None}
    domain, store = model.decode(domain, "labeled")
    predictions = model.predict_store(store)
    probabilities = model.probabilities(predictions)
    right, order = probabilities.argmax(1) == domain.labels, np.random.default_rng(0).permutation(len(domain))
    fitting, testing = np.array_split(order, 2)
    temperature = fit_temperature(probabilities[fitting], domain.labels[fitting])
    both = calibrated(audit | {"labeled_temperature": temperature}, probabilities, predictions.unlabeled_domain)
    answered = np.flatnonzero(probabilities.max(1) >= (np.inf if audit["threshold"] is None else audit["threshold"]))
    risk = share(int((~right[answered]).sum()), len(answered)) if len(answered) else None
    accuracy = share(int(right[testing].sum()), len(testing))
    found = {"accuracy": accuracy, "calibrated_confidence": float(both[testing].max(1).mean())}
    found |= {"answered": len(answered) / len(domain), "risk": risk}
    return {"labeled_temperature": temperature, "labeled": found}

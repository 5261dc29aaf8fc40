"""Images of a finished run's unlabeled domain that are most worth labeling, as a CSV to be filled in."""

import math
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unihssl.config import Settings
from unihssl.data.batch_random import seed_for
from unihssl.data.domain import UNKNOWN, Domain
from unihssl.data.label_file import find_rows, refuse_existing, write_label_file
from unihssl.errors import Setting, UserError
from unihssl.evaluation.audit_run import audited_domain, trained_on, without
from unihssl.evaluation.model import Model
from unihssl.evaluation.suggest import WAYS, choose
from unihssl.run_folder import RunFolder

MOST = 10_000  # images to choose from; of a larger domain, so many at random
CHUNK = 500  # images that are decoded at a time


def draw_suggestions(
    run: RunFolder,
    model: Model,
    settings: Settings,
    out: Path,
    n: int,
    *,
    by: str = "clusters",
    seed: int = 0,
    unlabeled: Any = None,
    exclude: Collection[str] = (),
    with_labels: bool = False,
) -> int:
    """Write a CSV of the `n` images most worth labeling, best first. Returns how many there were to choose from.

    These are the unlabeled training images, without those that have a target label, were labeled for the last audit or
    are in `exclude` (names or paths). With `with_labels` the run's own target labels come first, so that the file holds
    all labels to train with.
    """
    record = run.read_split()["unlabeled"]
    whole = audited_domain(run, model, settings, unlabeled)
    audited = (run.read_audit() or {"sample": {}})["sample"].get("path", ())  # none if the model was given arrays
    never = [*record["test"], *record.get("unused", ()), *trained_on(run, model), *audited]
    candidates = without(whole, [*never, *exclude])
    chosen = suggest(model, candidates, n, by=by, seed=seed)
    labels = record.get("target_labels", {}) if with_labels else {}
    rows = np.array(find_rows(whole, [*labels, *chosen.names], Path.cwd()))
    if (rows < 0).any():
        raise UserError(f"{whole.name}: {(rows < 0).sum()} images with target labels of {run.path} are not in it")
    refuse_existing(out)
    run.write_suggested([*run.read_suggested(), *chosen.names])  # first: stopped in between, the command is repeated
    write_label_file(out, whole, rows, run.path, list(labels.values()))
    return len(candidates)


def suggest(model: Model, domain: Domain, n: int, *, by: str = "clusters", seed: int = 0) -> Domain:
    """The `n` samples of a domain that are most worth labeling, best first; unreadable images are passed over."""
    if by not in WAYS:
        raise UserError(f"{Setting('by')} is one of {', '.join(WAYS)}; got '{by}'")
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise UserError(f"{Setting('seed')} must be a whole number of at least 0, got {seed}")
    if not isinstance(n, int | np.integer) or not 0 < n <= len(domain):
        raise UserError(f"{Setting('n')} must be from 1 to {len(domain)}, the images to choose from; got {n}")
    rng = np.random.default_rng(seed_for("suggest", seed))
    if by == "random":
        return domain.keep(rng.permutation(len(domain))[:n])
    rows = np.sort(rng.permutation(len(domain))[: max(MOST, n)])
    chunks = np.array_split(rows, math.ceil(len(rows) / CHUNK))  # even ones: where no image can be read, it ends here
    parts = [_outputs(model, domain, chunk) for chunk in chunks]
    readable, probabilities, features = (np.concatenate(column) for column in zip(*parts, strict=True))
    if len(readable) < n:
        raise UserError(f"{domain.name}: only {len(readable)} of its images can be read; {Setting('n')} is {n}")
    return domain.keep(readable[choose(probabilities, features, n, rng, by)])


def _outputs(model: Model, domain: Domain, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of these rows: those that can be read, and their class probabilities and features."""
    part = replace(domain.keep(rows), labels=np.full(len(rows), UNKNOWN))
    part, store = model.decode(part, "unlabeled")
    readable = rows[np.isin([domain.names[row] for row in rows], part.names)]
    found = model.predict_store(store, keep_features=True)
    probabilities = model.probabilities(found)
    features = probabilities if found.features is None else found.features  # a network of another kind shows none
    return readable, probabilities, features

"""The training images nearest to an image, read again from where the run found them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unihssl.data.batch_random import seed_for
from unihssl.data.domain import Domain
from unihssl.errors import UserError
from unihssl.evaluation.changed import is_too_large
from unihssl.evaluation.model import Model
from unihssl.evaluation.novelty import SAMPLES
from unihssl.evaluation.samples import training_domain
from unihssl.run_folder import RunFolder


class TrainingImage(NamedTuple):
    """A decoded training image (H, W, C), the domain it is from, and its class if that domain is the labeled one."""

    pixels: np.ndarray
    role: str
    label: str | None


@dataclass(frozen=True)
class TrainingImages:
    """The training images behind the rows of a model's reference features: first labeled, then unlabeled ones."""

    model: Model
    domains: dict[str, Domain]

    def __getitem__(self, row: int) -> TrainingImage:
        for role, domain in self.domains.items():
            if row < len(domain):
                _, store = self.model.decode(domain.keep(np.array([row])), role)
                label = str(self.model.classes_[domain.labels[row]]) if role == "labeled" else None
                return TrainingImage(store.samples[0].numpy(), role, label)
            row -= len(domain)
        raise IndexError(row)


def reference_rows(counts: dict[str, int], seed: int) -> dict[str, np.ndarray]:
    """Which of so many training samples of each domain a model's reference features are of, drawn at random."""
    rng = np.random.default_rng(seed_for("reference", seed))
    return {role: np.sort(rng.permutation(count)[:SAMPLES]) for role, count in counts.items()}


def training_images(model: Model) -> TrainingImages | None:
    """The images of the model's reference; None if they are not where the run found them, or cannot be told."""
    if model.folder is None or model.reference is None or not (run := RunFolder(model.folder)).split.exists():
        return None
    trained = {role: record["train"] for role, record in run.read_split().items() if role in ("labeled", "unlabeled")}
    rows = reference_rows({role: len(names) for role, names in trained.items()}, model.settings.seed)
    if sum(map(len, rows.values())) != len(model.reference.features):
        return None  # a run of an earlier version, or without features of one domain
    try:
        if any(is_too_large(getattr(model.settings, role), len(names)) for role, names in trained.items()):
            return None
        chosen = {role: [trained[role][row] for row in found] for role, found in rows.items()}
        domains = {role: training_domain(run, role, model, names) for role, names in chosen.items()}
    except (UserError, OSError):
        return None
    return TrainingImages(model, domains)

"""What a report shows of a run's model: its predictions and features for some samples of both domains."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unihssl.data.domain import UNKNOWN
from unihssl.data.store import Store
from unihssl.errors import UserError
from unihssl.evaluation.load import load_model
from unihssl.evaluation.metrics import PARTS
from unihssl.evaluation.model import Model
from unihssl.evaluation.samples import KnownSamples, samples_to_show
from unihssl.pipeline.settings import settings_of
from unihssl.report.facts import RunFacts

MOST = 400  # samples of each domain


@dataclass(frozen=True)
class Seen:
    """N samples of one domain as the model sees them."""

    model: Model
    store: Store
    names: tuple[str, ...]
    labels: np.ndarray  # (N,), UNKNOWN where the class is not known
    probabilities: np.ndarray  # (N, C)
    features: np.ndarray | None  # (N, D)
    held_out: bool
    routes: tuple[str, str] | None = None  # the networks for A and for B, of a method that has two

    @property
    def known(self) -> bool:
        return bool(len(self.labels)) and bool((self.labels != UNKNOWN).all())

    @property
    def predicted(self) -> np.ndarray:
        return np.asarray(self.probabilities.argmax(1))

    @property
    def confidence(self) -> np.ndarray:
        return np.asarray(self.probabilities.max(1))

    @property
    def right(self) -> np.ndarray:
        """(N,) bool; only where the classes are known."""
        return np.asarray(self.predicted == self.labels)

    def inputs(self, rows: np.ndarray) -> Tensor:
        """What the network takes, of some samples."""
        return self.model.views.test(self.store.take(torch.from_numpy(rows)).to(self.model.device))

    def pixels(self, rows: np.ndarray) -> np.ndarray:
        """The same as uint8 images (n, H, W, C)."""
        return self.model.views.to_look_at(self.inputs(rows))


def look(
    facts: RunFacts, labeled: Any = None, unlabeled: Any = None, device: str = "auto"
) -> tuple[dict[str, Seen], list[str]]:
    """Some samples of each domain, and notes on what cannot be shown; sources are where the run's own have moved to."""
    try:
        model, settings = load_model(facts.folder.path, device), settings_of(facts.folder)
    except UserError as error:
        return {}, [str(error)]
    seen, notes = {}, []
    for role, given in zip(PARTS, (labeled, unlabeled), strict=True):
        try:
            samples = samples_to_show(facts.folder, role, model, settings, given, MOST)
            seen[role] = _seen(model, samples, bool(facts.split[role]["test"]))
        except UserError as error:
            notes.append(f"No samples of the {role} domain are shown: {error}")
    return seen, notes


def _seen(model: Model, samples: KnownSamples, held_out: bool) -> Seen:
    predictions = model.predict_store(samples.store, batch=64, keep_features=True)
    probabilities = model.probabilities(predictions)
    own: dict[str, Any] = {"features": predictions.features, "held_out": held_out, "routes": predictions.oracle}
    return Seen(model, samples.store, samples.domain.names, samples.labels, probabilities, **own)

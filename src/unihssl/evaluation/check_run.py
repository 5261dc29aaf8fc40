"""The check of a finished run on its unlabeled domain, which needs no label."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unihssl import methods
from unihssl.config import Settings
from unihssl.data.batch_random import BatchRandom, seed_for
from unihssl.data.domain import spread_rows
from unihssl.data.pair import DomainPair
from unihssl.evaluation.collapse_check import collapse_warnings, doubt_warnings
from unihssl.evaluation.model import Model
from unihssl.evaluation.predictions import Predictions
from unihssl.evaluation.unlabeled_check import unlabeled_check

CHECKED = 500  # unlabeled training samples, spread over all
SEEN_AGAIN = 200  # of them, that are also seen in another view


def check_unlabeled(
    model: Model,
    pair: DomainPair,
    settings: Settings,
    held_out: Mapping[str, Predictions],
    history: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Facts and warnings from the predictions on some unlabeled training samples, without their labels.

    Where their labels are known and did not train, also the share predicted right, for diagnosis: no test sample is
    involved.
    """
    train = pair.unlabeled.split.train
    rows = train[spread_rows(len(train), CHECKED)]
    sample = model.predict_store(pair.unlabeled.store, rows)
    predicted = model.probabilities(sample).argmax(1)
    advice = methods.get(model.method).advice(settings, model.params)
    labels = pair.labeled.domain.labels[pair.labeled.split.train]
    other_view = _classes_in_another_view(model, pair, settings, rows[:SEEN_AGAIN])
    check = unlabeled_check(
        sample, model.rule, labels, pair.classes, held_out=held_out, other_view=other_view, history=history
    )
    warned = collapse_warnings(predicted, labels, pair.classes, advice) or doubt_warnings(check, advice)
    found: dict[str, Any] = {"warnings": warned, "unlabeled_check": check}
    domain = pair.unlabeled.domain
    known = (domain.known & ~domain.has_target_label)[rows]
    if known.any():
        correct = (predicted == domain.labels[rows])[known]
        found["unlabeled_training"] = {"n": len(correct), "accuracy": float(correct.mean())}
    return found


def _classes_in_another_view(model: Model, pair: DomainPair, settings: Settings, rows: np.ndarray) -> np.ndarray | None:
    """The classes predicted for unlabeled samples in a random training view; None for vectors, which have no views."""
    if pair.unlabeled.store.samples.dim() == 2:
        return None
    views = replace(model.views, weak_view=settings.weak_view, flip=settings.flip)
    view = functools.partial(views.weak, random=BatchRandom(model.device, seed=seed_for("check", settings.seed)))
    return np.asarray(model.probabilities(model.predict_store(pair.unlabeled.store, rows, view=view)).argmax(1))

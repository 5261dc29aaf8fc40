"""What the labels of a random sample say about a model on a whole domain.

Intervals and bounds hold over the draw of the sample, whatever the domain: they assume nothing of the labeled one.
Nothing here sees an image or a network.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from unihssl.errors import Setting, UserError

LEVEL = 0.95  # of every interval
DELTA = 0.1  # how often, over redraws, the bound on the risk may fail
ENOUGH = 10  # labels of a class, to state its accuracy
FLOOR = 1e-12  # of a probability, before its logarithm


def draw_sample(size: int, n: int, rng: np.random.Generator, groups: np.ndarray | None = None) -> np.ndarray:
    """Draw `n` of `size` rows without replacement, each as likely as any other, in random order.

    With `groups` (size,) the sample is stratified: a group of m rows gives m * n / size of them, rounded up or down.
    """
    order = rng.permutation(size)
    if groups is None:
        return order[:n]
    _, group = np.unique(groups, return_inverse=True)
    order = order[np.argsort(rng.permutation(group.max() + 1)[group[order]], kind="stable")]  # groups in random order
    every_kth = np.floor((rng.random() + np.arange(n)) * (size / n)).astype(np.int64)
    return rng.permutation(order[np.minimum(every_kth, size - 1)])


def share(count: int, n: int) -> dict[str, Any]:
    """A share with its exact (Clopper-Pearson) interval, which also covers where the population is finite.

    >>> {name: round(number, 3) for name, number in share(81, 100).items()}
    {'value': 0.81, 'low': 0.719, 'high': 0.882, 'n': 100}
    """
    from scipy.stats import beta  # takes a second to import

    tail = (1 - LEVEL) / 2
    low = beta.ppf(tail, count, n - count + 1) if count else 0
    high = beta.isf(tail, count + 1, n - count) if count < n else 1
    return {"value": count / n, "low": float(low), "high": float(high), "n": n}


def fit_temperature(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The temperature that makes the labels (N,) most likely under the tempered probabilities (N, C).

    A standard normal prior on its logarithm keeps it finite where every label is as predicted.
    """
    from scipy.optimize import minimize_scalar

    def loss(log_temperature: float) -> float:
        likelihood = temper(probabilities, math.exp(log_temperature))[np.arange(len(labels)), labels]
        return float(-np.log(np.maximum(likelihood, FLOOR)).sum() + log_temperature**2 / 2)

    return math.exp(minimize_scalar(loss, bounds=(-4, 4), method="bounded").x)


def temper(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """softmax(log p / temperature) for each row of (N, C); the order of the classes stays."""
    from scipy.special import softmax

    return np.asarray(softmax(np.log(np.maximum(probabilities.astype(np.float64), FLOOR)) / temperature, axis=1))


def risk_threshold(confidence: np.ndarray, wrong: np.ndarray, reference: np.ndarray, max_risk: float) -> float | None:
    """The lowest confidence above which at most `max_risk` of the answers are wrong; None if none can be shown.

    The guarantee: with probability 1 - DELTA or more over the draw of the sample, of all answers that the model gives
    in the domain at this confidence or above, at most `max_risk` are wrong. `confidence` and `wrong` (N,) are those of
    the sample. `reference` are confidences that were not chosen by the draw; they place the thresholds to test.

    Learn then Test (Angelopoulos et al., 2021) with fixed-sequence testing: from the most confident third of
    `reference` (more, if the sample is too small to show anything of a third) down to all, in steps of 5%, as long as
    an exact binomial test rejects that the risk is larger.
    """
    from scipy.stats import binom

    needed = math.log(DELTA) / math.log1p(-max_risk)  # right answers in a row that just suffice
    first = min(1, max(1 / 3, (needed + 2 * math.sqrt(needed)) / max(len(wrong), 1)))
    found = None
    for answered in np.append(np.arange(first, 1, 0.05), 1):
        threshold = float(np.quantile(reference, 1 - answered)) if answered < 1 else 0.0
        accepted = confidence >= threshold
        if binom.cdf(wrong[accepted].sum(), accepted.sum(), max_risk) > DELTA:
            break
        found = threshold
    return found


def audit_answer(
    probabilities: np.ndarray,
    labels: np.ndarray,
    classes: Sequence[Any],
    reference: np.ndarray,
    max_risk: float,
) -> dict[str, Any]:
    """All answers from a random sample, as they are kept in audit.json.

    `probabilities` (N, C) are the model's for the sample, `labels` (N,) its true classes as positions in `classes`, and
    `reference` the confidences of other images of the domain (see `risk_threshold`).
    """
    predicted, confidence = probabilities.argmax(1), probabilities.max(1)
    right, n = predicted == labels, len(labels)
    names = [str(name) for name in classes]
    counts = np.bincount(labels, minlength=len(names)).tolist()
    answer = {
        "n": n,
        "accuracy": share(int(right.sum()), n),
        "mean_confidence": float(confidence.mean()),
        "class_accuracy": {
            name: share(int(right[labels == c].sum()), counts[c]) for c, name in enumerate(names) if counts[c] >= ENOUGH
        },
        "class_shares": {name: share(counts[c], n) for c, name in enumerate(names)},
        "temperature": fit_temperature(probabilities, labels),
        "labeled_temperature": None,
        "sample": {
            "label": [names[c] for c in labels],
            "predicted": [names[c] for c in predicted],
            "confidence": confidence.tolist(),
        },
        "reference": np.sort(reference).tolist(),
    }
    return answer | risk_answer(answer, max_risk)


def risk_answer(audit: dict[str, Any], max_risk: float) -> dict[str, Any]:
    """The threshold for a risk, from an audit's sample, and about how much is answered above it."""
    if not isinstance(max_risk, int | float | np.floating) or not 0 < max_risk < 1:
        raise UserError(f"{Setting('max_risk')} is a share of wrong answers between 0 and 1, got {max_risk}")
    sample, reference = audit["sample"], np.array(audit["reference"])
    wrong = np.array([a != b for a, b in zip(sample["label"], sample["predicted"], strict=True)])
    threshold = risk_threshold(np.array(sample["confidence"]), wrong, reference, max_risk)
    answered = 0.0 if threshold is None else float((reference >= threshold).mean())
    return {"max_risk": max_risk, "delta": DELTA, "threshold": threshold, "answered": answered}


def calibrated(
    audit: dict[str, Any], probabilities: np.ndarray, unlabeled_domain: np.ndarray | None = None
) -> np.ndarray:
    """Calibrated class probabilities (N, C); the most probable class stays.

    Where the model says how likely each image comes from the unlabeled domain (N,), and the labeled domain has a
    temperature, too: the mean of both domains' probabilities with that weight. Else the audited domain's alone.
    """
    audited = temper(probabilities, audit["temperature"])
    if unlabeled_domain is None or audit["labeled_temperature"] is None:
        return audited
    weight = unlabeled_domain[:, None]
    return np.asarray(weight * audited + (1 - weight) * temper(probabilities, audit["labeled_temperature"]))


def is_calibrated(audit: dict[str, Any], probabilities: np.ndarray, unlabeled_domain: np.ndarray | None) -> bool:
    """Whether the mean confidence of the audited images, once calibrated, is in the interval of their accuracy."""
    confidence = calibrated(audit, probabilities, unlabeled_domain).max(1).mean()
    return bool(audit["accuracy"]["low"] <= confidence <= audit["accuracy"]["high"])

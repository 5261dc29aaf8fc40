"""Did a model fail on the unlabeled domain? Judged by its predictions there; no label of that domain is used."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unihssl.data.source import Label, first_few

NOT_LEARNT = "probably not learnt"  # in the warnings of a failure; others are doubts
LOST_CLASSES = f"some classes were {NOT_LEARNT}"

# Measured in docs/decisions.md.
COLLAPSED = 0.6  # least variety of the predictions, as a share of the labels' variety
STARVED = 0.2  # least share of the predictions for a class, relative to an equal share
EXPECTED = 5  # samples of a class, by its share of the labels; with fewer, none predicted may be chance
FAR = 0.35  # most that the predicted shares of the classes may differ from the labels', by total variation
TOLD = 0.65  # least share of domains told right, the mean of both; 0.5 is chance
SURE, UNSURE = 0.75, 0.5  # mean confidence below which there is a doubt; below which one doubt suffices
ENOUGH = 100  # samples, below which these may be chance


def collapse_warnings(
    predicted: np.ndarray, labels: np.ndarray, classes: Sequence[Label], advice: str = "another method"
) -> list[str]:
    """Reasons to doubt that the unlabeled domain was learnt; none if all seems well.

    `predicted` (N,) are the predicted classes of unlabeled samples, `labels` (M,) the labeled domain's classes.
    `advice` is what to try.
    """
    if not len(predicted):
        return []
    predictions, known = (np.bincount(indices, minlength=len(classes)) for indices in (predicted, labels))
    variety, expected = effective_number(predictions), effective_number(known)
    few = predictions < STARVED * len(predicted) / len(classes)
    if variety < COLLAPSED * expected:
        return [
            f"the unlabeled domain was {NOT_LEARNT}: its samples are predicted as if there were {variety:.1f} "
            f"classes among them, where the labels have {expected:.1f}; hardly any is predicted as "
            f"{_names(classes, few)}. Unless the unlabeled domain really is like that, try {advice}"
        ]
    lost = few & (known * len(predicted) >= EXPECTED * len(labels))
    if lost.any():
        return [
            f"{LOST_CLASSES} in the unlabeled domain: hardly any of its samples is predicted as "
            f"{_names(classes, lost)}. Unless it really lacks them, try {advice}"
        ]
    return []


def doubt_warnings(check: Mapping[str, Any], advice: str = "another method") -> list[str]:
    """The same from the facts of `unlabeled_check`, where the predicted classes alone give no reason."""
    shares = check["class_shares"]
    if shares["distance"] > FAR:
        return [
            f"the unlabeled domain was {NOT_LEARNT}: {shares['distance']:.0%} of its samples would have to be "
            f"predicted otherwise for its classes to have the shares that the labels have. Unless it really is like "
            f"that, try {advice}"
        ]
    signs = doubts(check)
    if check["n"] >= ENOUGH and (len(signs) > 1 or check["confidence"]["unlabeled"] < UNSURE):
        return [
            f"it is doubtful that the unlabeled domain was learnt: {'; '.join(signs)}. Label some of it at random to "
            f"measure (an audit), or try {advice}"
        ]
    return []


def doubts(check: Mapping[str, Any]) -> list[str]:
    """Signs, each weak by itself, that the unlabeled domain was not learnt."""
    told, confidence = check["domain_told"], check["confidence"]["unlabeled"]
    found = []
    if told and told["mean"] < TOLD:
        found.append(f"the model tells {told['mean']:.0%} of the domains right, where chance is 50%")
    if confidence < SURE:
        found.append(f"its mean confidence there is {confidence:.2f}")
    return found


def _names(classes: Sequence[Label], which: np.ndarray) -> str:
    return first_few([str(name) for name, named in zip(classes, which, strict=True) if named])


def effective_number(counts: np.ndarray) -> float:
    """How many equally frequent classes would be as varied: the exponential of the entropy of the counts (C,)."""
    shares = counts[counts > 0] / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))

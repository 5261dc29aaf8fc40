"""What unlabeled samples alone can say against a trained model: no label of their domain is looked at."""

from collections.abc import Sequence

import numpy as np

from unihssl.data.readers import Label, some

COLLAPSED = 0.6  # of the labeled domain's classes; see docs/decisions.md for what was seen
STARVED = 0.1  # of an equal share


def concerns(
    guesses: np.ndarray, labels: np.ndarray, classes: Sequence[Label], advice: str = "another method"
) -> list[str]:
    """Reasons to doubt that the unlabeled domain was learnt, from the classes its training samples are given."""
    if not len(guesses):
        return []
    given, known = (np.bincount(of, minlength=len(classes)) for of in (guesses, labels))
    if effective_number(given) >= COLLAPSED * effective_number(known):
        return []
    starved = [str(c) for c, count in zip(classes, given, strict=True) if count < STARVED * len(guesses) / len(classes)]
    return [
        f"the unlabeled domain was probably not learnt: its samples are predicted as if there were "
        f"{effective_number(given):.1f} classes among them, where the labels have {effective_number(known):.1f}; "
        f"hardly any is predicted as {some(starved)}. Unless the unlabeled domain really is like that, try "
        f"{advice}"
    ]


def effective_number(counts: np.ndarray) -> float:
    """How many equally frequent classes would be as varied as these: the exponential of the entropy."""
    shares = counts[counts > 0] / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))

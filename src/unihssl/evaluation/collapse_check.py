"""What unlabeled samples alone can say against a trained model: no label of their domain is looked at."""

from collections.abc import Sequence

import numpy as np

from unihssl.data.readers import Label, some

# docs/decisions.md tells what was seen with these.
COLLAPSED = 0.6  # of the variety of the labels
STARVED = 0.2  # of an equal share
EXPECTED = 5  # samples of a class, by its share of the labels: of fewer, that none is predicted may be chance


def collapse_warnings(
    guesses: np.ndarray, labels: np.ndarray, classes: Sequence[Label], advice: str = "another method"
) -> list[str]:
    """Reasons to doubt that the unlabeled domain was learnt, from the classes its training samples are given."""
    if not len(guesses):
        return []
    given, known = (np.bincount(of, minlength=len(classes)) for of in (guesses, labels))
    few = given < STARVED * len(guesses) / len(classes)
    if effective_number(given) < COLLAPSED * effective_number(known):
        return [
            f"the unlabeled domain was probably not learnt: its samples are predicted as if there were "
            f"{effective_number(given):.1f} classes among them, where the labels have {effective_number(known):.1f}; "
            f"hardly any is predicted as {_names(classes, few)}. Unless the unlabeled domain really is like that, try "
            f"{advice}"
        ]
    lost = few & (known * len(guesses) >= EXPECTED * len(labels))
    if lost.any():
        return [
            f"some classes were probably not learnt in the unlabeled domain: hardly any of its samples is predicted as "
            f"{_names(classes, lost)}. Unless it really lacks them, try {advice}"
        ]
    return []


def _names(classes: Sequence[Label], which: np.ndarray) -> str:
    return some([str(name) for name, named in zip(classes, which, strict=True) if named])


def effective_number(counts: np.ndarray) -> float:
    """How many equally frequent classes would be as varied as these: the exponential of the entropy."""
    shares = counts[counts > 0] / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))

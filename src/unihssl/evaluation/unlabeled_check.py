"""What can be said of a model on the unlabeled domain without a label of it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unihssl.data.source import Label
from unihssl.evaluation.audit import share
from unihssl.evaluation.predictions import Predictions


def unlabeled_check(
    sample: Predictions,
    rule: str,
    labels: np.ndarray,
    classes: Sequence[Label],
    *,
    held_out: Mapping[str, Predictions],
    other_view: np.ndarray | None = None,
    history: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The label-free facts of a finished run, as result.json keeps them.

    `sample` are predictions for N unlabeled training samples, `other_view` (n <= N,) the classes of the first n in
    another view, `labels` (M,) the labeled domain's training labels, `held_out` the predictions for the test samples of
    each domain, `history` the rows of the log.
    """
    probabilities = sample.probabilities[rule]
    predicted = probabilities.argmax(1)
    by_domain = {role: p.probabilities[rule].max(1) for role, p in held_out.items() if len(p.names)}
    mix = {"predicted": _shares(predicted, classes), "labels": _shares(labels, classes)}
    return {
        "n": len(predicted),
        "domain_told": domain_told(held_out.get("labeled"), held_out.get("unlabeled"), sample),
        "confidence": {"unlabeled": float(probabilities.max(1).mean())}
        | ({"labeled": float(by_domain["labeled"].mean())} if "labeled" in by_domain else {}),
        "class_shares": mix | {"distance": total_variation(*mix.values())},
        "view_agreement": None if other_view is None else float((other_view == predicted[: len(other_view)]).mean()),
        "rule_agreement": {
            name: float((other.argmax(1) == predicted).mean())
            for name, other in sample.probabilities.items()
            if name != rule
        },
        "trusted": trusted_share(history),
    }


def in_words(check: Mapping[str, Any]) -> list[str]:
    """Every fact of the check; A is the labeled domain, B the unlabeled one."""
    told, trusted, confidence = check["domain_told"], check["trusted"], check["confidence"]
    found = []
    if told:
        where = "held-out samples" if told["held_out"] else "held-out samples of A and training samples of B"
        found.append(
            f"the model finds the right domain of {told['labeled']['value']:.0%} of A and "
            f"{told['unlabeled']['value']:.0%} of B ({where}; chance is 50%)"
        )
    else:
        why = "the method does not tell the domains apart" if "labeled" in confidence else "no sample of A was held out"
        found.append(f"whether the model finds the right domain cannot be checked: {why}")
    against = f", against {confidence['labeled']:.2f} on held-out samples of A" if "labeled" in confidence else ""
    found.append(f"mean confidence on training samples of B: {confidence['unlabeled']:.2f}{against}")
    found.append(
        f"the shares of the classes predicted on B differ from A's labels by {check['class_shares']['distance']:.0%}"
    )
    if check["view_agreement"] is not None:
        found.append(f"two views of a sample of B get the same class in {check['view_agreement']:.0%} of cases")
    found += [
        f"the rule '{rule}' predicts the same class for {agreement:.0%} of B"
        for rule, agreement in check["rule_agreement"].items()
    ]
    if trusted:
        found.append(
            f"pseudo-labels trusted: {trusted['first']:.0%} at first, {trusted['most']:.0%} at most, "
            f"{trusted['last']:.0%} at the end"
        )
    return found


def domain_told(
    labeled: Predictions | None, unlabeled: Predictions | None, sample: Predictions
) -> dict[str, Any] | None:
    """How often the model finds the right domain, for each; None where it does not tell, or nothing was held out.

    Where nothing was held out of the unlabeled domain, its training samples stand in, and `held_out` says so.
    """
    own = unlabeled if unlabeled is not None and len(unlabeled.names) else None
    other = own or sample
    if labeled is None or not len(labeled.names) or labeled.unlabeled_domain is None or other.unlabeled_domain is None:
        return None
    right = {"labeled": labeled.unlabeled_domain < 0.5, "unlabeled": other.unlabeled_domain >= 0.5}
    parts = {role: share(int(found.sum()), len(found)) for role, found in right.items()}
    return {**parts, "mean": (parts["labeled"]["value"] + parts["unlabeled"]["value"]) / 2, "held_out": own is not None}


def trusted_share(history: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    """The share of trusted pseudo-labels at the first report, at its largest and at the end; None if not logged."""
    rates = [row["stats"]["mask_rate"] for row in history if "mask_rate" in row["stats"]]
    return {"first": rates[0], "most": max(rates), "last": rates[-1]} if rates else None


def total_variation(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    """Half the sum of differences: the share of samples that would have to change their class."""
    return sum(abs(first[name] - second[name]) for name in first) / 2


def _shares(classes_of: np.ndarray, classes: Sequence[Label]) -> dict[str, float]:
    counts = np.bincount(classes_of, minlength=len(classes))
    return {str(name): float(count / max(len(classes_of), 1)) for name, count in zip(classes, counts, strict=True)}

"""Scores of a model: on each domain's test part, and on both pooled, without telling the model the domain."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from unihssl.evaluation.predictions import Predictions

PARTS = ("labeled", "unlabeled")


def score(parts: dict[str, tuple[Predictions, np.ndarray]], rule: str, classes: Sequence[Any] = ()) -> dict[str, Any]:
    """Accuracy of every prediction rule, pooled and by domain; `rule` is the one the model uses.

    `parts` maps a domain to predictions and true classes (N,). The result has, for each of labeled, unlabeled (those
    with samples) and pooled (if both have), the count `n`, `accuracy`, `class_mean_accuracy` (balanced accuracy),
    `macro_f1` and `accuracy_by_rule`; `domain_accuracy`, how often the model finds the right domain; and for routed
    methods `oracle_routing_accuracy`, pooled accuracy if the domain were known. With the classes' names each part also
    has `class_accuracy`, and `confusion[true class][predicted class]`, the counts that are not 0.
    """
    parts = {name: part for name, part in parts.items() if len(part[1])}
    result: dict[str, Any] = {"rule": rule}
    if not parts:
        return result
    rules = next(iter(parts.values()))[0].probabilities
    predictions = {n: {r: p.probabilities[r].argmax(1) for r in rules} for n, (p, _) in parts.items()}
    truths = {n: truth for n, (_, truth) in parts.items()}
    pooled = {r: np.concatenate([g[r] for g in predictions.values()]) for r in rules}
    if set(parts) == set(PARTS):
        result["pooled"] = _numbers(np.concatenate(list(truths.values())), pooled, rule, classes)
    for name in parts:
        result[name] = _numbers(truths[name], predictions[name], rule, classes)
    oracle = next(iter(parts.values()))[0].oracle
    if oracle and set(parts) == set(PARTS):
        routed = [predictions[n][r] == truths[n] for n, r in zip(PARTS, oracle, strict=True)]
        result["oracle_routing_accuracy"] = float(np.concatenate(routed).mean())
    domains = {n: p.unlabeled_domain for n, (p, _) in parts.items() if p.unlabeled_domain is not None}
    if set(domains) == set(PARTS):
        right = np.concatenate([domains["labeled"] < 0.5, domains["unlabeled"] >= 0.5])
        result["domain_accuracy"] = float(right.mean())
    return result


def score_sources(predictions: Predictions, truth: np.ndarray, sources: np.ndarray, rule: str) -> dict[str, Any]:
    """The numbers of each source of a domain by itself: predictions, true classes (N,) and source names (N,)."""
    found = {name: own.argmax(1) for name, own in predictions.probabilities.items()}
    rows = {str(source): sources == source for source in np.unique(sources)}
    return {
        source: _numbers(truth[at], {name: own[at] for name, own in found.items()}, rule, ())
        for source, at in rows.items()
    }


def _numbers(
    truth: np.ndarray, predictions: dict[str, np.ndarray], rule: str, classes: Sequence[Any]
) -> dict[str, Any]:
    from sklearn.metrics import accuracy_score, f1_score, recall_score  # takes a second to import

    over_classes: dict[str, Any] = {"labels": np.unique(truth), "average": "macro", "zero_division": 0}
    return {
        "n": len(truth),
        "accuracy": float(accuracy_score(truth, predictions[rule])),
        "class_mean_accuracy": float(recall_score(truth, predictions[rule], **over_classes)),
        "macro_f1": float(f1_score(truth, predictions[rule], **over_classes)),
        "accuracy_by_rule": {name: float(accuracy_score(truth, own)) for name, own in predictions.items()},
        **(_by_class(truth, predictions[rule], [str(name) for name in classes]) if len(classes) else {}),
    }


def _by_class(truth: np.ndarray, predicted: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    confusion: dict[str, dict[str, int]] = {}
    for (true, found), count in sorted(Counter(zip(truth.tolist(), predicted.tolist(), strict=True)).items()):
        confusion.setdefault(names[true], {})[names[found]] = count
    accuracy = {name: row.get(name, 0) / sum(row.values()) for name, row in confusion.items()}
    return {"class_accuracy": accuracy, "confusion": confusion}

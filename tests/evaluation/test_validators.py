"""Label-free scores against slow loops, and in the cases where they are known."""

import math

import numpy as np
import pytest

from unihssl.evaluation.validators import (
    class_ami,
    corr_c,
    ensemble_agreement,
    label_free_scores,
    mean_rank,
    neighbourhood_density,
)


def softmax(n: int, classes: int, sharpness: float, seed: int = 0) -> np.ndarray:
    logits = sharpness * np.random.default_rng(seed).normal(size=(n, classes))
    exponential = np.exp(logits)
    return exponential / exponential.sum(1, keepdims=True)


def test_scores_agree_with_slow_loops():
    p = softmax(7, 3, 2.0)
    scores = label_free_scores({"argmax": p, "sum": p[:, ::-1]}, "argmax", None)
    entropies = [-sum(q * math.log(q) for q in row) for row in p]
    mean = [sum(row[c] for row in p) / 7 for c in range(3)]
    assert scores["entropy"] == pytest.approx(-sum(entropies) / 7)
    assert scores["infomax"] == pytest.approx(-sum(q * math.log(q) for q in mean) - sum(entropies) / 7)
    assert scores["confidence"] == pytest.approx(sum(max(row) for row in p) / 7)
    assert scores["bnm"] == pytest.approx(sum(np.linalg.svd(p)[1]) / math.sqrt(7 * 3))
    correlation = [[sum(row[a] * row[b] for row in p) for a in range(3)] for b in range(3)]
    norm = math.sqrt(sum(v * v for row in correlation for v in row))
    assert scores["corr_c"] == pytest.approx(sum(correlation[c][c] for c in range(3)) / norm / math.sqrt(3))
    same = sum(int(row.argmax() == row[::-1].argmax()) for row in p)
    assert scores["agreement"] == pytest.approx((1 + same / 7) / 2)


def test_neighbourhood_density_agrees_with_a_slow_loop():
    features = np.random.default_rng(0).normal(size=(5, 3))
    unit = [f / math.sqrt(sum(v * v for v in f)) for f in features]
    total = 0.0
    for i in range(5):
        weights = [math.exp(float(unit[i] @ unit[j]) / 0.05) for j in range(5) if j != i]
        total -= sum(w / sum(weights) * math.log(w / sum(weights)) for w in weights)
    assert neighbourhood_density(features) == pytest.approx(total / 5)


def test_certain_and_balanced_is_best_and_collapse_is_not():
    balanced, collapsed = np.eye(4)[np.arange(20) % 4], np.eye(4)[np.zeros(20, dtype=int)]
    unsure = np.full((20, 4), 0.25)
    for name in ("infomax", "bnm", "corr_c"):
        of = {kind: label_free_scores({"a": p}, "a", None)[name] for kind, p in
              (("balanced", balanced), ("collapsed", collapsed), ("unsure", unsure))}  # fmt: skip
        assert of["balanced"] > max(of["collapsed"], of["unsure"]) + 0.1
    assert corr_c(balanced) == pytest.approx(1)


def test_classes_that_are_clusters_of_the_features_have_an_information_of_one():
    labels = np.arange(40) % 4
    features = np.eye(4)[labels] + 0.01 * np.random.default_rng(0).normal(size=(40, 4))
    assert class_ami(features, np.eye(4)[labels]) == pytest.approx(1)
    assert class_ami(features, np.eye(4)[np.random.default_rng(1).integers(4, size=40)]) < 0.3
    assert {"class_ami", "neighbourhood_density"} <= label_free_scores({"a": np.eye(4)[labels]}, "a", features).keys()


def test_the_ensemble_is_the_mean_of_all_candidates():
    candidates = [softmax(20, 3, 2.0, seed) for seed in range(4)]
    expected = []
    for p in candidates:
        same = 0
        for i in range(20):
            votes = [sum(other[i][c] for other in candidates) for c in range(3)]
            same += int(max(range(3), key=lambda c: p[i][c]) == max(range(3), key=lambda c: votes[c]))
        expected.append(same / 20)
    assert ensemble_agreement(candidates) == pytest.approx(expected)
    assert len(set(expected)) > 1


def test_ranks_count_from_the_worst_and_share_ties():
    scores = [{"a": 1.0, "b": 0.2}, {"a": 1.0, "b": 0.9}, {"a": 3.0, "b": 0.5}]
    assert mean_rank(scores, ["a"]) == pytest.approx([0.25, 0.25, 1])
    assert mean_rank(scores, ["a", "b"]) == pytest.approx([0.125, 0.625, 0.75])
    assert mean_rank(scores[:1], ["a"]) == [0]

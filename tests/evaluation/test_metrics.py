"""Numbers worked out by hand."""

import warnings

import numpy as np
import pytest

from unihssl.evaluation.metrics import score
from unihssl.evaluation.predictions import Predictions


def predictions(argmax: list[int], sums: list[int], domain: list[float] | None, classes: int = 3) -> Predictions:
    rules = {"argmax": np.eye(classes)[argmax], "sum": np.eye(classes)[sums]}
    names = tuple(map(str, range(len(argmax))))
    return Predictions(names, np.array([]), rules, None if domain is None else np.array(domain))


LABELED = predictions([0, 0, 1, 2], [0, 0, 1, 1], [0.1, 0.2, 0.6, 0.4]), np.array([0, 0, 1, 1])
UNLABELED = (
    predictions([2, 2, 1, 0, 0, 0], [2, 2, 2, 0, 0, 1], [0.9, 0.5, 0.6, 0.4, 1.0, 0.0]),
    np.array([2, 2, 2, 0, 0, 1]),
)


def test_score_against_hand_computed_numbers():
    result = score({"labeled": LABELED, "unlabeled": UNLABELED}, "argmax")
    # Labeled: 3 of 4; class 0 2/2, class 1 1/2. F1 of class 0: 1; of class 1: precision 1, recall 1/2.
    assert result["labeled"] == {
        "n": 4,
        "accuracy": 3 / 4,
        "class_mean_accuracy": pytest.approx((1 + 1 / 2) / 2),
        "macro_f1": pytest.approx((1 + 2 / 3) / 2),
        "accuracy_by_rule": {"argmax": 3 / 4, "sum": 1},
    }
    # Unlabeled: class 0 2/2, class 1 0/1, class 2 2/3. F1: 0.8, 0, 0.8.
    assert result["unlabeled"] == {
        "n": 6,
        "accuracy": pytest.approx(4 / 6),
        "class_mean_accuracy": pytest.approx((1 + 0 + 2 / 3) / 3),
        "macro_f1": pytest.approx((0.8 + 0 + 0.8) / 3),
        "accuracy_by_rule": {"argmax": pytest.approx(4 / 6), "sum": 1},
    }
    # Pooled: class 0 4/4, class 1 1/3, class 2 2/3. Guessed 5, 2 and 3 times: F1 8/9, 2/5, 2/3.
    assert result["pooled"] == {
        "n": 10,
        "accuracy": pytest.approx(7 / 10),
        "class_mean_accuracy": pytest.approx((1 + 1 / 3 + 2 / 3) / 3),
        "macro_f1": pytest.approx((8 / 9 + 2 / 5 + 2 / 3) / 3),
        "accuracy_by_rule": {"argmax": pytest.approx(7 / 10), "sum": 1},
    }
    assert result["domain_accuracy"] == pytest.approx((3 + 4) / 10)
    assert result["rule"] == "argmax"


def test_the_models_own_rule_decides():
    result = score({"labeled": LABELED, "unlabeled": UNLABELED}, "sum")
    assert [result[part]["accuracy"] for part in ("pooled", "labeled", "unlabeled")] == [1, 1, 1]
    assert result["pooled"]["accuracy_by_rule"]["argmax"] == pytest.approx(7 / 10)


def test_a_part_without_labels_is_absent_and_nothing_is_pooled():
    nobody = predictions([], [], []), np.array([], dtype=np.int64)
    result = score({"labeled": LABELED, "unlabeled": nobody}, "argmax")
    assert "unlabeled" not in result and "domain_accuracy" not in result
    assert "pooled" not in result and result["labeled"]["n"] == len(LABELED[1])
    assert score({"labeled": nobody, "unlabeled": nobody}, "argmax") == {"rule": "argmax"}


def test_a_method_without_domains_has_no_domain_accuracy():
    without = predictions([0], [0], None), np.array([0])
    assert "domain_accuracy" not in score({"labeled": without, "unlabeled": without}, "argmax")


def test_classes_guessed_but_absent_from_the_truth_raise_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = score({"labeled": (predictions([0, 2], [0, 2], None), np.array([0, 1]))}, "argmax")
    assert result["labeled"]["class_mean_accuracy"] == 0.5


def test_classes_by_name():
    result = score({"labeled": LABELED, "unlabeled": UNLABELED}, "argmax", ("cat", "dog", "eel"))
    assert result["labeled"]["class_accuracy"] == {"cat": 1, "dog": 1 / 2}  # no eel was there to be told
    assert result["labeled"]["confusion"] == {"cat": {"cat": 2}, "dog": {"dog": 1, "eel": 1}}
    assert result["pooled"]["class_accuracy"] == {"cat": 1, "dog": pytest.approx(1 / 3), "eel": pytest.approx(2 / 3)}
    pooled = {"cat": {"cat": 4}, "dog": {"cat": 1, "dog": 1, "eel": 1}, "eel": {"dog": 1, "eel": 2}}
    assert result["pooled"]["confusion"] == pooled

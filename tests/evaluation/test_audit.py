"""The audit's statistics, over redraws of samples whose truth is known."""

import numpy as np
import pytest
from scipy.stats import binomtest

import unihssl
from unihssl.evaluation.audit import (
    DELTA,
    audit_answer,
    calibrated,
    draw_sample,
    fit_temperature,
    is_calibrated,
    risk_threshold,
    share,
    temper,
)

REDRAWS = 200


def domain(size: int, accuracy: float, seed: int = 0, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (N, C) and labels (N,): about this accuracy, the more confident the more often right."""
    rng = np.random.default_rng(seed)
    confidence = 1 - (1 - 1 / classes) * rng.random(size) ** 2
    labels = rng.integers(0, classes, size)
    wrong = rng.random(size) < np.minimum(1, (1 - accuracy) * (1 - confidence) / (1 - confidence).mean())
    predicted = (labels + wrong * rng.integers(1, classes, size)) % classes
    probabilities = np.repeat((1 - confidence)[:, None] / (classes - 1), classes, 1)
    probabilities[np.arange(size), predicted] = confidence
    return probabilities, labels


def redraws(probabilities: np.ndarray, labels: np.ndarray, n: int, max_risk: float, groups: np.ndarray | None = None):
    """The answers to audits of n labels each, drawn anew."""
    rng = np.random.default_rng(1)
    for _ in range(REDRAWS):
        rows = draw_sample(len(labels), n, rng, groups)
        names = range(probabilities.shape[1])
        yield audit_answer(probabilities[rows], labels[rows], names, probabilities.max(1), max_risk)


def holds(interval: dict, truth: float) -> bool:
    return interval["low"] <= truth <= interval["high"]


def true_risk(probabilities: np.ndarray, labels: np.ndarray, threshold: float | None) -> float:
    answered = probabilities.max(1) >= (2 if threshold is None else threshold)
    return float((probabilities.argmax(1) != labels)[answered].mean()) if answered.any() else 0.0


def check(probabilities: np.ndarray, labels: np.ndarray, answers: list[dict]) -> None:
    accuracy = (probabilities.argmax(1) == labels).mean()
    assert np.mean([holds(answer["accuracy"], accuracy) for answer in answers]) >= 0.93
    for name in range(probabilities.shape[1]):
        proportion = (labels == name).mean()
        assert np.mean([holds(answer["class_shares"][str(name)], proportion) for answer in answers]) >= 0.93
    risks = [true_risk(probabilities, labels, answer["threshold"]) for answer in answers]
    assert np.mean([r > answer["max_risk"] for r, answer in zip(risks, answers, strict=True)]) <= DELTA


@pytest.mark.parametrize("accuracy", [0.5, 0.81, 0.97])
def test_intervals_cover_and_the_risk_bound_holds(accuracy):
    probabilities, labels = domain(400, accuracy)
    check(probabilities, labels, list(redraws(probabilities, labels, 100, 0.1)))


def test_they_do_for_a_trained_model(image_arrays):
    quick = {"epochs": 2, "pretrain_epochs": 2, "batch_size": 8, "tensorboard": False}
    model = unihssl.fit(*image_arrays, backbone="small_cnn", **quick)
    x, y = image_arrays[1]
    probabilities, labels = model.predict_proba(x), np.searchsorted(model.classes_, y)
    check(probabilities, labels, list(redraws(probabilities, labels, 30, 0.2)))


def test_shares_have_the_exact_interval():
    for count, n in ((0, 1), (1, 1), (0, 30), (7, 30), (30, 30), (99, 100)):
        exact = binomtest(count, n).proportion_ci(0.95, method="exact")
        expected = {"value": count / n, "low": exact.low, "high": exact.high, "n": n}
        assert share(count, n) == pytest.approx(expected, abs=1e-9)


def test_a_class_has_its_accuracy_if_it_has_ten_labels():
    probabilities, labels = domain(1000, 0.8)
    keep = np.concatenate([np.flatnonzero(labels == 0)[:10], np.flatnonzero(labels == 1)[:9]])
    answer = audit_answer(probabilities[keep], labels[keep], "abcd", probabilities.max(1), 0.1)
    assert list(answer["class_accuracy"]) == ["a"] and list(answer["class_shares"]) == [*"abcd"]
    right = (probabilities.argmax(1) == labels)[keep[:10]]
    assert answer["class_accuracy"]["a"] == share(int(right.sum()), 10)


@pytest.mark.parametrize("risk", [0.06, 0.12, 0.5])
def test_a_risk_just_above_the_one_asked_for_is_rarely_taken_for_less(risk):
    """The hardest case: confidence tells nothing, and every threshold has this risk."""
    rng = np.random.default_rng(0)
    confidence, wrong = rng.random(2000), np.arange(2000) < risk * 2000
    rows = [rng.permutation(2000)[:150] for _ in range(REDRAWS)]
    found = [risk_threshold(confidence[r], wrong[r], confidence, max_risk=risk - 0.01) is not None for r in rows]
    assert np.mean(found) <= DELTA


def test_a_risk_far_below_is_shown_and_few_labels_show_nothing():
    confidence, right = np.linspace(0, 1, 100), np.zeros(100, bool)
    assert risk_threshold(confidence, right, confidence, 0.05) == 0
    assert risk_threshold(confidence[:44], right[:44], confidence, 0.05) is None  # 0.95**44 > 0.1
    assert risk_threshold(confidence[:0], right[:0], confidence, 0.05) is None
    half = risk_threshold(confidence, confidence < 0.3, confidence, 0.05)
    assert half is not None and 0.25 < half < 0.45


def test_every_row_is_as_likely_as_any_other():
    groups = np.repeat([*"abcdefg"], [1, 2, 3, 4, 5, 6, 9])
    for grouped in (None, groups):
        rng = np.random.default_rng(0)
        draws = [draw_sample(30, 7, rng, grouped) for _ in range(3000)]
        assert all(len(set(rows)) == 7 for rows in draws)
        np.testing.assert_allclose(np.bincount(np.concatenate(draws), minlength=30) / 3000, 7 / 30, atol=0.05)


def test_groups_are_drawn_in_proportion_and_intervals_still_cover():
    groups = np.repeat(np.arange(100), 4)
    rows = draw_sample(400, 100, np.random.default_rng(0), groups)
    assert (np.bincount(groups[rows], minlength=100) == 1).all()
    probabilities, labels = domain(400, 0.8)
    by_group = np.argsort(probabilities.argmax(1) == labels, kind="stable")  # groups are all right or all wrong
    probabilities, labels = probabilities[by_group], labels[by_group]
    check(probabilities, labels, list(redraws(probabilities, labels, 60, 0.1, groups)))


def test_the_temperature_is_found_again():
    rng = np.random.default_rng(0)
    honest = rng.dirichlet(np.ones(3), 5000)
    labels = (rng.random((5000, 1)) > honest.cumsum(1)).sum(1)
    assert fit_temperature(temper(honest, 0.5), labels) == pytest.approx(2, rel=0.05)
    assert fit_temperature(honest, labels) == pytest.approx(1, rel=0.05)


def test_the_temperature_stays_finite():
    sure = np.array([[1.0, 0.0], [0.0, 1.0]] * 20, dtype=np.float32)
    for labels in (sure.argmax(1), 1 - sure.argmax(1)):
        assert 0.01 < fit_temperature(sure, labels) < 100
        assert np.isfinite(temper(sure, fit_temperature(sure, labels))).all()


def test_calibrated_probabilities_follow_the_domain_and_keep_the_class():
    probabilities, _ = domain(50, 0.8)
    audit = {"temperature": 3.0, "labeled_temperature": 0.5}
    weight = np.linspace(0, 1, 50)
    found = calibrated(audit, probabilities, weight)
    np.testing.assert_allclose(found.sum(1), 1)
    np.testing.assert_allclose(found[[0, 49]], [temper(probabilities, 0.5)[0], temper(probabilities, 3)[49]])
    assert (found.argmax(1) == probabilities.argmax(1)).all()
    np.testing.assert_array_equal(calibrated(audit, probabilities), temper(probabilities, 3))


def test_a_domain_that_is_not_told_apart_is_not_calibrated_by_the_other_one():
    """Half of the answers are right, at a confidence of 0.9; the labeled domain's temperature would make them surer."""
    p = np.tile([0.9, 0.05, 0.05], (100, 1))
    audit = audit_answer(p, np.repeat([0, 1], 50), ["a", "b", "c"], np.full(10, 0.9), 0.1)
    assert is_calibrated(audit, p, None)
    both = audit | {"labeled_temperature": 0.5}
    assert is_calibrated(both, p, np.ones(100)) and not is_calibrated(both, p, np.zeros(100))


def test_a_model_audits_itself(vector_arrays):
    quick = {"epochs": 2, "pretrain_epochs": 2, "batch_size": 8, "tensorboard": False}
    model = unihssl.fit(*vector_arrays, **quick)
    x, y = vector_arrays[1]
    predictions = model.predictions(x)
    np.testing.assert_array_equal(model.calibrated(predictions), model.predict_proba(x))
    with pytest.raises(unihssl.UserError, match="max_risk needs an audit"):
        model.abstains(predictions)
    answer = model.audit(x, y, max_risk=0.3, domain=x)
    assert answer["accuracy"]["value"] == pytest.approx((model.predict(x) == y).mean())
    assert answer["class_shares"]["10"]["value"] == pytest.approx(1 / 3) and model.audited is answer
    least = np.inf if answer["threshold"] is None else answer["threshold"]
    np.testing.assert_array_equal(model.abstains(predictions), model.predict_proba(x).max(1) < least)
    assert model.abstains(predictions, max_risk=0.0001).all()
    for bad, message in (
        ((x, y[:3]), "60 samples but 3 labels"),
        ((x, y + 1), "the model knows no class 11, 21, 31; its classes are 10, 20, 30"),
        ((x, y, 1.5), "max_risk is a share of wrong answers between 0 and 1, got 1.5"),
    ):
        with pytest.raises(unihssl.UserError, match=message):
            model.audit(*bad)

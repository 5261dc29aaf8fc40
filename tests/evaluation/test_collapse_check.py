"""Doubts about a model, from unlabeled samples alone."""

import numpy as np
import pytest

import unihssl
from colour_domains import colour_images
from unihssl.cli.options import as_options
from unihssl.data.catalog.digits import embedded_digits
from unihssl.errors import Setting, python_spelling
from unihssl.evaluation.collapse_check import collapse_warnings, doubt_warnings, effective_number
from unihssl.pipeline.train import train
from unihssl.run_folder import RunFolder
from unihssl.training.display import Display

TEN = tuple(range(10))


@pytest.mark.parametrize(
    ("counts", "number"), [([5, 5, 5, 5], 4), ([7, 0, 0], 1), ([1, 1, 0, 0], 2), ([2, 1, 1], 2**1.5)]
)
def test_effective_number_of_classes(counts, number):
    assert effective_number(np.array(counts)) == pytest.approx(number)


def test_collapsed_predictions_are_a_concern_and_name_the_starved_classes():
    labels = np.repeat(TEN, 20)
    (printed,) = collapse_warnings(np.repeat([0, 1, 2], 50), labels, TEN)
    assert "3.0 classes among them, where the labels have 10.0" in printed
    assert "hardly any is predicted as 3, 4, 5, 6, 7, 8, 9." in printed
    assert (
        collapse_warnings(labels, labels, TEN) == [] and collapse_warnings(np.array([], dtype=int), labels, TEN) == []
    )


def test_a_class_that_is_never_predicted_is_a_concern():
    labels = np.repeat(TEN, 20)
    (printed,) = collapse_warnings(np.repeat(range(8), 25), labels, TEN, "this")
    assert "hardly any of its samples is predicted as 8, 9. Unless it really lacks them, try this" in printed
    assert collapse_warnings(np.repeat(TEN, [*[20] * 9, 4]), labels, TEN) == []  # a fifth of its share
    rare = np.repeat([0, 1, 2], [100, 100, 4])
    assert collapse_warnings(np.repeat([0, 1], 100), rare, (0, 1, 2)) == []  # four are expected
    assert collapse_warnings(np.repeat([0, 1], 150), rare, (0, 1, 2)) != []  # six are


def test_another_mix_of_classes_is_no_concern():
    labels = np.repeat(TEN, 20)
    assert collapse_warnings(np.repeat(TEN, range(5, 15)), labels, TEN) == []
    assert collapse_warnings(np.repeat([0, 1], [9, 3]), np.repeat([0, 1], [3, 9]), (0, 1)) == []


QUICK = {"preset": "paper", "backbone": "small_cnn", "flip": False, "tensorboard": False}
FAILS = {"epochs": 3, "pretrain_epochs": 6, "lr": 0.03}  # on UCI > MNIST; at the default rate it is no clear failure


def test_a_run_that_fails_says_so_and_one_that_works_does_not(tmp_path):
    """UCI labeled, MNIST unlabeled: a pair on which the paper's recipe locks wrong pseudo-labels in."""
    uci, (x, y) = embedded_digits("uci"), embedded_digits("mnist")
    with pytest.warns(UserWarning, match="the unlabeled domain was probably not learnt"):
        failed = unihssl.fit(uci, (x[:1000], y[:1000]), out=tmp_path / "run", **FAILS, **QUICK)
    assert failed.result["unlabeled"]["accuracy"] < 0.4
    (printed,) = failed.result["warnings"]
    assert printed.startswith("the unlabeled domain was probably not learnt")
    fine = unihssl.fit(
        colour_images(16, 0, seed=0), colour_images(16, 10, seed=1), epochs=6, lr=0.05, test_fraction=0.3, **QUICK
    )
    assert fine.result["unlabeled"]["accuracy"] > 0.6 and fine.result["warnings"] == []
    looked_at = fine.result["unlabeled_training"]
    assert (
        looked_at["accuracy"] == pytest.approx(fine.result["unlabeled"]["accuracy"], abs=0.2) and looked_at["n"] <= 500
    )


def test_the_warning_needs_no_labels_of_the_unlabeled_domain():
    uci, (x, _) = embedded_digits("uci"), embedded_digits("mnist")
    with pytest.warns(UserWarning, match="the unlabeled domain was probably not learnt"):
        blind = unihssl.fit(uci, x[:1000], **FAILS, **QUICK)
    assert blind.result["warnings"] and "unlabeled_training" not in blind.result


@pytest.mark.parametrize(("spell", "way"), [(python_spelling, "try epochs=5"), (as_options, "try --set epochs=5")])
def test_a_saved_warning_spells_settings_as_its_front_end_does(vector_arrays, tmp_path, monkeypatch, spell, way):
    monkeypatch.setattr("unihssl.evaluation.check_run.collapse_warnings", lambda *seen: [f"try {Setting('epochs', 5)}"])
    knobs = {"method": "supervised", "backbone": "mlp", "max_steps": 1, "tensorboard": False}
    with Display(spell=spell) as display:
        model = train(tmp_path / "run", *vector_arrays, knobs, resume=False, display=display)
    assert model.result["warnings"] == RunFolder(tmp_path / "run").read_result()["warnings"] == [way]


def check(told: float | None, confidence: float, n: int = 500, distance: float = 0.1) -> dict:
    """The facts that the rule looks at."""
    shares = {"distance": distance, "predicted": {}, "labels": {}}
    domain = None if told is None else {"mean": told}
    return {"n": n, "domain_told": domain, "confidence": {"unlabeled": confidence}, "class_shares": shares}


@pytest.mark.parametrize(
    ("told", "confidence", "warned"),
    [
        (0.50, 0.47, True),  # aerial photographs, accuracy 0.38
        (0.58, 0.69, True),  # aerial photographs, accuracy 0.52
        (0.40, 0.60, True),
        (1.00, 0.99, False),  # digits, accuracy 0.97
        (0.50, 0.99, False),  # digits, accuracy 0.98: the domain alone says nothing
        (0.74, 0.54, False),  # digits with preset=paper, accuracy 0.87
        (None, 0.66, False),
        (None, 0.40, True),
    ],
)
def test_a_model_that_is_unsure_and_cannot_tell_the_domains_is_a_concern(told, confidence, warned):
    printed = doubt_warnings(check(told, confidence), "this")
    assert bool(printed) == warned
    if warned:
        assert printed[0].startswith("it is doubtful that the unlabeled domain was learnt") and "try this" in printed[0]
        assert f"its mean confidence there is {confidence:.2f}" in printed[0]
    assert doubt_warnings(check(told, confidence, n=99)) == []  # too few to say


def test_classes_in_other_shares_than_the_labels_are_a_concern():
    (printed,) = doubt_warnings(check(1.0, 0.99, distance=0.4), "this")
    assert printed.startswith("the unlabeled domain was probably not learnt: 40% of its samples would have to be")
    assert doubt_warnings(check(1.0, 0.99, distance=0.3)) == []

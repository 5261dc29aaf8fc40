"""The facts about an unlabeled domain, by hand."""

import numpy as np
import pytest

from unihssl.evaluation.predictions import Predictions
from unihssl.evaluation.unlabeled_check import in_words, total_variation, unlabeled_check

CLASSES = ("cat", "dog")


def predictions(p_dog: list[float], p_sum: list[float], domain: list[float] | None) -> Predictions:
    rules = {"argmax": p_dog, "sum": p_sum}
    both = {rule: np.stack([1 - np.array(p), np.array(p)], axis=1).reshape(-1, 2) for rule, p in rules.items()}
    names = tuple(map(str, range(len(p_dog))))
    told = None if domain is None else np.array(domain)
    return Predictions(names, np.array(CLASSES)[both["argmax"].argmax(1)], both, told)


SAMPLE = predictions([0.9, 0.8, 0.6, 0.1], [0.9, 0.8, 0.4, 0.1], [0.9, 0.9, 0.2, 0.9])
LABELS = np.array([0, 0, 0, 1])
HISTORY = [{"stats": {"mask_rate": rate}} for rate in (0.4, 0.9, 0.7)] + [{"stats": {}}]
A = predictions([0.7, 0.3], [0.7, 0.3], [0.1, 0.6])
B = predictions([0.7, 0.3, 0.9], [0.7, 0.3, 0.9], [0.8, 0.8, 0.8])


def facts(**more):
    held_out = more.pop("held_out", {"labeled": A, "unlabeled": B})
    return unlabeled_check(SAMPLE, "argmax", LABELS, CLASSES, held_out=held_out, **more)


def test_every_number():
    found = facts(other_view=np.array([1, 0]), history=HISTORY)
    assert found["n"] == 4
    assert found["confidence"] == {"unlabeled": pytest.approx(0.8), "labeled": pytest.approx(0.7)}
    assert found["class_shares"]["predicted"] == {"cat": 0.25, "dog": 0.75}
    assert found["class_shares"]["labels"] == {"cat": 0.75, "dog": 0.25} and found["class_shares"]["distance"] == 0.5
    told = found["domain_told"]
    assert (told["labeled"]["value"], told["unlabeled"]["value"], told["mean"]) == (0.5, 1.0, 0.75)
    assert told["held_out"] and told["unlabeled"]["n"] == 3
    assert found["view_agreement"] == 0.5 and found["rule_agreement"] == {"sum": 0.75}
    assert found["trusted"] == {"first": 0.4, "most": 0.9, "last": 0.7}
    words = "; ".join(in_words(found))
    assert "the right domain of 50% of A and 100% of B (held-out samples; chance is 50%)" in words
    assert "trusted: 40% at first, 90% at most, 70% at the end" in words


def test_what_cannot_be_known_is_none():
    blind = facts(held_out={"labeled": A, "unlabeled": predictions([], [], [])})
    assert not blind["domain_told"]["held_out"] and blind["domain_told"]["unlabeled"]["value"] == 0.75  # of the sample
    assert "training samples of B" in in_words(blind)[0]
    bare = facts(held_out={"labeled": predictions([0.7], [0.7], None)})
    assert bare["domain_told"] is None and bare["view_agreement"] is None and bare["trusted"] is None
    assert in_words(bare)[0].startswith("whether the model finds the right domain cannot be checked: ")
    assert "labeled" not in facts(held_out={})["confidence"]


def test_total_variation_is_what_would_have_to_move():
    assert total_variation({"a": 1.0, "b": 0.0}, {"a": 0.2, "b": 0.8}) == pytest.approx(0.8)

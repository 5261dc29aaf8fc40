"""What an experiment's figures show."""

import pytest

from unihssl.experiments.figures import knob_points
from unihssl.experiments.results import Record


def record(pair: str, value: float, seed: int, accuracy: float | None) -> Record:
    result = {} if accuracy is None else {"pooled": {"accuracy": accuracy}}
    return Record("digits", pair, "sensitivity", f"beta={value}", seed, result, {"beta": value})


def test_points_are_means_over_pairs_for_each_seed():
    records = [record("a/b", 0.5, 0, 0.6), record("b/a", 0.5, 0, 0.8), record("a/b", 0.5, 1, 0.5)]
    records += [record("b/a", 0.5, 1, 0.7), record("a/b", 0.8, 0, 0.9), record("a/b", 0.9, 0, None)]
    points = knob_points(records, "beta")
    assert {value: [pytest.approx(a) for a in accuracies] for value, accuracies in points.items()} == {
        0.5: [0.7, 0.6],
        0.8: [0.9],
    }

"""Which rows are suggested, against slow loops."""

import math
from itertools import pairwise

import numpy as np
import pytest

import unihssl
from unihssl.evaluation.suggest import by_clusters, choose, entropy


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_margin_is_the_gap_of_the_two_most_probable_classes(rng):
    p = rng.dirichlet(np.ones(4), size=30)
    gaps = {row: sorted(q)[-1] - sorted(q)[-2] for row, q in enumerate(p.tolist())}
    assert choose(p, p, 7, rng, by="margin").tolist() == sorted(gaps, key=gaps.__getitem__)[:7]


def test_entropy_against_a_loop(rng):
    p = rng.dirichlet(np.ones(3), size=5)
    p[0] = [1, 0, 0]
    slow = [-sum(q * math.log(q) for q in row if q > 0) for row in p.tolist()]
    assert entropy(p) == pytest.approx(slow, abs=1e-9)


def test_one_row_of_each_cluster_nearest_to_its_weighted_mean_heaviest_first(rng):
    blobs = np.repeat(np.arange(4), 10)
    features = 50 * np.eye(4)[blobs] + rng.normal(size=(40, 4))
    weights = rng.uniform(0.1, 1, size=40) * (1 + blobs)
    chosen = by_clusters(features, weights, 4, rng)
    assert sorted(blobs[chosen]) == [0, 1, 2, 3]
    for row in chosen:
        own = np.flatnonzero(blobs == blobs[row])
        mean = sum(weights[i] * features[i] for i in own) / sum(weights[i] for i in own)
        assert row == min(own, key=lambda i: math.dist(features[i], mean))
    mass = [weights[blobs == blobs[row]].sum() for row in chosen]
    assert all(a >= b for a, b in pairwise(mass))


def test_copies_and_certain_predictions_leave_no_gap(rng):
    features = np.repeat(np.eye(3), 10, axis=0)
    chosen = by_clusters(features, np.zeros(30), 8, rng)
    assert len(set(chosen.tolist())) == 8
    assert {row // 10 for row in chosen[:3].tolist()} == {0, 1, 2}


def test_a_model_suggests_names_that_target_labels_take(vector_arrays):
    labeled, (x, y) = vector_arrays
    model = unihssl.fit(labeled, x, epochs=1, pretrain_epochs=1, tensorboard=False)
    names = model.suggest(x, 6)
    assert len(set(names)) == 6 and names == model.suggest(x, 6)
    assert len(set(model.suggest(x, 60, by="random"))) == 60
    labels = {name: int(y[int(name)]) for name in names}
    again = unihssl.fit(labeled, x, target_labels=labels, epochs=1, pretrain_epochs=1, tensorboard=False)
    assert set(again.suggest(x, 60, by="margin")) == set(map(str, range(60)))
    for n, by, message in ((61, "margin", "n must be from 1 to 60"), (5, "luck", "by is one of clusters, margin")):
        with pytest.raises(unihssl.UserError, match=message):
            model.suggest(x, n, by=by)

"""What training must never see: the truth of the unlabeled domain, and the test images of either."""

import json

import numpy as np
import pytest
import torch

import unihssl
from colour_domains import colour_images
from unihssl import methods
from unihssl.config import Settings, knob_fields

(X, Y), (U, TRUTH) = colour_images(8, 0, seed=0), colour_images(12, 60, seed=1)
KNOBS = {
    "backbone": "small_cnn",
    "batch_size": 8,
    "tensorboard": False,
    "epochs": 2,
    "pretrain_epochs": 2,
    "max_steps": 6,
}
KNOBS |= {"lr": 0.05, "epsilon": 0.4}


def state(method: str, labeled, unlabeled, out, **knobs) -> dict[str, torch.Tensor]:
    known = knob_fields(Settings, methods.get(method).Params)
    own = {name: value for name, value in (KNOBS | knobs).items() if name in known}
    return unihssl.fit(labeled, unlabeled, out, method=method, **own).network.state_dict()


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("method", [m.name for m in methods.available().values() if not m.needs_truth])
def test_the_truth_of_the_unlabeled_domain_never_influences_training(method, tmp_path):
    """With nothing held out the split is the same whatever the labels are."""
    shuffled = np.random.default_rng(0).permutation(TRUTH)
    trained = [
        state(method, (X, Y), unlabeled, tmp_path / str(i), test_fraction=0)
        for i, unlabeled in enumerate([(U, TRUTH), (U, shuffled), U])
    ]
    assert same(trained[0], trained[1]) and same(trained[0], trained[2])
    rows = [(tmp_path / str(i) / "metrics.jsonl").read_text() for i in range(3)]
    assert "oracle" not in rows[2]


@pytest.mark.parametrize("method", methods.available())
def test_test_images_never_influence_training(method, tmp_path):
    before = state(method, (X, Y), (U, TRUTH), tmp_path / "before", test_fraction=0.3)
    split = json.loads((tmp_path / "before" / "split.json").read_text())
    x, u = X.copy(), U.copy()
    for pixels, role in ((x, "labeled"), (u, "unlabeled")):
        rows = [int(name) for name in split[role]["test"]]
        assert len(rows) >= 7
        pixels[rows] = 255 - pixels[rows]
    assert same(before, state(method, (x, Y), (u, TRUTH), tmp_path / "after", test_fraction=0.3))
    assert split == json.loads((tmp_path / "after" / "split.json").read_text())


@pytest.mark.parametrize("method", methods.available())
def test_strong_views_of_labeled_samples_reach_every_method(method, tmp_path):
    """AdaMatch sees both views of all of them, whatever is asked for."""
    weak, half = (
        state(method, (X, Y), (U, TRUTH), tmp_path / view, labeled_view=view) for view in ("weak", "half_strong")
    )
    assert same(weak, half) == (method == "adamatch")


def test_training_images_do(tmp_path):
    """The two tests above could fail."""
    before = state("unihssl", (X, Y), (U, TRUTH), tmp_path / "0", test_fraction=0)
    for number, changed in enumerate(
        [((255 - X, Y), (U, TRUTH)), ((X, Y), (255 - U, TRUTH)), ((X, Y[::-1]), (U, TRUTH))]
    ):
        assert not same(before, state("unihssl", *changed, tmp_path / f"other{number}", test_fraction=0))


def test_unlabeled_batches_refuse_to_tell_labels(monkeypatch):
    from unihssl.methods.unihssl import UniHSSL

    def peek(self, batch):
        return batch.unlabeled.y

    monkeypatch.setattr(UniHSSL, "adapt", peek)
    with pytest.raises(AttributeError, match="no label of theirs may be used in training"):
        unihssl.fit((X, Y), (U, TRUTH), **KNOBS)

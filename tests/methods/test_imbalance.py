"""`class_weight` and `sampling`: the labeled loss by hand, in every method, and equal classes in a pass."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import unihssl
from unihssl import methods
from unihssl.config import Settings
from unihssl.data.batches import balanced_order
from unihssl.errors import UserError
from unihssl.methods.base import Method, Task
from unihssl.methods.unihssl import UniHSSL
from unihssl.models.backbones import EncoderFactory

COUNTS = (30, 10, 2)


def loss(kind: str, logits: torch.Tensor, targets: torch.Tensor) -> float:
    method = methods.get("supervised")
    task = Task(3, 42, 42, class_counts=COUNTS)
    built = method(EncoderFactory("mlp", "none", 5), method.Params(), task, Settings(class_weight=kind))
    return built.labeled_loss(logits, targets).item()


@pytest.mark.parametrize("halves", [1, 2])
@pytest.mark.parametrize("kind", ["none", "balanced", "logit_adjust"])
def test_it_is_the_loss_of_a_slow_loop(kind: str, halves: int) -> None:
    torch.manual_seed(0)
    logits, y = torch.randn(8, 3 * halves), torch.tensor([0, 1, 2, 0, 0, 1, 2, 0])
    share = [count / 14 for count in COUNTS] * halves  # 1 on average
    total = weights = 0.0
    for row, target in zip(logits.tolist(), y.tolist(), strict=True):
        if kind == "logit_adjust":
            row = [value + np.log(s) for value, s in zip(row, share, strict=True)]
        weight = 1 / share[target] if kind == "balanced" else 1.0
        total -= weight * (row[target] - np.log(sum(np.exp(row))))
        weights += weight
    assert loss(kind, logits, y) == pytest.approx(total / weights, rel=1e-5)
    rows = F.one_hot(y, 3 * halves).float()
    assert loss(kind, logits, rows) == pytest.approx(total / weights, rel=1e-5)


@pytest.mark.parametrize("as_rows", [False, True])
def test_two_processes_compute_the_loss_of_one(as_rows: bool) -> None:
    torch.manual_seed(0)
    logits, y = torch.randn(8, 3), torch.tensor([0, 1, 2, 0, 0, 1, 0, 0])
    method, task = methods.get("supervised"), Task(3, 42, 42, class_counts=COUNTS)
    built = method(EncoderFactory("mlp", "none", 5), method.Params(), task, Settings(class_weight="balanced"))
    targets = F.one_hot(y, 3).float() if as_rows else y
    whole = built.labeled_loss(logits, targets)
    weights = (1 / built.class_shares)[y]
    built.processes.mean = lambda part: weights.mean()  # of both processes' samples
    parts = [built.labeled_loss(logits[rank::2], targets[rank::2]) for rank in (0, 1)]
    torch.testing.assert_close(sum(parts) / 2, whole)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(methods.available()))
def test_every_method_asks_for_it(name: str, vector_arrays, tmp_path, monkeypatch) -> None:
    asked = []
    labeled_loss = Method.labeled_loss
    monkeypatch.setattr(
        Method, "labeled_loss", lambda self, *given: asked.append(self.task.class_counts) or labeled_loss(self, *given)
    )
    knobs = {"max_steps": 2, "tensorboard": False, "class_weight": "balanced"}
    unihssl.fit(*vector_arrays, tmp_path / "run", method=name, **knobs)
    assert set(asked) == {(18, 18, 18)}


def test_a_pass_has_every_class_equally_often() -> None:
    classes = torch.tensor([0] * 30 + [1] * 10 + [2] * 2)
    order = balanced_order(classes, torch.Generator().manual_seed(1))
    assert torch.bincount(classes[order]).tolist() == [14, 14, 14]
    assert len(set(order[classes[order] == 0].tolist())) == 14  # no repetition where there are enough
    assert set(order[classes[order] == 2].tolist()) == {40, 41}
    assert not torch.equal(order, balanced_order(classes, torch.Generator().manual_seed(2)))


def thinned(x: np.ndarray, y: np.ndarray, rare: int) -> tuple[np.ndarray, np.ndarray]:
    """Twenty samples of the first class, `rare` of each other."""
    rows = np.concatenate([np.flatnonzero(y == one)[: 20 if one == y[0] else rare] for one in np.unique(y)])
    return x[rows], y[rows]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("options", "by_class"),
    [
        ({"method": "supervised", "sampling": "balanced"}, True),
        ({"method": "supervised"}, False),
        ({"method": "unihssl"}, True),
        ({"method": "unihssl", "class_weight": "balanced"}, False),
    ],
)
def test_sampling_reaches_the_steps(vector_arrays, tmp_path, monkeypatch, options, by_class) -> None:
    labeled, unlabeled = vector_arrays
    seen: list[int] = []
    method, name = methods.get(options["method"]), "adapt" if options["method"] == "unihssl" else "step"
    step = getattr(method, name)

    def noting(self, batch):
        seen.extend(batch.labeled.y.tolist())
        return step(self, batch)

    monkeypatch.setattr(method, name, noting)
    run = {"batch_size": 8, "epochs": 6, "tensorboard": False, "test_fraction": 0}
    unihssl.fit(thinned(*labeled, 3), unlabeled, tmp_path / "run", **run, **options)
    counts = np.bincount(seen, minlength=3)
    assert (counts.min() > 0.25 * counts.sum()) == by_class


@pytest.mark.filterwarnings("ignore")
def test_unlabeled_samples_are_drawn_by_their_pseudo_labels(vector_arrays, tmp_path, monkeypatch) -> None:
    labeled, unlabeled = vector_arrays
    seen: list[int] = []
    adapt, each_epoch = UniHSSL.adapt, UniHSSL.each_epoch

    def begin(self, data, epoch):
        seen.clear()  # the last epoch is left
        each_epoch(self, data, epoch)

    def noting(self, batch):
        seen.extend(self.drawn_classes[batch.unlabeled.rows].tolist())
        return adapt(self, batch)

    monkeypatch.setattr(UniHSSL, "each_epoch", begin)
    monkeypatch.setattr(UniHSSL, "adapt", noting)
    options = {"batch_size": 8, "epochs": 4, "tensorboard": False, "test_fraction": 0}
    unihssl.fit(labeled, thinned(*unlabeled, 3), tmp_path / "run", **options)  # the default does it
    counts = np.bincount(seen, minlength=3)
    assert counts.min() > 0.25 * counts.sum()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("rare", "options", "says_so"),
    [(4, {}, True), (5, {}, False), (4, {"class_weight": "balanced"}, False), (4, {"preset": "paper"}, False)],
)
def test_drawing_by_class_is_said_where_one_is_rare(vector_arrays, tmp_path, caplog, rare, options, says_so) -> None:
    caplog.set_level("INFO", "unihssl")
    labeled, unlabeled = vector_arrays
    run = {"batch_size": 8, "epochs": 1, "pretrain_epochs": 1, "tensorboard": False, "test_fraction": 0}
    unihssl.fit(thinned(*labeled, rare), unlabeled, tmp_path / "run", **run, **options)
    assert ("labeled classes have 4 to 20 samples: each is drawn equally often" in caplog.text) == says_so


def test_both_are_refused() -> None:
    with pytest.raises(UserError, match="twice"):
        Settings(class_weight="balanced", sampling="balanced")

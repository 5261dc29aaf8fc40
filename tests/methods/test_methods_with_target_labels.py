"""What methods make of labels of the unlabeled domain."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import unihssl
from colour_domains import colour_images
from unihssl import methods
from unihssl.config import Settings, knob_fields
from unihssl.data.batches import PairedData, TrainingDomain
from unihssl.data.store import Store
from unihssl.data.views import Views
from unihssl.errors import UserError
from unihssl.methods.base import Task
from unihssl.methods.mixing import draw_mixing
from unihssl.methods.unihssl import UniHSSL, UniHSSLParams
from unihssl.training.loop import Trainer

(X, Y), (U, TRUTH) = colour_images(8, 0, seed=0), colour_images(12, 60, seed=1)
SHORT = {"backbone": "small_cnn", "batch_size": 8, "tensorboard": False, "epochs": 2, "pretrain_epochs": 2}
SHORT |= {"sup_epochs": 2, "router_epochs": 1, "lr": 0.05, "max_steps": 6, "log_every": 1}
C, B, K, N = 3, 8, 4, 24
KNOWN = torch.tensor([2, 5, 11, 12, 20])  # rows of the unlabeled domain, and their classes
KNOWN_CLASSES = torch.tensor([0, 1, 2, 2, 0])


def fit(method: str, out: Path | None = None, labeled=(X, Y), unlabeled=(U, TRUTH), **knobs) -> unihssl.Model:
    known = knob_fields(Settings, methods.get(method).Params).keys() | {"target_labels", "resume"}
    own = {name: value for name, value in (SHORT | knobs).items() if name in known}
    return unihssl.fit(labeled, unlabeled, out, method=method, **own)


def weights(model: unihssl.Model) -> list[Tensor]:
    return list(model.network.state_dict().values())


def same(first: unihssl.Model, second: unihssl.Model) -> bool:
    return all(torch.equal(a, b) for a, b in zip(weights(first), weights(second), strict=True))


def paired(seed: int = 0) -> PairedData:
    """Vectors in float64; five of the unlabeled ones have target labels, for batches of four."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(N) % C
    x, u = torch.randn(2, N, 5, dtype=torch.float64, generator=generator) + 3 * torch.eye(5, dtype=torch.float64)[y]
    labels = torch.full((N,), -1)
    labels[KNOWN] = KNOWN_CLASSES
    views, target = Views(None, (), ()), KNOWN.numpy()
    labeled = TrainingDomain(Store(x), np.arange(N), views, B, 1, y)
    unlabeled = TrainingDomain(Store(u), np.arange(N), views, B, 2)
    return PairedData(
        labeled, unlabeled, 0, TrainingDomain(unlabeled.store, target, views, K, 3, labels, name="target")
    )


def unihssl_method(**knobs) -> UniHSSL:
    torch.manual_seed(0)
    params = UniHSSLParams(**knobs)
    return UniHSSL(lambda: (nn.Linear(5, 4), 4), params, Task(C, N, N, len(KNOWN)), Settings()).double()


def load(data: PairedData, step: int):
    data.reseed(1, step)
    data.load(1, step, 0.3)
    return data.batch()


KINDS = [{}, {"pseudo_update": "previous"}, {"pseudo_refresh": "epoch"}, {"first_half": "fold", "pseudo_kind": "hard"}]
KINDS += [{"prototypes": "full"}, {"epsilon": 1.0}, {"mixup_gate": True}, {"batch_norm": "separate"}]
KINDS += [{"confidence": "unlabeled_mass", "first_half": "drop"}, {"mixup_schedule": "mixmatch"}]


@pytest.mark.parametrize("knobs", KINDS, ids=str)
def test_memory_rows_of_known_class_stay_exact(knobs):
    method, data = unihssl_method(**knobs), paired()
    method.begin_adapt(data)
    exact = F.one_hot(C + KNOWN_CLASSES, 2 * C).double()
    others = np.setdiff1d(np.arange(N), KNOWN)
    before = method.pseudo_labels.table.clone()
    for step in range(9):
        if step % 3 == 0:
            method.each_epoch(data, step // 3)
        method.forward(method.adapt, load(data, step))[0].backward()
        assert torch.equal(method.pseudo_labels.table[KNOWN], exact)
        assert method.pseudo_labels.trusted(exact, KNOWN).all()
    assert (method.pseudo_labels.table[others] != before[others]).any(1).all()
    assert method.pseudo_classes()[KNOWN].tolist() == KNOWN_CLASSES.tolist()


@pytest.mark.parametrize("knobs", [{}, {"epsilon": 0.4, "mixup_gate": True}, {"epsilon": 1.0}], ids=str)
def test_losses_against_a_loop(knobs):
    """Every term of a step, sample by sample: target labels are exact, trusted and of class C + k."""
    method, data = unihssl_method(**knobs), paired()
    method.begin_adapt(data)
    p = method.params
    table = method.pseudo_labels.table.clone()
    ratio = draw_mixing(load(data, 4), p.alpha, p.mixup_schedule, p.mixup_draw)(torch.zeros(B, 1), torch.ones(B, 1))
    batch = load(data, 4)
    losses = {name: term.detach() for name, term in method.adapt(batch).terms.items()}

    def see(x: Tensor) -> tuple[Tensor, list[float]]:
        features = method.network.encoder(x)
        return features.detach(), method.network.head(features).softmax(0).tolist()

    cross_entropy, squares, pseudo = [], [], []
    members: dict[tuple[int, int], list[Tensor]] = {(d, c): [] for d in (0, 1) for c in range(C)}
    for x, y in zip(batch.labeled.weak, batch.labeled.y.tolist(), strict=True):
        features, predicted = see(x)
        cross_entropy.append(-math.log(predicted[y]))
        members[0, y].append(features)
    for x, y in zip(batch.target.weak, batch.target.y.tolist(), strict=True):
        features, predicted = see(x)
        cross_entropy.append(-math.log(predicted[C + y]))
        members[1, y].append(features)
    sides = []
    for x, row in zip(batch.unlabeled.weak, batch.unlabeled.rows.tolist(), strict=True):
        features, predicted = see(x)
        known = row in KNOWN.tolist()
        label = [p.beta * old + (1 - p.beta) * new for old, new in zip(table[row].tolist(), predicted, strict=True)]
        label = table[row].tolist() if known else label
        trusted = known or max(label) > p.epsilon
        pseudo.append(-sum(t * math.log(q) for t, q in zip(label, predicted, strict=True)) if trusted else 0.0)
        best = label.index(max(label))
        if trusted and best >= C:
            members[1, best - C].append(features)
        sides.append((x, label, trusted))
    for place, (x, y) in enumerate(zip(batch.target.weak, batch.target.y.tolist(), strict=True)):
        sides[place] = x, [float(k == C + y) for k in range(2 * C)], True
    for x, y, (u, label, trusted), share in zip(
        batch.labeled.weak, batch.labeled.y.tolist(), sides, ratio.flatten().tolist(), strict=True
    ):
        _, predicted = see((1 - share) * x + share * u)
        mixed = [(1 - share) * (k == y) + share * label[k] for k in range(2 * C)]
        distance = sum((q - t) ** 2 for q, t in zip(predicted, mixed, strict=True))
        squares.append(distance if trusted or not p.mixup_gate else 0.0)
    assert float(losses["labeled"]) == pytest.approx(sum(cross_entropy) / (B + K), abs=1e-6)
    assert float(losses["pseudo"]) == pytest.approx(sum(pseudo) / B, abs=1e-6)
    assert float(losses["mixup"]) == pytest.approx(sum(squares) / B, abs=1e-6)
    assert {c for (d, c), m in members.items() if d and m} >= set(batch.target.y.tolist())
    for (d, c), found in members.items():
        kept = (method.alignment.unlabeled if d else method.alignment.labeled).values[c]
        expected = torch.stack(found).mean(0) if found else torch.zeros(4, dtype=torch.float64)
        torch.testing.assert_close(kept, expected, rtol=1e-6, atol=1e-6)


def test_pre_training_takes_them_as_labeled_samples():
    method, data = unihssl_method(), paired()
    batch = load(data, 2)
    both = torch.cat([batch.labeled.weak, batch.target.weak])
    expected = F.cross_entropy(method.network(both)[:, :C], torch.cat([batch.labeled.y, batch.target.y]))
    torch.testing.assert_close(method.pretrain(batch).terms["labeled"], expected)


@pytest.mark.parametrize("name", methods.available())
def test_every_method_trains_with_one_label(name, tmp_path):
    """The label does something, except to the oracle, which knows it."""
    without, row = fit(name, tmp_path / "none"), 3
    model = fit(name, tmp_path / "one", target_labels={row: TRUTH[row]})
    assert all(t.isfinite().all() for t in weights(model) if t.is_floating_point())
    assert same(without, model) == methods.get(name).needs_truth
    rows = (tmp_path / "one" / "metrics.jsonl").read_text()
    assert "NaN" not in rows and "Infinity" not in rows


LEARNING = {"epochs": 12, "sup_epochs": 12, "pretrain_epochs": 6, "router_epochs": 8, "max_steps": 0, "lr": 0.02}
LEARNING |= {"sup_lr": 0.02, "test_fraction": 0.3, "batch_size": 16, "target_share": 1.0}


def inverted() -> tuple[np.ndarray, np.ndarray]:
    """A domain whose colours mean other classes: labels of the other domain mislead there."""
    x, y = colour_images(30, 60, seed=5)
    return x[..., [1, 2, 0]], y


@pytest.mark.parametrize(
    "name", ["supervised", "fixmatch", "adamatch", "simmatch", "cdan", "mcc", "biadapt", "unihssl"]
)
def test_a_few_labels_raise_the_accuracy(name):
    x, y = inverted()
    labeled = colour_images(30, 0, seed=4)
    rows = np.concatenate([np.flatnonzero(y == c)[:8] for c in np.unique(y)])
    accuracy = [
        fit(name, labeled=labeled, unlabeled=(x, y), target_labels=labels, **LEARNING).result["unlabeled"]["accuracy"]
        for labels in (None, {int(row): y[row] for row in rows})
    ]
    assert accuracy[0] < 0.5 and accuracy[1] > accuracy[0] + 0.2, accuracy


def test_only_the_part_for_the_unlabeled_domain_of_routed_methods_takes_them():
    models = [fit("mcc+sup", target_labels=labels) for labels in (None, {3: TRUTH[3], 20: TRUTH[20]})]
    first, second = (model.network.state_dict() for model in models)
    changed = {name.split(".")[0] for name, tensor in first.items() if not torch.equal(tensor, second[name])}
    assert changed == {"adapted"}


def test_a_transfer_loss_sees_the_domains_as_they_are():
    """CDAN's and BiAdapt's terms on the two domains do not count target labels as labeled samples."""
    data = paired()
    without = PairedData(data.labeled, data.unlabeled, 0)
    for name, term in (("cdan", "adversarial"), ("biadapt", "transfer")):
        kind = methods.get(name)
        torch.manual_seed(0)
        method = kind(lambda: (nn.Linear(5, 4), 4), kind.Params(bottleneck=0), Task(C, N, N, 5), Settings()).double()
        step = method.stages()[0].step
        found, expected = (step(load(d, 1)).terms[term] for d in (data, without))
        torch.testing.assert_close(found, expected)


def test_labels_of_known_samples_are_exact_in_the_second_stage_of_biadapt():
    kind, data = methods.get("biadapt"), paired()
    method = kind(lambda: (nn.Linear(5, 4), 4), kind.Params(bottleneck=0), Task(C, N, N, 5), Settings()).double()
    method.label_all(data)
    assert torch.equal(method.soft_labels[KNOWN], F.one_hot(KNOWN_CLASSES, C).double())


def test_labels_that_do_not_train_change_nothing():
    """The truth of the unlabeled domain beside target labels is for measuring, as it was."""
    labels = {int(row): TRUTH[row] for row in (1, 14, 30)}
    shuffled = np.random.default_rng(0).permutation(TRUTH)
    shuffled[[1, 14, 30]] = TRUTH[[1, 14, 30]]
    models = [
        fit("unihssl", unlabeled=unlabeled, target_labels=labels, test_fraction=0)
        for unlabeled in ((U, TRUTH), (U, shuffled), U)
    ]
    assert same(models[0], models[1]) and same(models[0], models[2])


@pytest.mark.parametrize("name", ["unihssl", "simmatch", "biadapt", "supervised"])
def test_an_interrupted_run_ends_the_same(name, tmp_path, monkeypatch):
    labels = {int(row): TRUTH[row] for row in (1, 14, 30)}
    whole = fit(name, tmp_path / "whole", target_labels=labels)
    take_step = Trainer._step

    def take_step_and_stop(trainer: Trainer, index: int, number: int) -> None:
        take_step(trainer, index, number)
        trainer.guard.requested = number == 3

    for _ in methods.get(name)(
        lambda: (nn.Linear(5, 4), 4), methods.get(name).Params(), Task(3, 8, 8), Settings()
    ).stages():
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Trainer, "_step", take_step_and_stop)
            fit(name, tmp_path / "again", target_labels=labels, resume=True)
    with pytest.raises(UserError, match="labels that were given in Python: pass its target_labels again"):
        fit(name, tmp_path / "again", resume=True)
    with pytest.raises(UserError, match="the data, target labels or settings have changed since this run began"):
        fit(name, tmp_path / "again", target_labels=labels | {2: TRUTH[2]}, resume=True)
    assert same(fit(name, tmp_path / "again", target_labels=labels, resume=True), whole)

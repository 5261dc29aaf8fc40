"""The router: which of two models a sample is sent to, what that is worth, and that the three networks stay apart."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import unihssl
from unihssl import methods
from unihssl.config import Settings, knob_fields
from unihssl.data.batches import PairedData, TrainingDomain
from unihssl.data.store import Store
from unihssl.data.views import Views
from unihssl.evaluation.metrics import score
from unihssl.evaluation.predictions import Predictions
from unihssl.methods.base import Task
from unihssl.methods.recipe import resolve
from unihssl.methods.routed import Routed
from unihssl.models.backbones import EncoderFactory

ROUTED = [name for name, method in methods.available().items() if issubclass(method, Routed)]
KNOBS = {"batch_size": 8, "epochs": 2, "sup_epochs": 3, "router_epochs": 4, "lr": 0.05, "sup_lr": 0.05}
KNOBS |= {"backbone": "mlp", "tensorboard": False, "device": "cpu"}


class Column(nn.Module):
    """A network that reads its logits off columns of the input."""

    def __init__(self, *columns: int) -> None:
        super().__init__()
        self.columns = list(columns)

    def forward(self, x: Tensor) -> Tensor:
        return x[:, self.columns]


def says(first: float, second: float, domain: float) -> list[float]:
    """A sample whose three networks give these logits: supervised and adapted for class 1, and the labeled domain."""
    return [0.0, first, 0.0, second, domain]


NETWORK = nn.ModuleDict({"supervised": Column(0, 1), "adapted": Column(2, 3), "domain": Column(4)})


def test_there_are_two():
    assert ROUTED == ["cdan+sup", "mcc+sup"]


@pytest.mark.parametrize("name", ROUTED)
def test_half_and_more_goes_to_the_supervised_model(name):
    x = torch.tensor([says(3, -3, d) for d in (5.0, 1e-3, 0.0, -1e-3, -5.0)])
    output = methods.get(name).output(NETWORK, x, None)
    assert output.probabilities["argmax"].argmax(1).tolist() == [1, 1, 1, 0, 0]
    supervised, adapted = x[:, :2].softmax(1), x[:, 2:4].softmax(1)
    torch.testing.assert_close(output.probabilities["argmax"], torch.cat([supervised[:3], adapted[3:]]))
    torch.testing.assert_close(output.probabilities["supervised"], supervised)
    torch.testing.assert_close(output.probabilities["adapted"], adapted)
    torch.testing.assert_close(output.unlabeled_domain, 1 - x[:, 4].sigmoid())
    assert output.oracle == ("supervised", "adapted")


def test_what_routing_is_worth():
    """Ten samples of class 1. Routed right: 3 of 4 labeled ones, 4 of 6 unlabeled ones."""
    labeled = [says(1, -1, 2), says(1, 1, 2), says(-1, 1, 2), says(1, -1, -2)]
    unlabeled = [says(-1, 1, -2), says(-1, 1, -2), says(1, -1, -2), says(1, 1, -2), says(1, -1, 2), says(-1, 1, 2)]

    def predictions(rows: list[list[float]]) -> tuple[Predictions, np.ndarray]:
        output = methods.get(ROUTED[0]).output(NETWORK, torch.tensor(rows), None)
        probabilities = {rule: p.numpy() for rule, p in output.probabilities.items()}
        names = tuple(map(str, range(len(rows))))
        found = Predictions(names, np.array([]), probabilities, output.unlabeled_domain.numpy(), output.oracle)
        return found, np.ones(len(rows), int)

    result = score({"labeled": predictions(labeled), "unlabeled": predictions(unlabeled)}, "argmax")
    assert result["domain_accuracy"] == pytest.approx(7 / 10)
    assert result["oracle_routing_accuracy"] == pytest.approx((3 + 4) / 10)
    assert result["labeled"]["accuracy"] == pytest.approx(2 / 4)
    assert result["unlabeled"]["accuracy"] == pytest.approx(4 / 6)
    assert result["pooled"]["accuracy"] == pytest.approx(6 / 10)
    assert result["pooled"]["accuracy_by_rule"] == pytest.approx({"argmax": 0.6, "supervised": 0.6, "adapted": 0.6})
    assert result["unlabeled"]["accuracy_by_rule"] == pytest.approx(
        {"argmax": 4 / 6, "supervised": 0.5, "adapted": 4 / 6}
    )
    alone = score({"unlabeled": predictions(unlabeled)}, "argmax")
    assert "oracle_routing_accuracy" not in alone and "domain_accuracy" not in alone


def set_up(name: str, **knobs) -> tuple[Routed, PairedData]:
    torch.manual_seed(0)
    known = knob_fields(Settings, methods.get(name).Params)
    settings, params = resolve({"method": name} | {k: v for k, v in (KNOBS | knobs).items() if k in known})
    method = methods.get(name)(EncoderFactory("mlp", "none", 4), params, Task(3, 24, 16), settings).train()
    labels, views = torch.arange(24) % 3, Views(None, (), ())
    x, u = torch.randn(24, 4) + 2 * torch.eye(4)[labels], torch.randn(16, 4) + 1
    labeled = TrainingDomain(Store(x), np.arange(24), views, 8, 1, labels)
    requested = settings.unlabeled_batch or 8
    return method, PairedData(labeled, TrainingDomain(Store(u), np.arange(16), views, requested, 2), 0)


def changed_by(method: Routed, data: PairedData, index: int, steps: int = 3) -> set[str]:
    """The tensors that some steps of a stage change."""
    stage = method.stages()[index]
    before = {name: value.clone() for name, value in method.state_dict().items()}
    optimizer = torch.optim.SGD(stage.trains.parameters(), 0.1, momentum=0.9, weight_decay=1e-3)
    for step in range(steps):
        data.reseed(index, step)
        data.load(index, step, 0.0)
        method(stage.step, data.batch())[0].backward()
        optimizer.step()
        optimizer.zero_grad()
        method.after_step()
    return {name for name, value in method.state_dict().items() if not torch.equal(value, before[name])}


@pytest.mark.parametrize("name", ROUTED)
def test_each_stage_moves_its_own_network_alone(name):
    method, data = set_up(name)
    *adapting, supervised, router = range(len(method.stages()))
    assert len(adapting) == 1 and [method.stages()[i].name for i in (supervised, router)] == ["supervised", "router"]
    for index, own in ((*adapting, ("adapter.", "network.adapted.")), (supervised, ("network.supervised.",))):
        moved = changed_by(method, data, index)
        assert moved and all(changed.startswith(own) for changed in moved), moved
    moved = changed_by(method, data, router)
    assert moved and all(changed.startswith("network.domain.") for changed in moved)
    domain = dict(method.network["domain"].named_parameters(prefix="network.domain"))
    assert domain.keys() <= moved  # all of it, unless frozen


@pytest.mark.parametrize("name", ROUTED)
def test_a_frozen_router_trains_its_head_only(name):
    method, data = set_up(name, router="frozen")
    assert changed_by(method, data, 2) == {"network.domain.head.weight", "network.domain.head.bias"}
    assert all(m.training for m in method.modules())  # features were taken in evaluation mode, which was then left


def test_both_domains_have_the_same_say_in_the_router():
    method, data = set_up("mcc+sup", unlabeled_batch=4, router="frozen")
    data.load(2, 0, 0.0)
    batch = data.batch()
    losses = method.learn_domain(batch)
    guess = [method.network["domain"].eval()(part.crop).squeeze(1) for part in (batch.labeled, batch.unlabeled)]
    assert [len(g) for g in guess] == [8, 4]
    expected = -(guess[0].sigmoid().log().mean() + (1 - guess[1].sigmoid()).log().mean()) / 2
    torch.testing.assert_close(losses.total(), expected)
    right = ((guess[0] > 0).float().mean() + (guess[1] <= 0).float().mean()) / 2
    torch.testing.assert_close(losses.stats["router_accuracy"], right)


def test_the_supervised_and_router_stages_are_those_of_section_7b():
    for name in ROUTED:
        method, _ = set_up(name, backbone="resnet50", sup_lr=5e-4, sup_epochs=100, router_epochs=10)
        _, supervised, router = method.stages()
        expected = Settings()  # Supervised's optimiser, whatever the adapter's is
        assert supervised.settings == dataclasses.replace(expected, epochs=100, lr=5e-4)
        assert router.settings == dataclasses.replace(expected, epochs=10, lr=5e-4)
        assert (supervised.epoch_length, router.epoch_length) == ("labeled", "max")


def weights(folder: Path, name: str, vectors, **knobs) -> dict[str, dict[str, Tensor]]:
    """The three networks of a run, each with its tensors by name."""
    known = knob_fields(Settings, methods.get(name).Params)
    own = {knob: value for knob, value in (KNOBS | knobs).items() if knob in known}
    model = unihssl.fit(*vectors, folder, method=name, **own)
    return {part: network.state_dict() for part, network in model.network.named_children()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("name", ROUTED)
def test_the_three_networks_are_trained_independently(name, tmp_path, vector_arrays):
    """Knobs of one change it and leave the others what they were, to the last bit."""
    plain = weights(tmp_path / "plain", name, vector_arrays)
    changes = {
        "adapted": {"lr": 0.01, "mu": 0.0, "trade_off": 0.0, "temperature": 1.0},
        "supervised": {"sup_epochs": 5},
        "domain": {"router_epochs": 2},
    }
    for part, knobs in changes.items():
        other = weights(tmp_path / part, name, vector_arrays, **knobs)
        assert {p for p in plain if not same(plain[p], other[p])} == {part}


@pytest.mark.parametrize("name", ROUTED)
def test_the_routed_result_is_told_with_its_ceiling(name, tmp_path, vector_arrays):
    model = unihssl.fit(*vector_arrays, tmp_path, method=name, **KNOBS)
    assert 0 <= model.result["domain_accuracy"] <= 1
    assert model.result["pooled"]["accuracy_by_rule"].keys() == {"argmax", "supervised", "adapted"}
    by_rule = [model.result[part]["accuracy_by_rule"] for part in ("labeled", "unlabeled")]
    sizes = [model.result[part]["n"] for part in ("labeled", "unlabeled")]
    oracle = (sizes[0] * by_rule[0]["supervised"] + sizes[1] * by_rule[1]["adapted"]) / sum(sizes)
    assert model.result["oracle_routing_accuracy"] == pytest.approx(oracle)
    x = vector_arrays[1][0]
    routed, domain = model.predictions(x).probabilities, model.predict_domain(x)
    expected = np.where(domain[:, None] <= 0.5, routed["supervised"], routed["adapted"])
    assert np.array_equal(routed["argmax"], expected)

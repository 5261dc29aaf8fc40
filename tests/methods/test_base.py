"""What whoever writes a method can rely on."""

from dataclasses import dataclass
from importlib.metadata import EntryPoint

import pytest
import torch
from torch import nn

from unihssl import UserError, methods
from unihssl.config import Settings, changes_result, deciding_knobs, knob
from unihssl.methods.base import Losses, Method, NoParams, Task
from unihssl.models.backbones import SmallCNN
from unihssl.training.optimizer import make_optimizer


@dataclass(frozen=True)
class PlainParams:
    weight: float = 1.0  # a field without `knob`
    note: str = knob("", "Changes nothing.", changes_result=False)


class Plain(Method[PlainParams]):
    paper = "none"


class Bare(Method):
    paper = "none"


def make(kind):
    return kind(
        lambda: (SmallCNN(), SmallCNN.feature_dim), kind.Params(), Task(3, 6, 6), Settings(lr=0.1, head_lr=10.0)
    )


def test_a_broken_method_of_another_package_stops_only_who_asks_for_it(monkeypatch):
    broken = EntryPoint("broken", "no_such_package:Broken", "unihssl.methods")
    monkeypatch.setattr(methods, "entry_points", lambda group: [broken])
    assert methods.get("mcc").name == "mcc"
    with pytest.raises(UserError, match=r"the method 'broken' of another package .* fails to load: No module"):
        methods.get("broken")


def test_params_are_those_in_brackets_or_none():
    assert Plain.Params is PlainParams and Bare.Params is NoParams
    assert make(Plain).params == PlainParams() and make(Bare).params == NoParams()


def test_a_term_cannot_be_added_twice():
    losses = Losses()
    losses.add("labeled", torch.tensor(1.0), 2.0)
    losses.log("rate", torch.tensor(0.5))
    assert losses.total() == 2 and set(losses.readings()) == {"terms/labeled", "weighted/labeled", "stats/rate"}
    assert losses.readings()["terms/labeled"] == 1 and losses.readings()["weighted/labeled"] == 2
    with pytest.raises(ValueError, match="'labeled' was added already"):
        losses.add("labeled", torch.tensor(1.0))
    with pytest.raises(ValueError, match="'rate' was logged already"):
        losses.log("rate", torch.tensor(1.0))


def test_a_method_says_which_of_its_knobs_change_the_result():
    assert deciding_knobs(PlainParams(weight=2.0, note="x")) == {"weight": 2.0}
    assert changes_result("weight", PlainParams) and not changes_result("note", PlainParams)


@pytest.mark.parametrize("part", ["whole", "network", "encoder"])
def test_encoders_learn_at_their_own_rate_whatever_part_is_trained(part):
    method = make(Bare)
    trained: nn.Module = {"whole": method, "network": method.network, "encoder": method.network.encoder}[part]
    optimizer = make_optimizer(trained, method.settings, method)
    rates = {p: group["base_lr"] for group in optimizer.param_groups for p in group["params"]}
    assert all(rates[p] == 0.1 for p in method.network.encoder.parameters())
    assert part == "encoder" or rates[method.network.head.weight] == 1.0

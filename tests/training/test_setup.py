"""Optimiser, schedule and device, from the settings."""

import copy
import math

import pytest
import timm
import torch
from torch import nn

from unihssl import UserError
from unihssl.config import Settings
from unihssl.methods.ema import EMA
from unihssl.methods.recipe import resolve
from unihssl.models.backbones import SmallCNN, pick_device
from unihssl.models.classifier import Classifier
from unihssl.training.fabric import make_fabric
from unihssl.training.optimizer import make_optimizer, restore_momentum, schedule_factor, set_learning_rate


@pytest.mark.parametrize(
    ("progress", "horizon", "factor"),
    [
        (0, 1, 1),
        (0.25, 1, (1 + math.sqrt(0.5)) / 2),
        (0.5, 1, 0.5),
        (1, 1, 0),
        (1, 2, 0.5),
        (0.5, 2, (1 + math.sqrt(0.5)) / 2),
    ],
)
def test_cosine_goes_from_one_to_zero_over_its_horizon(progress, horizon, factor):
    settings = Settings(lr_schedule="cosine", cosine_horizon=horizon)
    assert schedule_factor(settings, 0, progress) == pytest.approx(factor)
    assert schedule_factor(Settings(lr_schedule="constant", cosine_horizon=horizon), 0, progress) == 1


@pytest.mark.parametrize(
    ("knobs", "step", "progress", "factor"),
    [
        ({"lr_schedule": "cosine_7_16"}, 0, 0.0, 1.0),
        ({"lr_schedule": "cosine_7_16"}, 0, 0.5, math.cos(7 * math.pi / 32)),
        ({"lr_schedule": "cosine_7_16"}, 0, 1.0, math.cos(7 * math.pi / 16)),
        ({"lr_schedule": "inverse", "decay_gamma": 0.1, "decay_power": 2.0}, 30, 0.5, 1 / 16),
    ],
)
def test_the_other_schedules(knobs, step, progress, factor):
    assert schedule_factor(Settings(**knobs), step, progress) == pytest.approx(factor)
    rising = Settings(**knobs, lr_warm_up=0.8)
    assert schedule_factor(rising, step, progress) == pytest.approx(factor * min(1, progress / 0.8))


def test_every_schedule_rises_linearly_first():
    for progress, share in ((0.0, 0.0), (0.1, 0.5), (0.2, 1.0), (0.7, 1.0)):
        for name in ("constant", "cosine"):
            factor = schedule_factor(Settings(lr_schedule=name), 0, progress)
            found = schedule_factor(Settings(lr_schedule=name, lr_warm_up=0.2), 0, progress)
            assert found == pytest.approx(share * factor)


def test_a_rate_on_the_device_is_changed_in_place():
    rate = torch.tensor(3.0)
    groups = [{"base_lr": 0.5, "lr": rate}]
    set_learning_rate(groups, 0.5)
    assert groups[0]["lr"] is rate and rate.item() == 0.25


def test_what_is_not_trained_is_not_the_optimisers(network):
    both = torch.nn.ModuleList([network, EMA(network, 0.9)])
    counts = [sum(len(g["params"]) for g in make_optimizer(m, Settings()).param_groups) for m in (network, both)]
    assert counts[0] == counts[1] == len(list(network.parameters()))


@pytest.fixture
def network() -> Classifier:
    return Classifier(SmallCNN(), SmallCNN.feature_dim, 3)


def rates(optimizer: torch.optim.Optimizer, network: torch.nn.Module) -> dict[str, tuple[float, float]]:
    """Learning rate and weight decay of each parameter by name."""
    found = {id(p): (g["lr"], g["weight_decay"]) for g in optimizer.param_groups for p in g["params"]}
    assert len(found) == sum(len(g["params"]) for g in optimizer.param_groups)
    return {name: found[id(p)] for name, p in network.named_parameters()}


def test_one_rate_and_decay_for_everything_by_default(network):
    optimizer = make_optimizer(network, Settings(lr=0.1))
    assert set(rates(optimizer, network).values()) == {(0.1, 1e-3)}
    assert optimizer.defaults["momentum"] == 0.9 and optimizer.defaults["nesterov"]


def test_head_lr_multiplies_the_rate_outside_the_backbone(network):
    for name, (rate, _) in rates(make_optimizer(network, Settings(lr=0.1, head_lr=10)), network).items():
        assert rate == pytest.approx(1.0 if name.startswith("head.") else 0.1), name


def test_biases_and_norms_can_be_left_out_of_weight_decay(network):
    settings = Settings(weight_decay=0.01, decay_bias_and_norm=False)
    for name, (_, decay) in rates(make_optimizer(network, settings), network).items():
        assert decay == (0.01 if network.get_parameter(name).dim() > 1 else 0), name


def test_no_momentum_is_plain_sgd(network):
    optimizer = make_optimizer(network, Settings(momentum=0))
    assert optimizer.defaults["momentum"] == 0 and not optimizer.defaults["nesterov"]


def test_the_schedule_scales_every_group_from_its_own_rate(network):
    optimizer = make_optimizer(network, Settings(lr=0.1, head_lr=10))
    for factor in (0.5, 0.25):  # not of what the last call left
        set_learning_rate(optimizer.param_groups, factor)
        assert {g["lr"] for g in optimizer.param_groups} == {0.1 * factor, 1.0 * factor}


@pytest.mark.parametrize("there", [False, True])
def test_device_is_the_cpu_unless_there_is_a_gpu(monkeypatch, there):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert pick_device("cpu") == "cpu"
    assert pick_device("auto") == ("cuda" if there else "cpu")
    with pytest.raises(UserError, match="device must be one of auto, cpu, cuda, got 'tpu'"):
        pick_device("tpu")
    assert make_fabric(Settings(device="cpu")).device.type == "cpu"


def test_restored_momentum_is_laid_out_like_the_weights(network):
    """On a GPU weights are channels-last; a checkpoint may come from a CPU, where they are not."""
    optimizer = make_optimizer(network, Settings(lr=0.1))
    network(torch.randn(4, 3, 16, 16)).sum().backward()
    optimizer.step()
    saved = optimizer.state_dict()
    elsewhere = Classifier(SmallCNN(), SmallCNN.feature_dim, 3).to(memory_format=torch.channels_last)
    other = make_optimizer(elsewhere, Settings(lr=0.1))
    restore_momentum(other, saved)
    pairs = zip(network.parameters(), elsewhere.parameters(), strict=True)
    assert any(not p.is_contiguous() for p in elsewhere.parameters())
    for before, now in pairs:
        buffer = other.state[now]["momentum_buffer"]
        assert torch.equal(buffer, optimizer.state[before]["momentum_buffer"]) and buffer.stride() == now.stride()


def test_the_rate_of_a_short_run_decays_as_in_a_long_one():
    """Decaying as far in 500 steps as in 20,000 cost rivals 3 to 14 points on PACS: results/history.md."""
    made_for = Settings(lr_schedule="inverse", decay_gamma=4e-4, designed_steps=20_000)
    for step in (0, 500):
        assert schedule_factor(made_for, step, step / 500) == schedule_factor(made_for, step, step / 20_000)
    assert schedule_factor(made_for, 500, 1.0) == pytest.approx(1.2**-0.75)


@pytest.mark.parametrize(
    ("asked", "steps"),
    [
        ({"method": "mcc"}, 30_000),
        ({"method": "mcc", "epochs": 3}, 30_000),
        ({"method": "mcc", "dataset": "office-31"}, 10_000),
        ({"method": "fixmatch", "backbone": "small_cnn"}, 0),  # its constants are made for short runs
        ({"method": "unihssl"}, 0),
        ({"method": "mcc", "designed_steps": 100}, 100),
    ],
)
def test_presets_know_the_length_they_were_made_for(asked, steps):
    assert resolve(asked)[0].designed_steps == steps


def test_an_average_follows_as_far_as_several_updates_would():
    network, start = nn.Linear(2, 2).double(), nn.Linear(2, 2).double()
    one, several = EMA(start, 0.9), EMA(start, 0.9)
    several.update(network, 2.0)
    for _ in range(2):
        one.update(network)
    for a, b in zip(one.network.parameters(), several.network.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


def test_layer_decay_slows_the_first_layers_most():
    encoder = timm.create_model("test_vit", num_classes=0)
    network = Classifier(encoder, encoder.num_features, 3)
    optimizer = make_optimizer(network, Settings(lr=1.0, head_lr=10.0, layer_decay=0.5))
    rates = {parameter: group["lr"] for group in optimizer.param_groups for parameter in group["params"]}
    blocks = [rates[block.attn.qkv.weight] for block in encoder.blocks]
    assert blocks == sorted(blocks) and blocks[0] == pytest.approx(blocks[-1] * 0.5 ** (len(blocks) - 1))
    assert rates[encoder.patch_embed.proj.weight] == pytest.approx(blocks[0] / 2)
    assert rates[network.head.weight] == 10.0


def test_adamw_is_what_it_says():
    torch.manual_seed(0)
    network = Classifier(torch.nn.Linear(4, 4), 4, 2)
    again = copy.deepcopy(network)
    ours = make_optimizer(network, Settings(optimizer="adamw", lr=0.1, weight_decay=0.2))
    plain = torch.optim.AdamW(again.parameters(), lr=0.1, weight_decay=0.2)
    for _ in range(3):
        x = torch.randn(5, 4)
        for model, optimizer in ((network, ours), (again, plain)):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
    for found, expected in zip(network.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(found, expected)

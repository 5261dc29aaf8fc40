"""On a GPU: steps replayed as CUDA graphs are the steps themselves, and nothing in them waits for the host."""

import json
import warnings
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import unihssl
from colour_domains import colour_images
from unihssl import methods
from unihssl.config import Settings, knob_fields
from unihssl.data.batches import PairedBatch
from unihssl.methods import unihssl as unihssl_module
from unihssl.methods.base import Losses
from unihssl.methods.supervised import Supervised
from unihssl.models import backbones
from unihssl.models.backbones import SmallCNN
from unihssl.training import step as step_module

pytestmark = pytest.mark.gpu

LABELED, UNLABELED = colour_images(12, 0, seed=0), colour_images(16, 60, seed=1)
KNOBS = {
    "backbone": "small_cnn",
    "batch_size": 8,
    "tensorboard": False,
    "epochs": 4,
    "pretrain_epochs": 4,
    "sup_epochs": 3,
    "router_epochs": 3,
    "precision": "fp32",
    "log_every": 7,
    "device": "cuda",
}


def train(method, out, **knobs):
    known = knob_fields(Settings, methods.get(method).Params)
    own = {name: value for name, value in (KNOBS | knobs).items() if name in known}
    model = unihssl.fit(LABELED, UNLABELED, out, method=method, **own)
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    flat = [{**row.pop("terms"), **row.pop("stats"), **row} for row in rows]
    left_out = ("images_per_second", "weighted", "pseudo_shares", "checksum")
    return model.network.state_dict(), [{k: v for k, v in row.items() if k not in left_out} for row in flat]


@pytest.fixture(autouse=True)
def kinds_of_steps(request, monkeypatch):
    """Uni-HSSL's second stage has two where a case is about that, otherwise one, whatever these images are."""
    knobs = request.node.callspec.params.get("knobs", {}) if hasattr(request.node, "callspec") else {}
    monkeypatch.setattr(unihssl_module, "EVEN", 2.0 if "apart" in knobs else 0.0)


@pytest.fixture
def replays(monkeypatch):
    """How many graphs were captured."""
    captured = []
    real = step_module.Step._captured
    monkeypatch.setattr(step_module.Step, "_captured", lambda self: captured.append(1) or real(self))
    return captured


@pytest.fixture
def captures(monkeypatch):
    """How often a pass through a part of a network was captured, every time with success."""
    captured, tried = [], []
    real = torch.cuda.make_graphed_callables

    def capture(*arguments, **named):
        tried.append(1)
        graphed = real(*arguments, **named)
        captured.append(1)
        return graphed

    monkeypatch.setattr(torch.cuda, "make_graphed_callables", capture)
    yield captured
    assert captured == tried


CASES = [*((m, {}) for m in methods.available()), ("unihssl", {"preset": "paper"})]
LABELS = {"target_labels": {row: UNLABELED[1][row] for row in (0, 20, 40)}}
CASES += [("unihssl", {"apart": 0.5})]  # two kinds of steps
CASES += [(method, LABELS) for method in ("unihssl", "fixmatch", "adamatch", "simmatch", "cdan", "biadapt")]


@pytest.mark.parametrize(("method", "knobs"), CASES)
def test_replayed_steps_are_the_steps_themselves(method, knobs, tmp_path, replays, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    plain, rows = train(method, tmp_path / "plain", graph="off", **knobs)
    assert not replays
    replayed, replayed_rows = train(method, tmp_path / "replayed", **knobs)
    assert len(replays) == len({row["stage"] for row in rows}) + ("apart" in knobs)
    for name, value in plain.items():
        torch.testing.assert_close(replayed[name], value, rtol=1e-3, atol=1e-4, msg=name)
    assert len(rows) == len(replayed_rows)
    for one, other in zip(rows, replayed_rows, strict=True):
        assert one == pytest.approx(other, rel=1e-3, abs=1e-3)


OTHERS = [{"batch_norm": "separate"}, {"prototypes": "full"}, {"placement": "host"}, {"precision": "bf16"}]
OTHERS += [LABELS | {"placement": "host"}, {"lambda_consistency": 0.0}]
OTHERS += [{"sampling": "shuffle", "unlabeled_sampling": "shuffle"}]
APART = [("unihssl", knobs) for knobs in OTHERS]


@pytest.mark.parametrize(("method", "knobs"), [*CASES, *APART])
def test_replayed_passes_are_the_passes_themselves(method, knobs, tmp_path, replays, captures, monkeypatch):
    """The network's alone: BatchNorm's statistics among its state, and everything around them as it is."""
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    plain, rows = train(method, tmp_path / "plain", graph="off", **knobs)
    assert not captures
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "The AccumulateGrad node's stream")
        replayed, replayed_rows = train(method, tmp_path / "replayed", graph="network", **knobs)
    assert captures and not replays
    for name, value in plain.items():
        torch.testing.assert_close(replayed[name], value, rtol=1e-3, atol=1e-4, msg=name)
    for one, other in zip(rows, replayed_rows, strict=True):
        assert one == pytest.approx(other, rel=1e-3, abs=1e-3)


class Uncertain(SmallCNN):
    """With dropout."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__(channels)
        self.layers.insert(1, nn.Dropout(0.3))


class Waiting(SmallCNN):
    """Its host wants to know something of the GPU in every pass; and there is dropout, too."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__(channels)
        self.layers.append(nn.Dropout(0.3))
        self.layers[0][1].momentum = None


def test_replayed_dropout_draws_what_it_would_have(tmp_path, captures, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    monkeypatch.setattr(backbones, "SmallCNN", Uncertain)
    plain, replayed = (train("fixmatch", tmp_path / graph, graph=graph)[0] for graph in ("off", "network"))
    assert captures
    for name, value in plain.items():
        torch.testing.assert_close(replayed[name], value, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize("graph", ["auto", "network"])
def test_a_network_that_waits_for_the_gpu_runs_as_it_is(graph, tmp_path, replays, captures, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    monkeypatch.setattr(backbones, "SmallCNN", Waiting)
    plain, found = (train("supervised", tmp_path / kind, graph=kind)[0] for kind in ("off", graph))
    assert not replays and not captures
    for name, value in plain.items():
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=1e-4, msg=name)


def test_a_capture_that_fails_midway_costs_speed_not_the_run(tmp_path, monkeypatch):
    """As it does without memory: streams and random numbers are as they would have been."""

    class Failing(Uncertain):
        def forward(self, x):
            if torch.cuda.is_current_stream_capturing():
                raise torch.cuda.OutOfMemoryError("CUDA out of memory")
            return super().forward(x)

    class Around(nn.Module):
        feature_dim = Failing.feature_dim

        def __init__(self, channels: int = 3) -> None:
            super().__init__()
            self.inner = Failing(channels)

        def forward(self, x):
            return self.inner(x)

    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    monkeypatch.setattr(backbones, "SmallCNN", Around)
    plain, found = (train("supervised", tmp_path / kind, graph=kind)[0] for kind in ("off", "network"))
    for name, value in plain.items():
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize("backbone", ["resnet18", "vit_tiny_patch16_224", "convnext_atto"])
def test_backbones_replay_their_parts(backbone, tmp_path, captures):
    knobs = {"backbone": backbone, "weights": "none", "max_steps": 8, "precision": "auto"}
    losses = [train("unihssl", tmp_path / graph, graph=graph, **knobs)[1][-1]["loss"] for graph in ("network", "off")]
    assert captures and losses[0] == pytest.approx(losses[1], rel=0.05)


OPTIONS = [
    {"mixup_schedule": "mixmatch"},
    {"mixup_schedule": "simple", "mixup_draw": "batch"},
    {"prototypes": "batch"},
    {"prototypes": "epoch", "pseudo_refresh": "epoch"},
    {"first_half": "fold", "pseudo_kind": "hard", "pseudo_mean": "kept"},
    {"batch_norm": "separate", "bottleneck": 16, "mixup_gate": True},
    {"weak_view": "resized_crop", "precision": "bf16"},
    {"weak_view": "translate", "unlabeled_batch": 4},
]


@pytest.mark.parametrize("knobs", OPTIONS, ids=str)
def test_options_of_the_method_can_be_captured(knobs, tmp_path, replays):
    _, rows = train("unihssl", tmp_path / "run", **knobs)
    assert len(replays) == 2
    assert all(value == value for row in rows for value in row.values())


@pytest.mark.parametrize("view", ["randaugment", "randaugment_cutout", "randaugment_imagenet", "moco"])
def test_strong_views_can_be_captured(view, tmp_path, replays):
    train("fixmatch", tmp_path / "run", strong_view=view, ema=0.9)
    assert len(replays) == 1


def test_prototypes_over_all_data_replay_the_network_alone(tmp_path, replays, captures):
    train("unihssl", tmp_path / "run", prototypes="full")
    assert len(replays) == 1  # pre-training
    assert captures


@pytest.mark.parametrize("home", ["gpu", "host"])
def test_a_killed_run_goes_on_under_graphs(home, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    whole, _ = train("unihssl", tmp_path / "whole", placement=home)
    real, calls = step_module.Step.__call__, []

    def stop(self):
        calls.append(1)
        if len(calls) == 23:
            raise KeyboardInterrupt
        real(self)

    monkeypatch.setattr(step_module.Step, "__call__", stop)
    with pytest.raises(KeyboardInterrupt):
        train("unihssl", tmp_path / "run", placement=home, checkpoint_seconds=0)
    known = knob_fields(Settings, methods.get("unihssl").Params)
    own = {name: value for name, value in KNOBS.items() if name in known} | {
        "placement": home,
        "checkpoint_seconds": 0,
    }
    resumed = unihssl.fit(LABELED, UNLABELED, tmp_path / "run", resume=True, **own).network.state_dict()
    for name, value in whole.items():
        torch.testing.assert_close(resumed[name], value, rtol=1e-3, atol=1e-4, msg=name)


@dataclass(frozen=True)
class WaitingParams:
    pass


def test_a_method_that_waits_for_the_gpu_replays_the_network_alone(tmp_path, replays, captures, monkeypatch):
    class WaitingMethod(Supervised):
        name = "waiting"
        Params = WaitingParams

        def step(self, batch: PairedBatch) -> Losses:
            losses = super().step(batch)
            assert losses.total().item() >= 0
            return losses

    monkeypatch.setattr(methods, "available", lambda: {"waiting": WaitingMethod, "supervised": Supervised})
    monkeypatch.setattr(methods, "get", lambda name: {"waiting": WaitingMethod, "supervised": Supervised}[name])
    train("waiting", tmp_path / "run")
    assert not replays and captures


@pytest.mark.parametrize("method", methods.available())
def test_no_step_waits_for_the_gpu(method, tmp_path, monkeypatch):
    """The loop itself, loading and scheduling included, between two reports."""
    from unihssl.training.loop import Trainer

    real, seen = Trainer._step, []

    def watched(self, index, step):
        per_epoch = self.epoch_steps[index]
        quiet = step > 6 and step % per_epoch
        torch.cuda.set_sync_debug_mode("error" if quiet else "default")
        try:
            real(self, index, step)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        seen.append(quiet)

    monkeypatch.setattr(Trainer, "_step", watched)
    train(method, tmp_path / "plain", graph="off")
    train(method, tmp_path / "network", graph="network")
    train(method, tmp_path / "replayed")
    assert sum(map(bool, seen)) > 10


def test_the_time_of_the_whole_run_is_said(tmp_path, caplog):
    caplog.set_level("INFO", "unihssl")
    train("unihssl", tmp_path / "run")
    assert sum("training will take about" in line for line in caplog.messages) == 1

"""Which passes through a network are captured and replayed, and that all else runs as it is, with a count for a graph.

That what is replayed is what would have been computed is for `test_graph.py` to say, on a GPU.
"""

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from unihssl.models.backbones import EncoderFactory
from unihssl.models.classifier import Classifier
from unihssl.training.replay import ReplayedEncoders


class Encoder(nn.Module):
    """Two parts worth replaying between layers that are not."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.middle = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        self.end = nn.ModuleList([nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))])
        self.pool = nn.Sequential(nn.Linear(3, 3), nn.Identity())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(self.end[0](self.middle(self.first(x))))


@pytest.fixture
def counted(monkeypatch):
    """Stands in for CUDA graphs: what was captured, and how often each was replayed."""
    replays = []

    def capture(callable, arguments, allow_unused_input):
        assert not torch.is_autocast_cache_enabled()
        for _ in range(3):  # trial runs, as torch makes them
            callable(*arguments)
        number = len(replays)
        replays.append(0)

        def replay(x):
            replays[number] += 1
            return callable(x)

        return replay

    monkeypatch.setattr(torch.cuda, "make_graphed_callables", capture)
    return replays


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: nullcontext())
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda mode: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: "the stream of training")
    monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: None)


@pytest.fixture
def network() -> Classifier:
    torch.manual_seed(0)
    return Classifier(Encoder(), 3, 2)


def no_note(text: str) -> None:
    raise AssertionError(text)


X = torch.arange(12.0).view(4, 3)


def test_each_pass_of_a_step_has_a_graph_of_its_own(counted, network):
    replayed = ReplayedEncoders(network, no_note)
    for _ in range(3):
        replayed.begin_step()
        network(X), network(2 * X)
    assert counted == [3, 3, 3, 3]  # two parts, twice


def test_the_results_are_those_of_plain_passes_statistics_and_all(counted, network):
    plain = Classifier(Encoder(), 3, 2)
    plain.load_state_dict(network.state_dict())
    replayed = ReplayedEncoders(network, no_note)
    for _ in range(3):
        replayed.begin_step()
        for model in (network, plain):
            model(X).square().sum().backward()
    for (name, one), other in zip(network.state_dict().items(), plain.state_dict().values(), strict=True):
        assert torch.equal(one, other), name
    for one, other in zip(network.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


def test_evaluation_no_gradients_and_other_shapes_run_as_they_are(counted, network):
    replayed = ReplayedEncoders(network, no_note)
    replayed.begin_step()
    network.evaluate(X)
    with torch.no_grad():
        network(X)
    assert not counted
    network(X)
    replayed.begin_step()
    network(X[:2])  # its first pass is another one this time
    network(X)  # nor was there a second
    assert counted == [1, 1]


def test_a_pass_must_be_like_the_captured_one(counted, network):
    replayed = ReplayedEncoders(network, no_note)
    replayed.begin_step()
    part = network.encoder.middle
    part(X)
    for x in (X, X.clone().requires_grad_(), X):
        replayed.begin_step()
        part(x).sum().backward()
        assert x.grad is None or x.grad.abs().sum() < 1e-4  # BatchNorm's, whose sum is the same whatever goes in
    assert counted == [3]
    with torch.autocast("cpu", torch.bfloat16):
        replayed.begin_step()
        assert part[0](X).dtype == torch.bfloat16 and part(X).shape == X.shape
    assert counted == [3]


def test_under_autocast_it_is_captured_so_too(counted, network):
    replayed = ReplayedEncoders(network, no_note)
    for _ in range(2):
        replayed.begin_step()
        with torch.autocast("cpu", torch.bfloat16):
            assert network.encoder.end[0](X).dtype == torch.bfloat16
    assert counted == [2]


def test_synchronised_layers_are_left_alone(network):
    network.encoder.middle = nn.SyncBatchNorm.convert_sync_batchnorm(network.encoder.middle)
    replayed = ReplayedEncoders(network, no_note)
    assert [part.module for part in replayed.parts] == [network.encoder.end[0]]


def test_encoders_may_share_their_parts(counted, network):
    both = nn.ModuleList([network, Classifier(network.encoder, 3, 5), Classifier(network, 2, 2)])
    replayed = ReplayedEncoders(both, no_note)
    replayed.begin_step()
    for each in both:
        each(X)
    assert counted == [1, 1, 1]  # the whole encoder is a part of the last one's
    replayed.release()
    assert not any("forward" in vars(module) for module in both.modules())


class Scaled(nn.Sequential):
    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return scale * super().forward(x)


class Scaling(nn.Module):
    """Asks its part for more than what a tensor says."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Scaled(nn.Linear(3, 3), nn.Linear(3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(x, 2.0) + self.part(x, scale=3.0)


def synchronised() -> nn.Module:
    return nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (synchronised, "its BatchNorm is synchronised"),
        (lambda: nn.Linear(3, 3), "it has no large parts"),
        (Scaling, "no large part of it takes one tensor"),
    ],
)
def test_where_nothing_is_replayed_that_is_said_once(make, reason, counted):
    notes: list[str] = []
    network = Classifier(make(), 3, 2)
    replayed = ReplayedEncoders(network, notes.append)
    for _ in range(3):
        replayed.begin_step()
        if make is not synchronised:  # that wants a GPU
            network(X)
    assert not counted and len(notes) == 1 and notes[0].endswith(f"slower: {reason}")


@pytest.mark.parametrize(
    ("error", "because"),
    [
        (RuntimeError("CUDA out of memory. Tried\nto allocate"), "CUDA out of memory. Tried"),
        (AssertionError(), "AssertionError"),
    ],
)
def test_what_cannot_be_captured_costs_speed_and_is_said_once(error, because, network, monkeypatch):
    def refuse(*arguments, **named):
        raise error

    notes: list[str] = []
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", refuse)
    replayed = ReplayedEncoders(network, notes.append)
    for _ in range(3):
        replayed.begin_step()
        network(X).sum().backward()
    assert notes == [f"passes through the network are not replayed as CUDA graphs, which is slower: {because}"]
    assert "forward" not in vars(network.encoder.middle)


def test_once_released_the_network_is_what_it_was(counted, network):
    replayed = ReplayedEncoders(network, no_note)
    replayed.begin_step()
    network(X)
    replayed.release()
    network(X)
    assert counted == [1, 1]
    assert not any("forward" in vars(module) for module in network.modules())


@pytest.mark.parametrize(
    ("backbone", "parts"), [("small_cnn", 1), ("resnet50", 4), ("vit_tiny_patch16_224", 1), ("efficientnet_b0", 1)]
)
def test_backbones_have_parts_to_replay(backbone, parts):
    replayed = ReplayedEncoders(Classifier(*EncoderFactory(backbone, "none")(), 3), no_note)
    assert len(replayed.parts) == parts

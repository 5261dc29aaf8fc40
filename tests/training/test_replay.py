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
        self.end = nn.Sequential(nn.Sequential(nn.Linear(3, 3)), nn.ReLU())
        self.pool = nn.Sequential(nn.Identity())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(self.end(self.middle(self.first(x))))


@pytest.fixture
def counted(monkeypatch):
    """Stands in for CUDA graphs: what was captured, and how often each was replayed."""
    replays = []

    def capture(callable, arguments, allow_unused_input):
        assert not torch.is_autocast_cache_enabled() or not torch.is_autocast_enabled("cpu")
        for _ in range(3):  # trial runs, as torch makes them
            callable(*arguments)
        number = len(replays)
        replays.append(0)

        def replay(x):
            replays[number] += 1
            return callable(x)

        return replay

    monkeypatch.setattr(torch.cuda, "make_graphed_callables", capture)
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: nullcontext())
    return replays


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


def test_more_than_one_argument_runs_as_it_is(counted):
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
            return scale * self.layer(x)

    class Scaling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = Scaled()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.part(x, 2.0) + self.part(x, scale=3.0)

    network = Classifier(Scaling(), 3, 2)
    replayed = ReplayedEncoders(network, no_note)
    replayed.begin_step()
    network(X)
    assert len(replayed.parts) == 1 and not counted


def test_synchronised_layers_are_left_alone(network):
    network.encoder.middle = nn.SyncBatchNorm.convert_sync_batchnorm(network.encoder.middle)
    replayed = ReplayedEncoders(network, no_note)
    assert [part.module for part in replayed.parts] == [network.encoder.end]


def test_what_cannot_be_captured_costs_speed_and_is_said_once(network, monkeypatch):
    def refuse(*arguments, **named):
        raise RuntimeError("CUDA out of memory. Tried\nto allocate")

    notes: list[str] = []
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", refuse)
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: nullcontext())
    replayed = ReplayedEncoders(network, notes.append)
    for _ in range(3):
        replayed.begin_step()
        network(X).sum().backward()
    because = "CUDA out of memory. Tried"
    assert notes == [f"the network's passes are not replayed as CUDA graphs, which is slower: {because}"]
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
    ("backbone", "parts"), [("small_cnn", 1), ("resnet50", 4), ("vit_tiny_patch16_224", 2), ("efficientnet_b0", 3)]
)
def test_backbones_have_parts_to_replay(backbone, parts):
    replayed = ReplayedEncoders(Classifier(*EncoderFactory(backbone, "none")(), 3), no_note)
    assert len(replayed.parts) == parts

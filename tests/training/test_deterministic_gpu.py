"""On a GPU with `deterministic`: one seed gives one set of weights, bit for bit, however steps are replayed."""

import pytest
import torch

import unihssl
from colour_domains import colour_images
from unihssl import methods
from unihssl.config import Settings, knob_fields

pytestmark = pytest.mark.gpu

LABELED, UNLABELED = colour_images(12, 0, seed=0), colour_images(16, 60, seed=1)
KNOBS = {"batch_size": 8, "tensorboard": False, "device": "cuda", "deterministic": True, "weights": "none"}
KNOBS |= {"epochs": 4, "pretrain_epochs": 4, "sup_epochs": 3, "router_epochs": 3}
CASES = [(name, "small_cnn", graph) for name in methods.available() for graph in ("auto", "network", "off")]
CASES += [("unihssl", "resnet18", "auto"), ("unihssl", "vit_tiny_patch16_224", "auto")]


@pytest.mark.parametrize(("method", "backbone", "graph"), CASES)
def test_the_same_seed_gives_the_same_weights(method, backbone, graph, tmp_path):
    known = knob_fields(Settings, methods.get(method).Params)
    knobs = {name: value for name, value in KNOBS.items() if name in known}
    if backbone != "small_cnn":
        knobs |= {"max_steps": 8}
    networks = [
        unihssl.fit(LABELED, UNLABELED, tmp_path / run, method=method, backbone=backbone, graph=graph, **knobs).network
        for run in ("one", "two")
    ]
    one, two = (network.state_dict() for network in networks)
    for name, value in one.items():
        assert torch.equal(two[name], value), name
    assert not torch.are_deterministic_algorithms_enabled() and not torch.backends.cudnn.deterministic

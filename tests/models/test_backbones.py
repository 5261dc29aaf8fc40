"""Backbones by name: widths, inputs, and what is printed about names and connections that do not work."""

import socket
from dataclasses import asdict

import huggingface_hub.constants
import pytest
import torch

from unihssl.errors import UserError
from unihssl.models import weights as hub
from unihssl.models.backbones import (
    IMAGENET_MEAN,
    MLP,
    SMALL,
    Architecture,
    EncoderFactory,
    SmallCNN,
    build_backbone,
    rebuild_backbone,
)
from unihssl.models.classifier import Classifier


@pytest.mark.parametrize("side", [16, 20, (28, 36)])
def test_small_cnn_takes_any_image(side):
    encoder, architecture, width = build_backbone("small_cnn", "none")
    height, across = side if isinstance(side, tuple) else (side, side)
    assert encoder(torch.rand(4, 3, height, across)).shape == (4, width)
    assert width == SmallCNN.feature_dim
    assert architecture.side is None
    assert not architecture.takes_vectors


def test_small_cnn_refuses_images_of_three_pixels():
    with pytest.raises(UserError, match=r"small_cnn takes images from 4x4 pixels on, got 9x3: set image_size"):
        build_backbone("small_cnn", "none")[0](torch.zeros(2, 3, 9, 3))


def test_mlp_takes_vectors_of_any_scale():
    encoder, architecture, width = build_backbone("mlp", "none", vector_size=7)
    found = encoder(1000 * torch.randn(16, 7))
    assert found.shape == (16, width)
    assert width == MLP.feature_dim
    assert found.abs().max() < 20
    assert architecture.takes_vectors
    assert architecture.vector_size == 7


@pytest.mark.parametrize("name", ["test_vit", "test_resnet", "test_mambaout", "mobilenetv3_small_050"])
def test_width_is_that_of_the_features(name):
    encoder, architecture, width = build_backbone(name, "none")
    with torch.no_grad():
        found = encoder.eval()(torch.rand(1, 3, architecture.side, architecture.side))
    assert found.shape == (1, width)


@pytest.mark.parametrize("name", ["small_cnn", "test_resnet", "test_vit"])
def test_any_number_of_channels(name, tmp_path):
    """Weights of RGB are adapted as timm adapts its own; each channel is normalised by the mean over RGB."""
    encoder, architecture, width = build_backbone(name, "none", channels=5)
    side = architecture.side or 16
    assert encoder.eval()(torch.rand(2, 5, side, side)).shape == (2, width)
    assert architecture.mean == pytest.approx((sum(IMAGENET_MEAN) / 3,) * 5) or name != "small_cnn"
    assert len(architecture.mean) == len(architecture.std) == architecture.channels == 5
    rebuild_backbone(Architecture(**asdict(architecture)))[0].load_state_dict(encoder.state_dict())
    colours = build_backbone(name, "none")[0].eval()
    torch.save(colours.state_dict(), tmp_path / "weights.pth")
    grey = build_backbone(name, str(tmp_path / "weights.pth"), channels=1)[0].eval()
    x = torch.rand(2, 1, side, side)
    torch.testing.assert_close(grey(x), colours(x.expand(-1, 3, -1, -1)), rtol=1e-4, atol=1e-4)


def test_rebuild_gives_the_same_encoder():
    for name, size in (("small_cnn", 0), ("mlp", 5), ("test_vit", 0)):
        encoder, architecture, width = build_backbone(name, "none", size)
        assert Architecture(**asdict(architecture)) == architecture
        rebuilt, rebuilt_width = rebuild_backbone(Architecture(**asdict(architecture)))
        assert rebuilt_width == width
        rebuilt.load_state_dict(encoder.state_dict())


@pytest.mark.parametrize(
    ("name", "near"),
    [("resnt18", "resnet18"), ("resnet-50", "resnet50"), ("smallcnn", "small_cnn"), ("vit_tiny_patch16", "vit_tiny")],
)
def test_unknown_names_suggest_near_ones(name, near):
    with pytest.raises(UserError, match=f"unknown backbone '{name}'; the nearest are: .*{near}"):
        build_backbone(name, "none")


def test_nothing_near():
    with pytest.raises(UserError, match="unknown backbone 'qqqzzz'; the nearest are: none"):
        build_backbone("qqqzzz", "none")


@pytest.mark.parametrize("weights", ["none", "pretrained"])
def test_unknown_tag(monkeypatch, weights):
    monkeypatch.setattr(hub, "_reachable", lambda endpoint: False)
    with pytest.raises(UserError, match=r"test_vit\.nonsense"):
        build_backbone("test_vit.nonsense", weights)


@pytest.mark.parametrize("name", ["small_cnn", "resnet18"])
def test_image_backbones_refuse_vectors(name):
    with pytest.raises(UserError, match=f"backbone {name} takes images, and these are feature vectors: use .*mlp"):
        build_backbone(name, "none", vector_size=12)


def test_mlp_refuses_images():
    with pytest.raises(UserError, match="mlp takes feature vectors, and these are images: use backbone='small_cnn'"):
        build_backbone("mlp", "none")


@pytest.mark.parametrize("name", SMALL)
def test_small_encoders_have_no_pretrained_weights(name):
    with pytest.raises(UserError, match=f"no pretrained weights for {name}: use weights='none'"):
        build_backbone(name, "pretrained", vector_size=3 if name == "mlp" else 0)


@pytest.mark.parametrize("name", ["test_vit", "resnet50"])
def test_unreachable_hub(monkeypatch, tmp_path, name):
    monkeypatch.setattr(hub, "_reachable", lambda endpoint: False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    asked = []

    def look_up(*address: object, **_: object) -> None:
        asked.append(address)
        raise OSError("no network")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(
        UserError, match=f"for {name}.* hub cannot be reached.*weights='FILE'.*weights='none'"
    ) as raised:
        build_backbone(name, "pretrained")
    assert asked == []  # the hub's client would try again for most of a minute
    assert "\n" not in str(raised.value)
    assert huggingface_hub.constants.HF_HUB_OFFLINE is False


def test_reachable(monkeypatch):
    monkeypatch.setattr("urllib.request.getproxies", dict)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert hub._reachable(f"http://127.0.0.1:{port}")
    assert not hub._reachable(f"http://127.0.0.1:{port}")
    monkeypatch.setattr("urllib.request.getproxies", lambda: {"https": "http://proxy:3128", "no": "localhost"})
    assert hub._reachable(f"https://127.0.0.1:{port}") and not hub._reachable(f"http://127.0.0.1:{port}")


def test_factory_makes_encoders_that_start_alike_from_a_file(tmp_path):
    torch.save(SmallCNN().state_dict(), tmp_path / "weights.pth")
    factory = EncoderFactory("small_cnn", str(tmp_path / "weights.pth"))
    (first, width), (second, again) = factory(), factory()
    assert first is not second
    assert width == again == SmallCNN.feature_dim
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name])


@pytest.mark.parametrize(("bottleneck", "width"), [(0, MLP.feature_dim), (10, 10)])
def test_classifier(bottleneck, width):
    encoder, _, encoder_width = build_backbone("mlp", "none", vector_size=4)
    classifier = Classifier(encoder, encoder_width, outputs=6, bottleneck=bottleneck)
    x = torch.randn(8, 4)
    assert classifier.features(x).shape == (8, width)
    assert classifier.feature_dim == width
    assert classifier(x).shape == (8, 6)
    torch.testing.assert_close(classifier(x), classifier.head(classifier.features(x)))

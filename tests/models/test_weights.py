"""Weights files: formats, names, strides, and files that must be refused."""

import os
import pickle
from pathlib import Path

import pytest
import timm
import torch
import torchvision
from safetensors.torch import save_file
from torchvision.models.resnet import BasicBlock, Bottleneck

from unihssl.errors import UserError
from unihssl.methods.recipe import resolve
from unihssl.models.backbones import SmallCNN, build_backbone, rebuild_backbone
from unihssl.models.weights import load_weights_file, read_tensors

SHARED = Path(os.environ.get("UNIHSSL_SHARED", Path(__file__).parents[3] / "shared"))
RESNET50_V1 = SHARED / "weights" / "resnet50_v1_imagenet_fp16.safetensors"


def randomised(model):
    """Every tensor distinct, so that one in the wrong place is seen; batch statistics too."""
    generator = torch.Generator().manual_seed(0)
    for name, tensor in model.state_dict().items():
        if name.endswith("running_var"):
            tensor.uniform_(0.5, 1.5, generator=generator)
        elif tensor.is_floating_point() and tensor.dim() < 2:
            tensor.add_(0.1 * torch.randn(tensor.shape, generator=generator))
    return model.eval()


def small_state():
    torch.manual_seed(1)
    return randomised(SmallCNN()).state_dict()


def save(state, path, **metadata):
    if path.suffix == ".safetensors":
        save_file({n: t.contiguous() for n, t in state.items()}, path, metadata or None)
    else:
        torch.save(state, path)
    return str(path)


@torch.no_grad()
def features(model, side):
    """In double precision: two libraries need not add up in the same order."""
    images = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return model.double().eval()(images)


def strides(encoder):
    return [
        (getattr(encoder, f"layer{i}")[0].conv1.stride[0], getattr(encoder, f"layer{i}")[0].conv2.stride[0])
        for i in (1, 2, 3, 4)
    ]


def assert_same_tensors(encoder, state):
    for name, tensor in encoder.state_dict().items():
        torch.testing.assert_close(tensor, state[name], rtol=0, atol=0)


@pytest.mark.parametrize("suffix", ["safetensors", "pt", "pth", "bin"])
def test_formats(tmp_path, suffix):
    state = small_state()
    encoder, _, _ = build_backbone("small_cnn", save(state, tmp_path / f"weights.{suffix}"))
    assert_same_tensors(encoder, state)


@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: {"state_dict": state, "epoch": 3},
        lambda state: {"model": state},
        lambda state: {"model_state_dict": state, "optimizer": {"lr": 0.1}},
        lambda state: {"state_dict": {f"module.{n}": t for n, t in state.items()}},
        lambda state: {f"module.{n}": t for n, t in state.items()},
        lambda state: {f"backbone.{n}": t for n, t in state.items()},
        lambda state: {f"module.model.{n}": t for n, t in state.items()},
        lambda state: {**state, "fc.weight": torch.zeros(5, 2), "head.bias": torch.zeros(5)},
        lambda state: {**{f"module.{n}": t for n, t in state.items()}, "module.fc.weight": torch.zeros(5, 2)},
        lambda state: {n: t for n, t in state.items() if not n.endswith("num_batches_tracked")},
    ],
)
def test_wrappings(tmp_path, wrap, legacy):
    state = small_state()
    torch.save(wrap(state), tmp_path / "weights.pth", _use_new_zipfile_serialization=not legacy)
    encoder = SmallCNN()
    assert load_weights_file(encoder, str(tmp_path / "weights.pth")) is False
    assert_same_tensors(encoder, state)


def test_half_precision_becomes_single(tmp_path):
    state = {n: t.half() if t.is_floating_point() else t for n, t in small_state().items()}
    encoder, _, _ = build_backbone("small_cnn", save(state, tmp_path / "weights.safetensors"))
    assert {t.dtype for t in encoder.parameters()} == {torch.float32}
    assert_same_tensors(encoder, {n: t.float() if t.is_floating_point() else t for n, t in state.items()})


@pytest.mark.parametrize("suffix", ["safetensors", "pth"])
def test_torchvision_resnet(tmp_path, suffix):
    theirs = randomised(torchvision.models.resnet.ResNet(BasicBlock, [2, 2, 2, 2], num_classes=7))
    ours, architecture, width = build_backbone("resnet18", save(theirs.state_dict(), tmp_path / f"weights.{suffix}"))
    theirs.fc = torch.nn.Identity()
    torch.testing.assert_close(features(ours, 64), features(theirs, 64))
    assert (width, architecture.side, architecture.v1_strides) == (512, 224, False)


def test_torchvision_vit(tmp_path):
    theirs = randomised(torchvision.models.VisionTransformer(160, 16, 6, 2, 64, 192, num_classes=7))
    ours, architecture, width = build_backbone("test_vit", save(theirs.state_dict(), tmp_path / "weights.pth"))
    theirs.heads = torch.nn.Identity()
    torch.testing.assert_close(features(ours, 160), features(theirs, 160), rtol=1e-4, atol=1e-4)
    assert (width, architecture.side) == (64, 160)


def test_timm_names(tmp_path):
    theirs = randomised(timm.create_model("test_vit", num_classes=7))
    ours, _, _ = build_backbone("test_vit", save(theirs.state_dict(), tmp_path / "weights.safetensors"))
    theirs.reset_classifier(0)
    torch.testing.assert_close(features(ours, 160), features(theirs, 160))


def test_v1_strides(tmp_path):
    reference = randomised(torchvision.models.resnet.ResNet(Bottleneck, [2, 2, 2, 2], num_classes=3))
    file = tmp_path / "weights.safetensors"
    plain, architecture, _ = build_backbone("resnet26", save(reference.state_dict(), file))
    assert strides(plain) == [(1, 1), (1, 2), (1, 2), (1, 2)]
    assert not architecture.v1_strides
    v1, architecture, width = build_backbone("resnet26", save(reference.state_dict(), file, resnet_stride="conv1"))
    assert strides(v1) == [(1, 1), (2, 1), (2, 1), (2, 1)]
    assert architecture.v1_strides
    reference.fc = torch.nn.Identity()
    torch.testing.assert_close(features(plain, 64), features(reference, 64))
    for layer in (reference.layer2, reference.layer3, reference.layer4):
        layer[0].conv1.stride, layer[0].conv2.stride = (2, 2), (1, 1)
    torch.testing.assert_close(features(v1, 64), features(reference, 64))
    assert not torch.allclose(features(v1, 64), features(plain, 64))

    rebuilt, rebuilt_width = rebuild_backbone(architecture)
    rebuilt.load_state_dict(v1.state_dict())
    assert rebuilt_width == width == 2048
    torch.testing.assert_close(features(rebuilt, 64), features(v1, 64))


@pytest.mark.parametrize("name", ["small_cnn", "resnet18"])
def test_v1_strides_need_bottlenecks(tmp_path, name):
    encoder, _, _ = build_backbone(name, "none")
    file = save(encoder.state_dict(), tmp_path / "weights.safetensors", resnet_stride="conv1")
    with pytest.raises(UserError, match="only bottleneck ResNets have"):
        build_backbone(name, file)


@pytest.mark.skipif(not RESNET50_V1.is_file(), reason=f"{RESNET50_V1} is not here (set UNIHSSL_SHARED)")
def test_the_shared_resnet50():
    encoder, architecture, width = build_backbone("resnet50", str(RESNET50_V1))
    assert strides(encoder) == [(1, 1), (2, 1), (2, 1), (2, 1)]
    assert architecture.v1_strides
    assert (width, architecture.side) == (2048, 224)
    assert architecture.mean == pytest.approx((0.485, 0.456, 0.406))
    assert encoder.conv1.weight.dtype == torch.float32
    tensors, metadata = read_tensors(RESNET50_V1)
    assert metadata["resnet_stride"] == "conv1"
    torch.testing.assert_close(encoder.conv1.weight.data, tensors["conv1.weight"].float())
    found = features(encoder, 64)
    assert found.shape == (2, 2048)
    assert found.isfinite().all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s: {**s, "layers.0.0.weight": torch.zeros(3, 3)},
            r"1 tensors have the wrong shape \(first: layers.0.0.",
        ),
        (
            lambda s: {n: t for n, t in s.items() if n != "layers.0.0.weight"},
            r"1 of its \d+ tensors are missing, first l",
        ),
        (lambda s: {"conv1.weight": torch.zeros(2)}, "do not fit the backbone"),
        (lambda s: {}, "do not fit the backbone"),
        (lambda s: {**s, "extra.weight": torch.zeros(2)}, r"1 tensors have no place .* \(first: extra.weight\)"),
    ],
)
@pytest.mark.parametrize("suffix", ["safetensors", "pth"])
def test_weights_that_do_not_fit(tmp_path, change, message, suffix):
    file = save(change(small_state()), tmp_path / f"weights.{suffix}")
    before = SmallCNN()
    kept = {n: t.clone() for n, t in before.state_dict().items()}
    with pytest.raises(UserError, match=message) as raised:
        load_weights_file(before, file)
    assert str(raised.value).startswith(file)
    assert_same_tensors(before, kept)


@pytest.mark.parametrize("content", [[1, 2], {"a": 1}, {"state_dict": {"a": [1]}}, torch.zeros(3)])
def test_not_a_state_dict(tmp_path, content):
    torch.save(content, tmp_path / "weights.pth")
    with pytest.raises(UserError, match="expected a state dict, names to tensors"):
        load_weights_file(SmallCNN(), str(tmp_path / "weights.pth"))


class Trap:
    """Unpickling it leaves a mark."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("suffix", ["pth", "pt", "bin", "safetensors"])
@pytest.mark.parametrize("format", ["pickle", "zip", "legacy"])
def test_a_pickle_is_never_executed(tmp_path, format, suffix):
    mark, path = tmp_path / "executed", tmp_path / f"weights.{suffix}"
    content = {**small_state(), "trap": Trap(mark)}
    if format == "pickle":
        path.write_bytes(pickle.dumps(content, protocol=2))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=format == "zip")
    with pytest.raises(UserError, match="damaged, or it has objects"):
        load_weights_file(SmallCNN(), str(path))
    assert not mark.exists()
    pickle.loads(pickle.dumps(Trap(mark)))
    assert mark.exists()


@pytest.mark.parametrize("name", ["nowhere.safetensors", "nowhere.pth", "."])
def test_missing_file(tmp_path, name):
    with pytest.raises(UserError, match="no such weights file"):
        build_backbone("small_cnn", str(tmp_path / name))


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("format", ["safetensors", "zip", "legacy"])
def test_cut_short(tmp_path, format, kept):
    path = tmp_path / ("weights.safetensors" if format == "safetensors" else "weights.pth")
    if format == "safetensors":
        save(small_state(), path)
    else:
        torch.save(small_state(), path, _use_new_zipfile_serialization=format == "zip")
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(UserError, match="damaged"):
        load_weights_file(SmallCNN(), str(path))


@pytest.mark.parametrize("suffix", ["safetensors", "pth"])
@pytest.mark.parametrize("content", [b"hello world\n" * 9, b"<!DOCTYPE html>", b"\0" * 64, bytes(range(256))])
def test_files_of_another_kind(tmp_path, suffix, content):
    path = tmp_path / f"weights.{suffix}"
    path.write_bytes(content)
    with pytest.raises(UserError, match="neither a safetensors file nor a state dict"):
        load_weights_file(SmallCNN(), str(path))


def test_a_weights_file_is_known_by_its_full_path(tmp_path, monkeypatch):
    """So that a run can be resumed from another folder."""
    (tmp_path / "w.safetensors").touch()
    monkeypatch.chdir(tmp_path)
    assert resolve({"weights": "w.safetensors"})[0].weights == str(tmp_path / "w.safetensors")
    assert [resolve({"weights": w})[0].weights for w in ("none", "pretrained", "gone.pt")] == [
        "none",
        "pretrained",
        "gone.pt",
    ]

"""Backbone weights: from timm's hub, or from a file (safetensors or a state dict, timm's or torchvision's names)."""

import re
import socket
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

from unihssl.errors import Setting, UserError

CLASSIFIERS = ("fc.", "head.", "heads.", "classifier.")
WRAPPERS = ("module.", "encoder.backbone.", "backbone.", "model.")

# torchvision's names for a vision transformer, and timm's.
TORCHVISION_VIT = (
    (r"^class_token$", "cls_token"),
    (r"^conv_proj\.", "patch_embed.proj."),
    (r"^encoder\.pos_embedding$", "pos_embed"),
    (r"^encoder\.ln\.", "norm."),
    (r"^encoder\.layers\.encoder_layer_(\d+)\.ln_(\d)\.", r"blocks.\1.norm\2."),
    (r"^encoder\.layers\.encoder_layer_(\d+)\.self_attention\.in_proj_", r"blocks.\1.attn.qkv."),
    (r"^encoder\.layers\.encoder_layer_(\d+)\.self_attention\.out_proj\.", r"blocks.\1.attn.proj."),
    (r"^encoder\.layers\.encoder_layer_(\d+)\.mlp\.(0|linear_1)\.", r"blocks.\1.mlp.fc1."),
    (r"^encoder\.layers\.encoder_layer_(\d+)\.mlp\.(3|linear_2)\.", r"blocks.\1.mlp.fc2."),
)


def create_from_hub(name: str, **options: object) -> nn.Module:
    """timm's model with its pretrained weights.

    The hub's client retries an unreachable host for most of a minute. So we try the host first; if it does not answer,
    the client looks only in its cache.
    """
    import huggingface_hub.constants as hub
    import timm

    online, offline_before = _reachable(hub.ENDPOINT), hub.HF_HUB_OFFLINE
    hub.HF_HUB_OFFLINE = offline_before or not online
    try:
        model: nn.Module = timm.create_model(name, pretrained=True, **options)
        return model
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).partition("\n")[0] if online else "the model hub cannot be reached"
        found = timm.get_pretrained_cfg(name, allow_unregistered=True)
        repository = getattr(found, "hf_hub_id", None)
        file = getattr(found, "hf_hub_filename", None) or "model.safetensors"
        where = f" ({hub.ENDPOINT}/{repository}/resolve/main/{file})" if repository else ""
        raise UserError(
            f"could not get pretrained weights for {name} ({reason}): give a local copy{where} with "
            f"{Setting('weights', 'FILE')}, or start from scratch with {Setting('weights', 'none')} (for tiny images, "
            f"{Setting('backbone', 'small_cnn')})"
        ) from None
    finally:
        hub.HF_HUB_OFFLINE = offline_before


def _reachable(endpoint: str) -> bool:
    host = urllib.parse.urlsplit(endpoint)
    if {host.scheme, "all"} & urllib.request.getproxies().keys():
        return True  # the proxy decides; a direct connection says nothing
    try:
        with socket.create_connection((host.hostname or "", host.port or 443), timeout=5):
            return True
    except OSError:
        return False


def load_weights_file(encoder: nn.Module, file: str) -> bool:
    """Fill the encoder from a file; True if the file says its ResNet has v1 strides (which are then set)."""
    tensors, metadata = read_tensors(Path(file))
    expected = encoder.state_dict()
    tensors = {_timm_name(name, expected): tensor for name, tensor in tensors.items()}
    tensors = {name: _for_channels(tensor, expected.get(name)) for name, tensor in tensors.items()}
    tensors = _fitted(tensors, encoder, expected)
    missing = [n for n in expected if n not in tensors and not n.endswith("num_batches_tracked")]
    if missing:
        raise UserError(
            f"{file}: these weights do not fit the backbone (another architecture?): "
            f"{len(missing)} of its {len(expected)} tensors are missing, first {missing[0]}"
        )
    wrong = [n for n in expected if n in tensors and tensors[n].shape != expected[n].shape]
    if wrong:
        shapes = f"{tuple(tensors[wrong[0]].shape)} instead of {tuple(expected[wrong[0]].shape)}"
        raise UserError(f"{file}: {len(wrong)} tensors have the wrong shape (first: {wrong[0]} is {shapes})")
    unexpected = [n for n in tensors if n not in expected and not n.startswith(CLASSIFIERS)]
    if unexpected:
        raise UserError(f"{file}: {len(unexpected)} tensors have no place in the backbone (first: {unexpected[0]})")
    encoder.load_state_dict({n: tensors.get(n, expected[n]).to(expected[n].dtype) for n in expected})
    v1_strides = metadata.get("resnet_stride") == "conv1"
    if v1_strides:
        set_v1_strides(encoder)
    return v1_strides


def _for_channels(tensor: Tensor, expected: Tensor | None) -> Tensor:
    """A first convolution of RGB for images of other channels, as timm adapts its own weights; others as they are."""
    from timm.models import adapt_input_conv

    if expected is None or tensor.dim() != 4 or tensor.shape[1] != 3 or expected.shape[1] == 3:
        return tensor
    fits = (expected.shape[0], *expected.shape[2:]) == (tensor.shape[0], *tensor.shape[2:])
    return adapt_input_conv(expected.shape[1], tensor) if fits else tensor


def _fitted(tensors: dict[str, Tensor], encoder: nn.Module, expected: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors, positional embeddings of another size resampled and other names translated, by timm's own rules."""
    fits = all(name in tensors and tensors[name].shape == tensor.shape for name, tensor in expected.items())
    rules = getattr(sys.modules[type(encoder).__module__], "checkpoint_filter_fn", None)
    if fits or rules is None:
        return tensors
    try:
        # Swin's rules tell timm's names from others by this one; weights without a classifier lack it.
        mark = {"head.fc.weight": torch.empty(0)} if expected.keys() <= tensors.keys() else {}
        fitted: dict[str, Tensor] = rules(mark | tensors, encoder)
    except Exception:  # weights of something else, on which the rules may fail in any way; the caller says so
        return tensors
    return fitted


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Named tensors and metadata of a weights file; never runs code that a file brings along."""
    if not path.is_file():
        raise UserError(f"{path}: no such weights file")
    try:
        if path.suffix == ".safetensors":
            with safe_open(path, framework="pt") as file:
                return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # a damaged pickle makes torch's reader stumble in any way it likes
        raise UserError(
            f"{path}: neither a safetensors file nor a state dict of tensors alone (damaged, or it has objects)"
        ) from None
    for key in ("state_dict", "model", "model_state_dict"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not all(isinstance(t, Tensor) for t in content.values()):
        raise UserError(f"{path}: expected a state dict, names to tensors")
    return content, {}


def set_v1_strides(encoder: nn.Module) -> None:
    """Move the stride of each down-sampling bottleneck from the 3x3 to the first 1x1 convolution."""
    for layer in (getattr(encoder, f"layer{i}", None) for i in (2, 3, 4)):
        block = layer[0] if isinstance(layer, nn.Sequential) else None
        convolutions = [getattr(block, n, None) for n in ("conv1", "conv2", "conv3")]
        if not all(isinstance(c, nn.Conv2d) for c in convolutions):
            raise UserError("the weights ask for v1 strides (resnet_stride: conv1), which only bottleneck ResNets have")
        convolutions[0].stride, convolutions[1].stride = (2, 2), (1, 1)  # type: ignore[union-attr]


def _timm_name(name: str, expected: dict[str, Tensor]) -> str:
    for prefix in WRAPPERS:
        if name.startswith(prefix) and name not in expected:
            name = name.removeprefix(prefix)
    for pattern, replacement in TORCHVISION_VIT:
        renamed = re.sub(pattern, replacement, name)
        if renamed in expected:
            return renamed
    return name

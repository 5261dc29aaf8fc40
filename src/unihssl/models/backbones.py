"""Any backbone by name: what it takes in, how wide its features are, and on which device it runs."""

import contextlib
import dataclasses
import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unihssl.errors import Setting, UserError
from unihssl.models.weights import create_from_hub, load_weights_file, set_v1_strides

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

# The paper's ResNets carry torchvision's first ImageNet weights; timm's bare names mean newer ones.
PAPER_WEIGHTS = {"resnet50": "resnet50.tv_in1k", "resnet101": "resnet101.tv_in1k"}

NO_FILE = ("pretrained", "none")  # values of `weights` that are not a file
MOST_SIDE, MOST_CHANNELS = 4096, 512  # of the images that a backbone is built for
SMALL = ("small_cnn", "mlp")  # encoders of our own, which start from scratch


@dataclass(frozen=True)
class Architecture:
    """All that is needed to build a backbone again and to feed it."""

    name: str
    side: int | None  # of its square input; None: any image size, or a vector
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    vector_size: int = 0  # length of the input vector, for encoders of vectors
    v1_strides: bool = False  # ResNets whose blocks stride in the first 1x1 convolution
    channels: int = 3  # of the images that it takes

    @classmethod
    def from_saved(cls, saved: Mapping[str, Any]) -> "Architecture":
        """From what a file holds; ValueError, KeyError or TypeError unless a backbone could be built by it."""
        found = cls(**{**saved, "mean": tuple(saved["mean"]), "std": tuple(saved["std"])})
        side = 1 if found.side is None else found.side
        sizes = (side, found.channels, found.vector_size + 1)
        numbers = all(isinstance(n, int) and n > 0 for n in sizes) and found.channels <= MOST_CHANNELS
        normal = all(isinstance(n, int | float) and math.isfinite(n) for n in (*found.mean, *found.std))
        fits = len(found.mean) == len(found.std) == found.channels and normal and all(std > 0 for std in found.std)
        kind = isinstance(found.name, str) and (found.vector_size > 0) == (found.name == "mlp")
        if not (numbers and fits and kind) or side > MOST_SIDE:
            raise ValueError("its architecture is none")
        return found

    @property
    def takes_vectors(self) -> bool:
        return self.vector_size > 0


def build_backbone(
    name: str, weights: str, vector_size: int = 0, channels: int = 3, input_size: int = 0
) -> tuple[nn.Module, Architecture, int]:
    """A new encoder with its weights loaded: the module, its architecture, and the width of its features.

    `input_size` is the side of the images it will be given; 0 for its own.
    """
    if bool(vector_size) != (name == "mlp"):
        raise UserError(
            f"backbone {name} takes images, and these are feature vectors: use {Setting('backbone', 'mlp')}"
            if vector_size
            else f"backbone mlp takes feature vectors, and these are images: use {Setting('backbone', 'small_cnn')}"
        )
    if name in SMALL:
        if weights == "pretrained":
            raise UserError(f"there are no pretrained weights for {name}: use {Setting('weights', 'none')}, or a file")
        mean, std = _by_channel(IMAGENET_MEAN, channels), _by_channel(IMAGENET_STD, channels)
        architecture = Architecture(name, input_size or None, mean, std, vector_size=vector_size, channels=channels)
        encoder, width = _small(architecture)
    else:
        pretrained = weights == "pretrained"
        encoder, architecture, width = _timm(name, pretrained=pretrained, channels=channels, side=input_size)
    if weights not in NO_FILE and load_weights_file(encoder, weights):
        architecture = dataclasses.replace(architecture, v1_strides=True)
    if input_size and not vector_size:
        _try_input(encoder, architecture)
    return encoder, architecture, width


class EncoderFactory:
    """Makes encoders of one kind, each with its weights loaded; most methods need one, some several."""

    def __init__(self, name: str, weights: str, vector_size: int = 0, channels: int = 3, input_size: int = 0) -> None:
        self._kind = (name, weights, vector_size, channels, input_size)
        encoder, self.architecture, self.width = build_backbone(*self._kind)
        self._ready: tuple[nn.Module, int] | None = (encoder, self.width)

    def __call__(self) -> tuple[nn.Module, int]:
        ready, self._ready = self._ready, None
        if ready is None:
            encoder, _, width = build_backbone(*self._kind)
            ready = encoder, width
        return ready


def rebuild_backbone(architecture: Architecture) -> tuple[nn.Module, int]:
    """The same encoder without weights, to load a trained model into."""
    if architecture.name in SMALL:
        return _small(architecture)
    side, channels = architecture.side or 0, architecture.channels
    encoder, _, width = _timm(architecture.name, pretrained=False, channels=channels, side=side)
    if architecture.v1_strides:
        set_v1_strides(encoder)
    return encoder, width


def _small(architecture: Architecture) -> tuple[nn.Module, int]:
    encoder = MLP(architecture.vector_size) if architecture.takes_vectors else SmallCNN(architecture.channels)
    return encoder, encoder.feature_dim


def _timm(name: str, *, pretrained: bool, channels: int = 3, side: int = 0) -> tuple[nn.Module, Architecture, int]:
    """timm's model for square images of this side; 0 for its own. Positional embeddings are resampled to it."""
    import timm
    import timm.data

    if not timm.is_model(name):
        near = difflib.get_close_matches(name, [*timm.list_models(), *SMALL], n=3, cutoff=0.4)
        raise UserError(f"unknown backbone '{name}'; the nearest are: {', '.join(near) or 'none'}")
    tag = PAPER_WEIGHTS.get(name, name)
    create = create_from_hub if pretrained else timm.create_model
    try:
        encoder: Any = _create_at(create, tag, side, {} if channels == 3 else {"in_chans": channels})
    except RuntimeError as error:
        raise UserError(f"backbone '{name}': {error}") from None
    expects = timm.data.resolve_model_data_config(encoder)
    mean, std = _by_channel(tuple(expects["mean"]), channels), _by_channel(tuple(expects["std"]), channels)
    architecture = Architecture(name, side or expects["input_size"][1], mean, std, channels=channels)
    return encoder, architecture, getattr(encoder, "head_hidden_size", None) or encoder.num_features


def _by_channel(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    """Normalisation by channel; where an image is not RGB, the mean over RGB for each channel."""
    return values if channels == len(values) else (sum(values) / len(values),) * channels


def _create_at(create: Callable[..., nn.Module], tag: str, side: int, options: dict[str, Any]) -> nn.Module:
    """Networks with positions need to know the side; the others take images of any, and no such argument.

    Some compute positions anew for every batch, on the host, unless told that all images have one size.
    """
    import timm

    own = timm.get_pretrained_cfg(tag, allow_unregistered=True)
    sized = {"img_size": side} if side and (own is None or own.input_size[-1] != side) else {}
    for positions in ({"dynamic_img_size": False, **sized}, sized):
        with contextlib.suppress(TypeError):
            return create(tag, num_classes=0, **positions, **options)
    return create(tag, num_classes=0, **options)


@torch.no_grad()
def _try_input(encoder: nn.Module, architecture: Architecture) -> None:
    """Refuse a side that the network cannot take, such as one smaller than its patches."""
    training, side = encoder.training, architecture.side
    assert side
    try:
        encoder.eval()(torch.zeros(1, architecture.channels, side, side))
    except (RuntimeError, AssertionError, ValueError, TypeError, LookupError) as error:
        reason = str(error).partition("\n")[0]
        ways = f"choose another {Setting('input_size')}"
        raise UserError(f"{architecture.name} cannot take images of {side} pixels ({reason}): {ways}") from None
    encoder.train(training)


def pick_device(name: str) -> str:
    """cpu or cuda, from auto, cpu or cuda."""
    if name not in ("auto", "cpu", "cuda"):
        raise UserError(f"device must be one of auto, cpu, cuda, got '{name}'")
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise UserError(f"{Setting('device', 'cuda')}, but no CUDA GPU is available here: use cpu or auto")
    return "cuda" if available and name != "cpu" else "cpu"


class SmallCNN(nn.Module):
    """Three 3x3 convolutions and a global average: for images of a few dozen pixels, of any size from 4 on."""

    feature_dim, least_side = 64, 4

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            _convolution(channels, 16),
            nn.MaxPool2d(2),
            _convolution(16, 32),
            nn.MaxPool2d(2),
            _convolution(32, 64),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )

    def forward(self, x: Tensor) -> Tensor:
        if min(height := x.shape[-2], width := x.shape[-1]) < self.least_side:
            raise UserError(
                f"small_cnn takes images from 4x4 pixels on, got {height}x{width}: set {Setting('image_size')}"
            )
        features: Tensor = self.layers(x)
        return features


class MLP(nn.Module):
    """Two hidden layers for feature vectors; the first BatchNorm puts any input on one scale."""

    feature_dim = 256

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm1d(inputs),
            nn.Linear(inputs, self.feature_dim),
            nn.BatchNorm1d(self.feature_dim),
            nn.ReLU(inplace=True),
            nn.Linear(self.feature_dim, self.feature_dim),
            nn.BatchNorm1d(self.feature_dim),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.layers(x)
        return features


def _convolution(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
    )

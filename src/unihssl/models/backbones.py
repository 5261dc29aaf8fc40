"""Any backbone by name: what it takes in, how wide its features are, and on which device it runs."""

import dataclasses
import difflib
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

    @property
    def takes_vectors(self) -> bool:
        return self.vector_size > 0


def build_backbone(name: str, weights: str, vector_size: int = 0) -> tuple[nn.Module, Architecture, int]:
    """A new encoder with its weights loaded: the module, its architecture, and the width of its features."""
    if bool(vector_size) != (name == "mlp"):
        raise UserError(
            f"backbone {name} takes images, and these are feature vectors: use {Setting('backbone', 'mlp')}"
            if vector_size
            else f"backbone mlp takes feature vectors, and these are images: use {Setting('backbone', 'small_cnn')}"
        )
    if name in SMALL:
        if weights == "pretrained":
            raise UserError(f"there are no pretrained weights for {name}: use {Setting('weights', 'none')}, or a file")
        architecture = Architecture(name, None, vector_size=vector_size)
        encoder, width = _small(architecture)
    else:
        encoder, architecture, width = _timm(name, pretrained=weights == "pretrained")
    if weights not in NO_FILE and load_weights_file(encoder, weights):
        architecture = dataclasses.replace(architecture, v1_strides=True)
    return encoder, architecture, width


class EncoderFactory:
    """Makes encoders of one kind, each with its weights loaded; most methods need one, some several."""

    def __init__(self, name: str, weights: str, vector_size: int = 0) -> None:
        self._kind = (name, weights, vector_size)
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
    encoder, _, width = _timm(architecture.name, pretrained=False)
    if architecture.v1_strides:
        set_v1_strides(encoder)
    return encoder, width


def _small(architecture: Architecture) -> tuple[nn.Module, int]:
    encoder = MLP(architecture.vector_size) if architecture.takes_vectors else SmallCNN()
    return encoder, encoder.feature_dim


def _timm(name: str, *, pretrained: bool) -> tuple[nn.Module, Architecture, int]:
    import timm
    import timm.data

    if not timm.is_model(name):
        near = difflib.get_close_matches(name, [*timm.list_models(), *SMALL], n=3, cutoff=0.4)
        raise UserError(f"unknown backbone '{name}'; the nearest are: {', '.join(near) or 'none'}")
    tag = PAPER_WEIGHTS.get(name, name)
    create = create_from_hub if pretrained else timm.create_model
    try:
        encoder: Any = create(tag, num_classes=0)
    except RuntimeError as error:
        raise UserError(f"backbone '{name}': {error}") from None
    expects = timm.data.resolve_model_data_config(encoder)
    architecture = Architecture(name, expects["input_size"][1], tuple(expects["mean"]), tuple(expects["std"]))
    return encoder, architecture, getattr(encoder, "head_hidden_size", None) or encoder.num_features


def pick_device(name: str) -> str:
    """cpu or cuda, from auto, cpu or cuda."""
    if name not in ("auto", "cpu", "cuda"):
        raise UserError(f"device must be one of auto, cpu, cuda, got '{name}'")
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise UserError(f"{Setting('device', 'cuda')}, but no CUDA GPU is available here: use cpu or auto")
    return "cuda" if available and name != "cpu" else "cpu"


class SmallCNN(nn.Module):
    """Three 3x3 convolutions and a global average: for images of a few dozen pixels, of any size."""

    feature_dim = 64

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            _convolution(3, 16),
            nn.MaxPool2d(2),
            _convolution(16, 32),
            nn.MaxPool2d(2),
            _convolution(32, 64),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )

    def forward(self, x: Tensor) -> Tensor:
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

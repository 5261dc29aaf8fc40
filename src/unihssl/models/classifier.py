"""The network every method trains: encoder, optional bottleneck, linear head."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, nn

BottleneckKind = Literal["bn_relu", "relu", "bn", "linear"]


def full_precision(x: Tensor) -> Tensor:
    """At least float32; float64 stays float64."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class Classifier(nn.Module):
    """Maps images to features and logits.

    With `autocast` set, the network runs in that type; features and logits always leave in full precision, so that
    losses need not know.
    """

    autocast: torch.dtype | None = None

    def __init__(
        self, encoder: nn.Module, width: int, outputs: int, bottleneck: int = 0, kind: BottleneckKind = "bn_relu"
    ) -> None:
        super().__init__()
        self.encoder = encoder
        layers: list[nn.Module] = [nn.Linear(width, bottleneck)] if bottleneck else []
        if bottleneck and kind in ("bn_relu", "bn"):
            layers.append(nn.BatchNorm1d(bottleneck))
        if bottleneck and kind in ("bn_relu", "relu"):
            layers.append(nn.ReLU(inplace=True))
        self.bottleneck = nn.Sequential(*layers)
        self.feature_dim = bottleneck or width
        self.head = nn.Linear(self.feature_dim, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, outputs)."""
        with self._precision(x):
            return full_precision(self.head(self._features(x)))

    def features(self, x: Tensor) -> Tensor:
        """What the head sees (B, feature_dim)."""
        with self._precision(x):
            return full_precision(self._features(x))

    def forward_views(
        self, views: Mapping[str, Tensor], *, joint: bool = True
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Features and logits of several views, by name.

        >>> features, logits = network.forward_views({"labeled": x, "unlabeled": u})

        A joint pass has one set of BatchNorm statistics for all views, separate passes one for each.
        """
        sizes = [len(view) for view in views.values()]
        parts = list(views.values())
        with self._precision(parts[0]):
            features = self._features(torch.cat(parts)) if joint else torch.cat([self._features(x) for x in parts])
            logits = full_precision(self.head(features))
        split = (torch.split(full_precision(features), sizes), torch.split(logits, sizes))
        by_name = [dict(zip(views, tensors, strict=True)) for tensors in split]
        return by_name[0], by_name[1]

    @torch.no_grad()
    def evaluate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and logits in evaluation mode, whatever mode the network is in."""
        training = self.training
        self.eval()
        with self._precision(x):
            features = self._features(x)
            logits = full_precision(self.head(features))
        self.train(training)
        return full_precision(features), logits

    def _features(self, x: Tensor) -> Tensor:
        features: Tensor = self.bottleneck(self.encoder(x))
        return features

    def _precision(self, x: Tensor) -> AbstractContextManager[Any]:
        return nullcontext() if self.autocast is None else torch.autocast(x.device.type, self.autocast)


def set_autocast(module: nn.Module, dtype: torch.dtype | None) -> None:
    """Let every network in the module run in this type; None for full precision."""
    for part in module.modules():
        if isinstance(part, Classifier):
            part.autocast = dtype


def main_classifier(network: nn.Module) -> Classifier | None:
    """The classifier whose features stand for the network's: of several, the adapted one. None if there is none."""
    main = network["adapted"] if isinstance(network, nn.ModuleDict) and "adapted" in network else network
    return main if isinstance(main, Classifier) else None


@contextmanager
def record_features(network: nn.Module) -> Iterator[list[Tensor]]:
    """While entered, collect what the main classifier's head sees (B, feature_dim): predictions need no second pass."""
    seen: list[Tensor] = []
    classifier = main_classifier(network)
    if classifier is None:
        yield seen
        return
    hook = classifier.head.register_forward_pre_hook(lambda _, inputs: seen.append(full_precision(inputs[0])))
    try:
        yield seen
    finally:
        hook.remove()

"""The network every method trains: encoder, optional bottleneck, linear head."""

from typing import Literal

import torch
from torch import Tensor, nn

BottleneckKind = Literal["bn_relu", "relu", "bn", "linear"]


def full_precision(x: Tensor) -> Tensor:
    """Out of autocast's 16 bits; float64 stays what it is."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class Classifier(nn.Module):
    """`features` are what prototypes and alignment see; `forward` gives logits, never in less than 32 bits."""

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

    def features(self, x: Tensor) -> Tensor:
        features: Tensor = self.bottleneck(self.encoder(x))
        return features

    def forward(self, x: Tensor) -> Tensor:
        return full_precision(self.head(self.features(x)))

    def parts(self, parts: list[Tensor], joint: bool = True) -> tuple[list[Tensor], list[Tensor]]:
        """Features and logits of each part, through one set of BatchNorm statistics or each through its own."""
        sizes = [len(part) for part in parts]
        features = self.features(torch.cat(parts)) if joint else torch.cat([self.features(part) for part in parts])
        logits = full_precision(self.head(features))
        return list(torch.split(full_precision(features), sizes)), list(torch.split(logits, sizes))

    @torch.no_grad()
    def evaluate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and logits in evaluation mode, whatever mode the network is in."""
        training = self.training
        self.eval()
        features = self.features(x)
        logits = full_precision(self.head(features))
        self.train(training)
        return full_precision(features), logits

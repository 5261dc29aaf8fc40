"""The network every method trains: encoder, optional bottleneck, linear head."""

from torch import Tensor, nn


class Classifier(nn.Module):
    """`features` are what prototypes and alignment see; `forward` gives logits."""

    def __init__(self, encoder: nn.Module, width: int, outputs: int, bottleneck: int = 0) -> None:
        super().__init__()
        self.encoder = encoder
        self.bottleneck: nn.Module = nn.Identity()
        if bottleneck:
            self.bottleneck = nn.Sequential(
                nn.Linear(width, bottleneck), nn.BatchNorm1d(bottleneck), nn.ReLU(inplace=True)
            )
        self.feature_dim = bottleneck or width
        self.head = nn.Linear(self.feature_dim, outputs)

    def features(self, x: Tensor) -> Tensor:
        features: Tensor = self.bottleneck(self.encoder(x))
        return features

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits

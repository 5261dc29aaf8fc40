"""Encoders that need no pretrained weights: for tiny images and for feature vectors."""

from torch import Tensor, nn


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

"""What running means of the unlabeled predictions are good for: class thresholds, and class shares put right."""

import torch
from torch import Tensor, nn

MOMENTUM = 0.99  # of the means; the first comes from the initial pseudo-labels


class RunningShares(nn.Module):
    """The mean class distribution of recent predictions (C,), and their mean confidence."""

    shares: Tensor
    confidence: Tensor

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.register_buffer("shares", torch.full((num_classes,), 1 / num_classes))
        self.register_buffer("confidence", torch.tensor(1 / num_classes))

    def start(self, classes: Tensor) -> None:
        self.shares.copy_(classes.mean(0))
        self.confidence.copy_(classes.amax(1).mean())

    def observe(self, classes: Tensor) -> None:
        """Take in predictions over the C classes (B, C)."""
        self.shares.lerp_(classes.mean(0), 1 - MOMENTUM)
        self.confidence.lerp_(classes.amax(1).mean(), 1 - MOMENTUM)

    def thresholds(self) -> Tensor:
        """FreeMatch's self-adaptive thresholds (C,): the mean confidence, lower for classes seldom predicted."""
        return self.confidence * self.shares / self.shares.max()

    def towards(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Distribution alignment: predictions (B, 2C), their classes weighed by target share over running share."""
        ratio = (target.clamp(min=1e-6) / self.shares.clamp(min=1e-6)).repeat(2)
        aligned = prediction * ratio
        return aligned / aligned.sum(1, keepdim=True)

"""Class prototypes of one domain, kept between steps: Eqs. 7-8 are means over a data set, a batch is not one."""

from typing import Literal

import torch
from torch import Tensor, nn

from unihssl.losses import class_means, class_sums

Mode = Literal["memory", "batch", "epoch", "full"]


class Prototypes(nn.Module):
    """The prototype of each class; the gradient flows through the current batch's share of it.

    memory: a moving average of batch means, seeded with the first. batch: the batch alone. epoch: the mean over
    the epoch so far. full: the mean over the data set, recomputed by `restart` and `add` before every step.
    """

    values: Tensor
    mass: Tensor

    def __init__(self, num_classes: int, width: int, mode: Mode, momentum: float, literal_mean: bool) -> None:
        super().__init__()
        self.num_classes, self.mode, self.momentum, self.literal_mean = num_classes, mode, momentum, literal_mean
        self.register_buffer("values", torch.zeros(num_classes, width))  # means (memory) or sums (epoch, full)
        self.register_buffer("mass", torch.zeros(num_classes))  # samples behind each

    def restart(self) -> None:
        self.values.zero_()
        self.mass.zero_()

    def add(self, features: Tensor, classes: Tensor, weights: Tensor | None = None) -> None:
        """Count samples towards the sums without a gradient (epoch and full)."""
        sums, mass = class_sums(features.detach(), classes, self.num_classes, weights)
        self.values += sums
        self.mass += mass

    def forward(self, features: Tensor, classes: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Prototypes (C, D) with this batch taken in, and which classes have one."""
        sums, mass = class_sums(features, classes, self.num_classes, weights)
        if self.mode == "memory":
            return self._moving_average(self._mean(sums, mass, len(features)), mass > 0)
        if self.mode == "epoch":
            old_sums, old_mass = self.values.clone(), self.mass.clone()
            self.add(features, classes, weights)
            sums, mass = old_sums + sums, old_mass + mass
        elif self.mode == "full":
            sums, mass = self.values + sums - sums.detach(), self.mass  # the batch is in the sums already
        return self._mean(sums, mass, len(features)), mass > 0

    def _moving_average(self, means: Tensor, here: Tensor) -> tuple[Tensor, Tensor]:
        seen = self.mass > 0
        blend = self.momentum * self.values + (1 - self.momentum) * means
        updated = torch.where(here.unsqueeze(1), torch.where(seen.unsqueeze(1), blend, means), self.values)
        self.values.copy_(updated.detach())
        self.mass += here
        return updated, seen | here

    def _mean(self, sums: Tensor, mass: Tensor, count: int) -> Tensor:
        return sums / count if self.literal_mean else class_means(sums, mass)

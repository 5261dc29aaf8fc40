"""How far a sample lies from all that a model was trained on."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

SAMPLES = 2000  # of each domain: 16 MB with the features of a ResNet-50


@dataclass(frozen=True)
class Reference:
    """Features of training samples (M, D), of length one, and each one's distance to the nearest other, sorted (M,).

    >>> reference = Reference.of(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]))
    >>> reference.novelty(torch.tensor([[2.0, 0.1], [-1.0, 0.0]])).tolist()
    [0.0, 100.0]
    """

    features: Tensor
    distances: Tensor

    @classmethod
    def of(cls, features: Tensor) -> "Reference":
        """The reference of M features, two or more; they are rounded as they will be when saved."""
        unit = _unit(_unit(features).half())
        return cls(unit, _nearest(unit, unit, leave_out_self=True).sort().values)

    @classmethod
    def from_tensors(cls, saved: dict[str, Tensor]) -> "Reference":
        return cls(_unit(saved["features"]), saved["distances"])

    def tensors(self) -> dict[str, Tensor]:
        """What is saved: features in half precision, which loses nothing, as they were rounded to it."""
        return {"features": self.features.half(), "distances": self.distances}

    def to(self, device: torch.device) -> "Reference":
        return Reference(self.features.to(device), self.distances.to(device))

    def novelty(self, features: Tensor) -> Tensor:
        """Percentiles (B,): the share of the reference that is nearer to its nearest other than each of these is."""
        distances = _nearest(_unit(features), self.features)
        return 100 * torch.searchsorted(self.distances, distances) / len(self.distances)

    def nearest(self, features: Tensor, count: int) -> Tensor:
        """Rows (B, `count` or fewer) of the reference, those with the most similar features first."""
        cosines = _unit(features) @ self.features.T
        return cosines.topk(min(count, len(self.features))).indices


def _unit(features: Tensor) -> Tensor:
    return F.normalize(features.float())


def _nearest(unit: Tensor, others: Tensor, *, leave_out_self: bool = False) -> Tensor:
    """One minus the largest cosine of each row with one of the others (B,)."""
    cosines = unit @ others.T
    if leave_out_self:
        cosines.fill_diagonal_(-torch.inf)
    return (1 - cosines.amax(1)).clamp(min=0)

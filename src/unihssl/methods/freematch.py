"""FreeMatch: FixMatch with thresholds that adapt themselves, and fair classes (Wang et al., 2023)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unihssl.config import knob
from unihssl.data.batches import PairedBatch
from unihssl.methods.base import Losses, MakeEncoder
from unihssl.methods.fixmatch import FixMatch, FixMatchParams
from unihssl.methods.presets import FINETUNE_MATCH, ORIGINAL_MATCH


@dataclass(frozen=True)
class FreeMatchParams(FixMatchParams):
    threshold: float = knob(0.0, "Least threshold of any class.", low=0, high=1)
    decay: float = knob(0.999, "Share of the old averages kept in each step.", low=0, high=1)
    lambda_fair: float = knob(0.01, "Weight of the fairness loss.", low=0)


class FreeMatch(FixMatch):
    """The threshold follows the model's confidence, overall and by class."""

    name = "freematch"
    paper = "Wang et al., FreeMatch, ICLR 2023 (arXiv 2205.07246)"
    Params = FreeMatchParams
    presets = {
        "finetune": FINETUNE_MATCH,
        "original": {"": {k: v for k, v in ORIGINAL_MATCH.items() if k != "threshold"} | {"decay": 0.999}},
    }
    params: FreeMatchParams
    confidence: Tensor
    class_means: Tensor
    histogram: Tensor

    def setup(self, make_encoder: MakeEncoder) -> None:
        super().setup(make_encoder)
        classes = self.task.num_classes
        self.register_buffer("confidence", torch.full((), 1 / classes))
        self.register_buffer("class_means", torch.full((classes,), 1 / classes))
        self.register_buffer("histogram", torch.full((classes,), 1 / classes))

    def step(self, batch: PairedBatch) -> Losses:
        gather = self.processes.gather
        labeled, weak, strong = self._logits(batch)
        prediction = weak.detach().softmax(1)
        self._update(gather(prediction))
        confidence, target = prediction.max(1)
        trusted = confidence >= self.thresholds()[target]
        losses = self._losses(batch, labeled, strong, target, trusted)
        fairness = fairness_loss(gather(strong), gather(trusted), self.class_means, self.histogram)
        losses.add("fairness", fairness, self.params.lambda_fair)
        return losses

    def thresholds(self) -> Tensor:
        """Eq. 8: the overall confidence, scaled by how confident each class is (C,)."""
        return (self.confidence * self.class_means / self.class_means.max()).clamp(min=self.params.threshold)

    def _update(self, prediction: Tensor) -> None:
        """Eqs. 5-6: averages of the largest probability, of all probabilities, and of the predicted classes."""
        confidence, target = prediction.max(1)
        histogram = F.one_hot(target, prediction.shape[1]).to(prediction).mean(0)
        rate = 1 - self.params.decay**self.time_scale
        self.confidence.lerp_(confidence.mean(), rate)
        self.class_means.lerp_(prediction.mean(0), rate)
        self.histogram.lerp_(histogram, rate)


def fairness_loss(strong: Tensor, trusted: Tensor, class_means: Tensor, histogram: Tensor) -> Tensor:
    """Eq. 11: minus the cross-entropy of expected and batch class means, each corrected for its histogram.

    `strong` (B, C) are logits and `trusted` (B,) says which samples count; 0 if none does.
    """
    prediction = strong.softmax(1)
    weights = trusted.to(prediction)
    count = weights.sum().clamp(min=1)
    mean = (weights.unsqueeze(1) * prediction).sum(0) / count
    predicted = F.one_hot(prediction.argmax(1), prediction.shape[1]).to(prediction)
    batch_histogram = (weights.unsqueeze(1) * predicted).sum(0) / count
    expected, found = _corrected(class_means, histogram), _corrected(mean, batch_histogram)
    return (expected * (found + 1e-12).log()).sum() * trusted.any()


def _corrected(mean: Tensor, histogram: Tensor) -> Tensor:
    """The mean over the histogram, classes that the histogram lacks left out; sums to 1."""
    corrected = torch.where(histogram > 0, mean / histogram.clamp(min=1e-12), 0.0)
    return corrected / corrected.sum().clamp(min=1e-12)

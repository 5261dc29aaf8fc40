"""FlexMatch: FixMatch with a threshold for each class that rises as the class is learnt (Zhang et al., 2021)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from unihssl.config import knob
from unihssl.methods.base import MakeEncoder
from unihssl.methods.fixmatch import FixMatch, FixMatchParams
from unihssl.methods.presets import FINETUNE_MATCH, ORIGINAL_MATCH


@dataclass(frozen=True)
class FlexMatchParams(FixMatchParams):
    threshold: float = knob(0.95, "Confidence that counts as learnt, and the highest threshold.", low=0, high=1)
    threshold_warm_up: bool = knob(True, "Count unlearnt samples too while they are the majority.")


class FlexMatch(FixMatch):
    """Classes with few confident samples get a lower threshold (curriculum pseudo-labeling)."""

    name = "flexmatch"
    paper = "Zhang et al., FlexMatch, NeurIPS 2021 (arXiv 2110.08263)"
    Params = FlexMatchParams
    presets = {"finetune": FINETUNE_MATCH, "original": {"": ORIGINAL_MATCH}}
    params: FlexMatchParams
    learnt: Tensor
    counts: Tensor

    def setup(self, make_encoder: MakeEncoder) -> None:
        super().setup(make_encoder)
        self.register_buffer("learnt", torch.full((self.task.num_unlabeled,), -1))
        # Samples per class, those without a class first. Counting anew would cost more with every sample.
        self.register_buffer("counts", torch.zeros(self.task.num_classes + 1))
        self.counts[0] = self.task.num_unlabeled

    def thresholds(self) -> Tensor:
        return curriculum_thresholds(self.counts, self.params.threshold, self.params.threshold_warm_up)

    def observe(self, rows: Tensor, confidence: Tensor, target: Tensor) -> None:
        rows, confidence, target = map(self.processes.gather, (rows, confidence, target))
        before = self.learnt[rows]
        now = torch.where(confidence >= self.params.threshold, target, before)
        self.learnt[rows] = now
        one = torch.ones_like(confidence, dtype=self.counts.dtype)
        self.counts.scatter_add_(0, before + 1, -one).scatter_add_(0, now + 1, one)


def curriculum_thresholds(counts: Tensor, threshold: float, warm_up: bool) -> Tensor:
    """Eqs. 5-11: each class's confident samples, relative to the largest class's, mapped to its threshold (C,).

    `counts` (1 + C) holds how many unlabeled samples were never confident yet, and how many each class has won.
    """
    unlearnt, won = counts[0], counts[1:]
    most = torch.maximum(won.max(), unlearnt) if warm_up else won.max()
    share = won / most.clamp(min=1)
    return threshold * share / (2 - share)

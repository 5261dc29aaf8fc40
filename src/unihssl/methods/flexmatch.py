"""FlexMatch: FixMatch with a threshold for each class that rises as the class is learnt (Zhang et al., 2021)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from unihssl.config import Settings, knob
from unihssl.methods.base import MakeEncoder, Task
from unihssl.methods.fixmatch import FixMatch, FixMatchParams


@dataclass(frozen=True)
class FlexMatchParams(FixMatchParams):
    threshold: float = knob(0.95, "Confidence that counts as learnt, and the highest threshold.", low=0, high=1)
    threshold_warm_up: bool = knob(True, "Count unlearnt samples too while they are the majority.")


class FlexMatch(FixMatch):
    """Classes with few confident samples get a lower threshold (curriculum pseudo-labeling)."""

    name = "flexmatch"
    paper = "Zhang et al., FlexMatch, NeurIPS 2021 (arXiv 2110.08263)"
    Params = FlexMatchParams
    params: FlexMatchParams
    learnt: Tensor
    counts: Tensor

    def __init__(self, make_encoder: MakeEncoder, params: FlexMatchParams, task: Task, settings: Settings) -> None:
        super().__init__(make_encoder, params, task, settings)
        self.register_buffer("learnt", torch.full((task.num_unlabeled,), -1))
        # How many samples each class has, those without one first: counting anew would cost more with every sample.
        self.register_buffer("counts", torch.zeros(task.num_classes + 1))
        self.counts[0] = task.num_unlabeled

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
    """Eqs. 5-11: the share of samples each class has won, mapped convexly to a threshold (C,).

    `counts` (1 + C) says how many unlabeled samples were never confident yet, and how many each class has won.
    """
    unlearnt, won = counts[0], counts[1:]
    most = torch.maximum(won.max(), unlearnt) if warm_up else won.max()
    share = won / most.clamp(min=1)
    return threshold * share / (2 - share)

"""FixMatch: the weak view names the class, the strong view must agree (Sohn et al., 2020)."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unihssl.config import Settings, knob
from unihssl.data.batches import PairedBatch
from unihssl.methods.base import Losses, MakeEncoder, Method, Task
from unihssl.methods.ema import EMA
from unihssl.models.classifier import Classifier


@dataclass(frozen=True)
class FixMatchParams:
    threshold: float = knob(0.9, "Confidence of the weak view above which its class is a target.", low=0, high=1)
    lambda_u: float = knob(1.0, "Weight of the unlabeled loss.", low=0)
    bottleneck: int = knob(256, "Width of the layer between backbone and head; 0 for none.", low=0)
    batch_norm: Literal["separate", "joint"] = knob(
        "separate", "A forward pass for each view, or one over labeled, weak and strong."
    )
    ema: float = knob(0.0, "Decay of the averaged weights that predict; 0 predicts with the last.", low=0, high=1)


class FixMatch(Method):
    """Cross-entropy on labeled samples, and on strong views against confident classes of weak ones."""

    name = "fixmatch"
    paper = "Sohn et al., FixMatch, NeurIPS 2020 (arXiv 2001.07685)"
    Params = FixMatchParams
    params: FixMatchParams
    network: Classifier

    def __init__(self, make_encoder: MakeEncoder, params: FixMatchParams, task: Task, settings: Settings) -> None:
        super().__init__(make_encoder, params, task, settings)
        self.ema = EMA(self.network, params.ema) if params.ema else None

    @classmethod
    def build_network(cls, make_encoder: MakeEncoder, num_classes: int, params: FixMatchParams) -> nn.Module:
        return Classifier(*make_encoder(), num_classes, params.bottleneck)

    def step(self, batch: PairedBatch) -> Losses:
        labeled, weak, strong = self._logits(batch)
        confidence, target = weak.detach().softmax(1).max(1)
        trusted = confidence > self.thresholds()[target]
        self.observe(batch.unlabeled.rows, confidence, target)
        per_sample = F.cross_entropy(strong, target, reduction="none")
        return Losses(
            {"labeled": F.cross_entropy(labeled, batch.labeled.y), "pseudo": (trusted * per_sample).mean()},
            {"pseudo": self.params.lambda_u},
            {"mask_rate": trusted.float().mean()},
        )

    def thresholds(self) -> Tensor:
        """The confidence each class asks for (C,)."""
        return torch.full((self.task.num_classes,), self.params.threshold, device=self.network.head.weight.device)

    def observe(self, rows: Tensor, confidence: Tensor, target: Tensor) -> None:
        """Take note of what the weak views said; FixMatch forgets it."""

    def _logits(self, batch: PairedBatch) -> list[Tensor]:
        parts = [batch.labeled.weak, batch.unlabeled.weak, batch.unlabeled.strong]
        if self.params.batch_norm == "joint":
            return self.network.parts(parts)[1]
        # Without a gradient last: autocast may keep the weights it casts first for the others, gradient or not.
        labeled, strong = self.network(parts[0]), self.network(parts[2])
        with torch.no_grad():
            return [labeled, self.network(parts[1]), strong]

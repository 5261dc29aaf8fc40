"""FixMatch: the weak view names the class, the strong view must agree (Sohn et al., 2020)."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unihssl.config import knob
from unihssl.data.batches import PairedBatch
from unihssl.methods.base import Losses, MakeEncoder, Method
from unihssl.methods.ema import EMA
from unihssl.methods.presets import FINETUNE_MATCH, ORIGINAL_MATCH
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


class FixMatch(Method[FixMatchParams]):
    """Cross-entropy on labeled samples, and on strong views against confident classes of weak ones."""

    name = "fixmatch"
    paper = "Sohn et al., FixMatch, NeurIPS 2020 (arXiv 2001.07685)"
    presets = {
        "finetune": FINETUNE_MATCH | {"visda-2017": FINETUNE_MATCH["visda-2017"] | {"threshold": 0.8}},
        "original": {"": ORIGINAL_MATCH},
    }

    def setup(self, make_encoder: MakeEncoder) -> None:
        self.ema = EMA(self.network, self.params.ema) if self.params.ema else None

    @classmethod
    def build_network(cls, make_encoder: MakeEncoder, num_classes: int, params: FixMatchParams) -> nn.Module:
        return Classifier(*make_encoder(), num_classes, params.bottleneck)

    def step(self, batch: PairedBatch) -> Losses:
        labeled, weak, strong = self._logits(batch)
        confidence, target = weak.detach().softmax(1).max(1)
        trusted = confidence > self.thresholds()[target]
        self.observe(batch.unlabeled.rows, confidence, target)
        return self._losses(batch, labeled, strong, target, trusted)

    def _losses(self, batch: PairedBatch, labeled: Tensor, strong: Tensor, target: Tensor, trusted: Tensor) -> Losses:
        """From logits of labeled samples and strong views, the weak views' classes, and which of these count."""
        per_sample = F.cross_entropy(strong, target, reduction="none")
        losses = Losses()
        losses.add("labeled", self.labeled_loss(labeled, batch.all_labeled.y))
        losses.add("pseudo", (trusted * per_sample).mean(), self.params.lambda_u)
        losses.log("mask_rate", trusted.float().mean())
        return losses

    def thresholds(self) -> Tensor:
        """The confidence that each class needs (C,)."""
        return torch.full((self.task.num_classes,), self.params.threshold, device=self.network.head.weight.device)

    def observe(self, rows: Tensor, confidence: Tensor, target: Tensor) -> None:
        """Take in the weak views' predictions; FixMatch remembers none."""

    def _logits(self, batch: PairedBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Of the labeled samples, the weak and the strong views."""
        unlabeled = batch.unlabeled
        views = {"labeled": batch.all_labeled.labeled_view, "weak": unlabeled.weak, "strong": unlabeled.strong}
        if self.params.batch_norm == "joint":
            _, logits = self.network.forward_views(views)
            return logits["labeled"], logits["weak"], logits["strong"]
        labeled, strong = self.network(views["labeled"]), self.network(views["strong"])
        with torch.no_grad():
            return labeled, self.network(views["weak"]), strong

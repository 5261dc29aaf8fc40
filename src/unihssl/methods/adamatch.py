"""AdaMatch: FixMatch across domains, by interpolated logits, aligned pseudo-labels and a relative threshold."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unihssl.config import knob
from unihssl.data.batches import PairedBatch
from unihssl.errors import Setting
from unihssl.losses import trusted_cross_entropy
from unihssl.methods.base import Losses, MakeEncoder, Method
from unihssl.methods.batch_norm_stats import keep_running_statistics
from unihssl.methods.ema import EMA
from unihssl.methods.presets import FINETUNE_MATCH, ORIGINAL_MATCH
from unihssl.models.classifier import Classifier


@dataclass(frozen=True)
class AdaMatchParams:
    tau: float = knob(0.9, "Threshold, as a share of the mean confidence on labeled samples.", low=0, high=1)
    lambda_u: float = knob(1.0, "Weight of the unlabeled loss, once it has risen.", low=0)
    bottleneck: int = knob(256, "Width of the layer between backbone and head; 0 for none.", low=0)
    ema: float = knob(0.0, "Decay of the averaged weights that predict; 0 predicts with the last.", low=0, high=1)


class AdaMatch(Method[AdaMatchParams]):
    """Cross-entropy on both views of labeled samples, and on strong views against confident, aligned weak ones."""

    name = "adamatch"
    paper = "Berthelot et al., AdaMatch, ICLR 2022 (arXiv 2106.04732)"
    presets = {
        "finetune": FINETUNE_MATCH,
        "original": {"": {k: v for k, v in ORIGINAL_MATCH.items() if k not in ("threshold", "batch_norm")}},
    }

    def setup(self, make_encoder: MakeEncoder) -> None:
        self.ema = EMA(self.network, self.params.ema) if self.params.ema else None

    def notes(self) -> list[str]:
        if self.settings.labeled_view == "weak":
            return []
        return [f"{Setting('labeled_view', 'half_strong')} does nothing here: adamatch sees both views of every sample"]

    @classmethod
    def build_network(cls, make_encoder: MakeEncoder, num_classes: int, params: AdaMatchParams) -> nn.Module:
        return Classifier(*make_encoder(), num_classes, params.bottleneck)

    def step(self, batch: PairedBatch) -> Losses:
        p, labeled, unlabeled = self.params, batch.all_labeled, batch.unlabeled
        source = {"labeled weak": labeled.weak, "labeled strong": labeled.strong}
        _, joint = self.network.forward_views(source | {"weak": unlabeled.weak, "strong": unlabeled.strong})
        with keep_running_statistics(self.network):  # those of the joint pass are the model's
            _, alone = self.network.forward_views(source)
        weak, strong = (self._interpolated(batch, joint[view], alone[view]) for view in source)
        prediction, target_prediction = weak.detach().softmax(1), joint["weak"].detach().softmax(1)
        means = (self.processes.gather(q).mean(0) for q in (prediction, target_prediction))
        pseudo = align(target_prediction, *means)
        trusted = pseudo.amax(1) >= p.tau * self.processes.mean(prediction.amax(1))
        losses = Losses()
        losses.add("labeled", self.labeled_loss(weak, labeled.y) + self.labeled_loss(strong, labeled.y))
        rise = 0.5 - torch.cos((2 * math.pi * batch.progress).clamp(max=math.pi)) / 2
        losses.add("pseudo", trusted_cross_entropy(joint["strong"], pseudo, trusted), p.lambda_u * rise)
        losses.log("mask_rate", trusted.float().mean())
        return losses

    @staticmethod
    def _interpolated(batch: PairedBatch, joint: Tensor, alone: Tensor) -> Tensor:
        """Random logit interpolation: between the logits with and without the other domain in the batch."""
        share = batch.random["interpolation"].uniform(*joint.shape).to(joint)
        return torch.lerp(alone, joint, share)


def align(prediction: Tensor, labeled_mean: Tensor, unlabeled_mean: Tensor) -> Tensor:
    """Distribution alignment: predictions (B, C) moved from one mean (C,) to the other, and normalised."""
    aligned = prediction * labeled_mean / unlabeled_mean.clamp(min=1e-12)
    return aligned / aligned.sum(1, keepdim=True)

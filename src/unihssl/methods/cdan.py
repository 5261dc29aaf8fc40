"""CDAN: features that a discriminator, seeing them with the predictions, cannot tell apart (Long et al., 2018)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unihssl.config import Settings, knob
from unihssl.data.batches import PairedBatch
from unihssl.methods.adversarial import domain_discriminator, domain_labels, reversal_coefficient, reverse_gradient
from unihssl.methods.base import Losses, MakeEncoder, Method, Task
from unihssl.models.classifier import Classifier


@dataclass(frozen=True)
class CDANParams:
    trade_off: float = knob(1.0, "Weight of the adversarial loss.", low=0)
    entropy: Literal["none", "official", "tllib"] = knob(
        "none", "CDAN+E: certain samples weigh more, normalised within each domain (official) or over both (tllib)."
    )
    randomized: int = knob(0, "Width of the randomised multilinear map; 0 takes the full outer product.", low=0)
    bottleneck: int = knob(256, "Width of the layer between backbone and head; 0 for none.", low=0)
    bottleneck_kind: Literal["bn_relu", "relu", "bn", "linear"] = knob("bn_relu", "What follows that layer.")
    batch_norm: Literal["joint", "separate"] = knob("joint", "One forward pass over both domains, or one for each.")
    discriminator_dropout: bool = knob(False, "Dropout in the discriminator in place of BatchNorm.")
    reversal_steps: float = knob(10_000, "Scale of the steps over which the gradient reversal rises.", low=1)


class CDAN(Method):
    """Cross-entropy on labeled samples, and a conditional domain discriminator behind a gradient reversal."""

    name = "cdan"
    paper = "Long et al., Conditional Adversarial Domain Adaptation, NeurIPS 2018 (arXiv 1705.10667)"
    Params = CDANParams
    params: CDANParams
    network: Classifier
    random_features: Tensor
    random_classes: Tensor

    def __init__(self, make_encoder: MakeEncoder, params: CDANParams, task: Task, settings: Settings) -> None:
        super().__init__(make_encoder, params, task, settings)
        width, classes, d = self.network.feature_dim, task.num_classes, params.randomized
        self.register_buffer("random_features", torch.randn(width, d) if d else torch.empty(0))
        self.register_buffer("random_classes", torch.randn(classes, d) if d else torch.empty(0))
        self.discriminator = domain_discriminator(d or width * classes, dropout=params.discriminator_dropout)

    @classmethod
    def build_network(cls, make_encoder: MakeEncoder, num_classes: int, params: CDANParams) -> nn.Module:
        return Classifier(*make_encoder(), num_classes, params.bottleneck, params.bottleneck_kind)

    def step(self, batch: PairedBatch) -> Losses:
        p = self.params
        features, logits = self.network.parts([batch.labeled.weak, batch.unlabeled.weak], p.batch_norm == "joint")
        coefficient = reversal_coefficient(batch.step, p.reversal_steps)
        with torch.autocast(logits[0].device.type, enabled=False):
            g = torch.cat(logits).softmax(1)
            joint = self.multilinear(torch.cat(features), g.detach())
            guess = self.discriminator(reverse_gradient(joint, coefficient)).squeeze(1)
            truth = domain_labels(len(logits[0]), len(logits[1]), guess)
            per_sample = F.binary_cross_entropy_with_logits(guess, truth, reduction="none")
            weights = entropy_weights(g, len(logits[0]), p.entropy, coefficient, self.processes.mean)
            adversarial = (weights * per_sample).mean()
        right = ((guess > 0) == (truth > 0.5)).float().mean()
        terms = {"labeled": F.cross_entropy(logits[0], batch.labeled.y), "adversarial": adversarial}
        return Losses(terms, {"adversarial": p.trade_off}, {"discriminator_accuracy": right})

    def multilinear(self, f: Tensor, g: Tensor) -> Tensor:
        """Eqs. 5-6: the outer product of prediction and feature, or its random projection."""
        if self.params.randomized:
            return (f @ self.random_features) * (g @ self.random_classes) / math.sqrt(self.params.randomized)
        return (g.unsqueeze(2) * f.unsqueeze(1)).flatten(1)


def entropy_weights(
    g: Tensor,
    labeled: int,
    kind: str,
    coefficient: Tensor | float,
    mean: Callable[[Tensor], Tensor] = torch.mean,
) -> Tensor:
    """CDAN+E's 1 + exp(-H(g)) for each sample, with mean 1 over the batch.

    official: each domain's weights have mean 1 by themselves and pass their gradient on, reversed; tllib: one mean
    over both domains, no gradient.
    """
    if kind == "none":
        return torch.ones_like(g[:, 0])
    entropy = -(g * (g + 1e-5).log()).sum(1)
    if kind == "tllib":
        weights = (1 + (-entropy).exp()).detach()
        return weights / mean(weights)
    weights = 1 + (-reverse_gradient(entropy, coefficient)).exp()
    parts = (weights[:labeled], weights[labeled:])
    return torch.cat([part / mean(part.detach()) for part in parts])

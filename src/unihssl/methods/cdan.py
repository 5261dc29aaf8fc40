"""CDAN: features that a discriminator, seeing them with the predictions, cannot tell apart (Long et al., 2018)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unihssl.config import knob
from unihssl.data.batches import PairedBatch
from unihssl.methods.base import Losses, MakeEncoder, Method
from unihssl.methods.presets import CENTER_CROP, INVERSE_DECAY, RESIZED_CROP
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


class CDAN(Method[CDANParams]):
    """Cross-entropy on labeled samples, and a conditional domain discriminator behind a gradient reversal."""

    name = "cdan"
    paper = "Long et al., Conditional Adversarial Domain Adaptation, NeurIPS 2018 (arXiv 1705.10667)"
    presets = {
        "finetune": {
            "": {**INVERSE_DECAY, **RESIZED_CROP, "lr": 1e-3, "steps": 30_000},
            "office-31": {"steps": 20_000},
            "visda-2017": CENTER_CROP,
        },
        "original": {
            "": {**INVERSE_DECAY, **RESIZED_CROP, "lr": 1e-3, "batch_size": 36, "steps": 100_004}
            | {"batch_norm": "separate", "bottleneck_kind": "linear", "discriminator_dropout": True},
        },
    }
    random_features: Tensor
    random_classes: Tensor

    def setup(self, make_encoder: MakeEncoder) -> None:
        width, classes, d = self.network.feature_dim, self.task.num_classes, self.params.randomized
        self.register_buffer("random_features", torch.randn(width, d) if d else torch.empty(0))
        self.register_buffer("random_classes", torch.randn(classes, d) if d else torch.empty(0))
        self.discriminator = domain_discriminator(d or width * classes, dropout=self.params.discriminator_dropout)

    @classmethod
    def build_network(cls, make_encoder: MakeEncoder, num_classes: int, params: CDANParams) -> nn.Module:
        return Classifier(*make_encoder(), num_classes, params.bottleneck, params.bottleneck_kind)

    def step(self, batch: PairedBatch) -> Losses:
        p, views = self.params, {"labeled": batch.all_labeled.labeled_view, "unlabeled": batch.unlabeled.weak}
        features, logits = self.network.forward_views(views, joint=p.batch_norm == "joint")
        labeled_loss = self.labeled_loss(logits["labeled"], batch.all_labeled.y)
        for part in (features, logits):  # target labels are not of the labeled domain
            part["labeled"] = part["labeled"][: len(batch.labeled.y)]
        coefficient = reversal_coefficient(batch.step, p.reversal_steps / self.time_scale)
        g = torch.cat(list(logits.values())).softmax(1)
        joint = self.multilinear(torch.cat(list(features.values())), g.detach())
        domain_logits = self.discriminator(reverse_gradient(joint, coefficient)).squeeze(1)
        truth = domain_labels(len(logits["labeled"]), len(logits["unlabeled"]), domain_logits)
        per_sample = F.binary_cross_entropy_with_logits(domain_logits, truth, reduction="none")
        weights = entropy_weights(g, len(logits["labeled"]), p.entropy, coefficient, self.processes.mean)
        losses = Losses()
        losses.add("labeled", labeled_loss)
        losses.add("adversarial", (weights * per_sample).mean(), p.trade_off)
        losses.log("discriminator_accuracy", ((domain_logits > 0) == (truth > 0.5)).float().mean())
        return losses

    def multilinear(self, f: Tensor, g: Tensor) -> Tensor:
        """Eqs. 5-6: the outer product of prediction (B, C) and feature (B, D), or its random projection."""
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


class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, coefficient: Tensor | float) -> Tensor:
        ctx.coefficient = coefficient
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return -ctx.coefficient * gradients[0], None


def reverse_gradient(x: Tensor, coefficient: Tensor | float) -> Tensor:
    """Identity forwards, minus the coefficient times the gradient backwards (Ganin and Lempitsky, 2015)."""
    reversed_: Tensor = _Reverse.apply(x, coefficient)
    return reversed_


def reversal_coefficient(step: Tensor, steps: float) -> Tensor:
    """Rises from 0 towards 1 over `steps`; the discriminator itself always learns at full strength."""
    return 2 / (1 + torch.exp(step.double() * (-10 / steps))) - 1


def domain_discriminator(inputs: int, dropout: bool = False) -> nn.Sequential:
    """Two hidden layers and one logit, above 0 for the labeled domain."""
    hidden = 1024

    def block(width: int) -> list[nn.Module]:
        between: list[nn.Module] = [nn.ReLU(), nn.Dropout(0.5)] if dropout else [nn.BatchNorm1d(hidden), nn.ReLU()]
        return [nn.Linear(width, hidden), *between]

    return nn.Sequential(*block(inputs), *block(hidden), nn.Linear(hidden, 1))


def domain_labels(labeled: int, unlabeled: int, like: Tensor) -> Tensor:
    """1 for the labeled samples, then 0 for the unlabeled ones."""
    return torch.cat([like.new_ones(labeled), like.new_zeros(unlabeled)])

"""The equations of Uni-HSSL (arXiv 2503.00286) as pure functions of tensors.

C is the number of semantic classes. The model's label space has 2C: class k as seen in the labeled domain is
index k, as seen in the unlabeled domain C + k.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Reduction = Literal["sum", "mean"]


def expand_labels(y: Tensor, num_classes: int, domain: int) -> Tensor:
    """Eqs. 3-4: place a distribution over C classes in the half of the 2C space that belongs to its domain.

    `y` is (..., C), one-hot or probabilities; `domain` is 0 for labeled, 1 for unlabeled.
    """
    if y.shape[-1] != num_classes:
        raise ValueError(f"expected {num_classes} classes in the last dimension, got shape {tuple(y.shape)}")
    if domain not in (0, 1):
        raise ValueError(f"domain must be 0 (labeled) or 1 (unlabeled), got {domain}")
    empty = torch.zeros_like(y)
    return torch.cat([y, empty] if domain == 0 else [empty, y], dim=-1)


def wma_update(previous: Tensor, prediction: Tensor, beta: float) -> Tensor:
    """Eq. 5: the moving average that keeps a pseudo-label from jumping with one noisy prediction."""
    return beta * previous + (1 - beta) * prediction


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of each row against a soft target that is not differentiated; not reduced."""
    return -(targets.detach() * F.log_softmax(logits, dim=-1)).sum(-1)


def trusted_cross_entropy(logits: Tensor, targets: Tensor, trusted: Tensor, *, kept_only: bool = False) -> Tensor:
    """Eq. 6: cross-entropy over the `trusted` rows, divided by all rows or, with `kept_only`, by the trusted ones."""
    per_row = trusted * soft_cross_entropy(logits, targets)
    return per_row.sum() / trusted.sum().clamp(min=1) if kept_only else per_row.mean()


def class_sums(
    features: Tensor, classes: Tensor, num_classes: int, weights: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Eqs. 7-8 before the division: per class, the weighted sum of its features (C, D) and the weight behind it (C,).

    `weights` is 1 for trusted samples and 0 for the rest. Classes outside [0, num_classes) do not count.
    """
    membership = F.one_hot(classes.clamp(0, num_classes - 1), num_classes).to(features.dtype)
    inside = (classes >= 0) & (classes < num_classes)
    weight = inside.to(features.dtype) if weights is None else inside * weights.to(features.dtype)
    membership = membership * weight.unsqueeze(1)
    return membership.T @ features, membership.sum(0)


def class_means(sums: Tensor, mass: Tensor) -> Tensor:
    """Sums over mass; zero, with a finite gradient, where there is no mass."""
    return sums / torch.where(mass > 0, mass, 1.0).unsqueeze(1)


def prototype_alignment_loss(
    labeled: Tensor,
    unlabeled: Tensor,
    temperature: float,
    valid: Tensor | None = None,
    *,
    include_positive: bool = False,
    reduction: Reduction = "sum",
) -> Tensor:
    """Eq. 9: each class's two prototypes must be closer to each other than to the other domain's other classes.

    Classes that are not `valid` are neither anchors nor negatives; with fewer than two valid ones the loss is 0.
    The positive pair is left out of the denominators, as printed, unless `include_positive` (InfoNCE).
    """
    if valid is None:
        valid = torch.ones(len(labeled), dtype=torch.bool, device=labeled.device)
    # The larger eps keeps the gradient of a zero prototype (an absent class) within float range.
    directions = F.normalize(labeled, dim=1, eps=1e-6), F.normalize(unlabeled, dim=1, eps=1e-6)
    similarity = directions[0] @ directions[1].T / temperature
    negatives = valid.unsqueeze(0) & valid.unsqueeze(1)
    if not include_positive:
        negatives = negatives & ~torch.eye(len(valid), dtype=torch.bool, device=valid.device)
    # Finite, not -inf: a class without negatives must bring no inf - inf into values or gradients.
    contrast = similarity.masked_fill(~negatives, torch.finfo(similarity.dtype).min / 4)
    per_class = contrast.logsumexp(1) + contrast.logsumexp(0) - 2 * similarity.diagonal()
    enough = valid.sum() >= 2
    total = torch.where(valid & enough, per_class, 0.0).sum()
    return total if reduction == "sum" else total / valid.sum().clamp(min=1)


def progressive_mixup_ratio(
    step: float | Tensor,
    total_steps: float,
    alpha: float,
    size: int,
    generator: torch.Generator | None = None,
    *,
    progressive: bool = True,
) -> Tensor:
    """Eq. 11: `size` mixing ratios from psi * Beta(alpha, alpha), psi = 0.5 + step / (2 * total_steps).

    The tensor lives on the generator's device (the CPU without one). Without `progressive`, psi is 1.
    """
    if not (math.isfinite(alpha) and alpha > 0):
        raise ValueError(f"alpha must be positive, got {alpha}")
    known = not isinstance(step, Tensor)  # a look at a tensor would make the GPU wait
    if total_steps <= 0 or (known and not 0 <= step <= total_steps):
        raise ValueError(f"step must lie in [0, total_steps] with total_steps > 0, got {step} of {total_steps}")
    psi = 0.5 + step / (2 * total_steps) if progressive else 1.0
    concentration = torch.full((size, 2), float(alpha), device=generator.device if generator else None)
    # What torch.distributions.Beta draws from; called directly because the class takes no generator.
    beta: Tensor = torch._sample_dirichlet(concentration, generator=generator)[:, 0]
    return psi * beta


def interpolate(first: Tensor, second: Tensor, ratio: Tensor | float) -> Tensor:
    """Eq. 10, for images and 2C-labels: `ratio` (one, or one for each sample) of `second` and the rest of `first`."""
    if not first.is_floating_point():
        raise ValueError(f"mixing needs floating-point samples, got {first.dtype}")
    share = torch.as_tensor(ratio, dtype=first.dtype, device=first.device)
    if share.numel() not in (1, len(first)):
        raise ValueError(f"expected one ratio or one for each of {len(first)} samples, got {share.numel()}")
    return torch.lerp(first, second, share.reshape(-1, *[1] * (first.dim() - 1)))


def mixup_loss(
    logits: Tensor, targets: Tensor, *, weights: Tensor | None = None, reduction: Reduction = "sum"
) -> Tensor:
    """Eq. 12: squared distance of the prediction from the mixed label, mean over samples.

    `reduction` acts over the 2C classes: the sum is the printed norm, the mean is what MixMatch's code does.
    `weights` of 0 leave a sample out (the mean is still over all).
    """
    squared = (logits.softmax(-1) - targets.detach()).square()
    distance = squared.sum(-1) if reduction == "sum" else squared.mean(-1)
    return distance.mean() if weights is None else (weights * distance).mean()

"""What adversarial methods share: a discriminator of the domains and the reversal of its gradient."""

from typing import Any

import torch
from torch import Tensor, nn


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


def domain_discriminator(inputs: int, hidden: int = 1024, dropout: bool = False) -> nn.Sequential:
    """Two hidden layers and one logit, above 0 for the labeled domain."""

    def block(width: int) -> list[nn.Module]:
        between: list[nn.Module] = [nn.ReLU(), nn.Dropout(0.5)] if dropout else [nn.BatchNorm1d(hidden), nn.ReLU()]
        return [nn.Linear(width, hidden), *between]

    return nn.Sequential(*block(inputs), *block(hidden), nn.Linear(hidden, 1))


def domain_labels(labeled: int, unlabeled: int, like: Tensor) -> Tensor:
    """1 for the labeled samples, then 0 for the unlabeled ones."""
    return torch.cat([like.new_ones(labeled), like.new_zeros(unlabeled)])

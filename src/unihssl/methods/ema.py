"""Exponential moving average of a network's weights."""

import copy

import torch
from torch import Tensor, nn


class EMA(nn.Module):
    """A copy of a network whose parameters follow the original's slowly; its buffers (BatchNorm) are plain copies."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.network = copy.deepcopy(network).requires_grad_(False)

    @torch.no_grad()
    def update(self, network: nn.Module, updates: float = 1.0) -> None:
        """Follow the network as far as this many updates with fixed weights would."""
        averages: list[Tensor] = list(self.network.parameters())
        weights: list[Tensor] = list(network.parameters())
        torch._foreach_lerp_(averages, weights, 1 - self.decay**updates)
        if buffers := list(network.buffers()):
            torch._foreach_copy_(list(self.network.buffers()), buffers)

    @torch.no_grad()
    def copy_to(self, network: nn.Module) -> None:
        network.load_state_dict(self.network.state_dict())

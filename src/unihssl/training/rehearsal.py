"""A rehearsal: each stage takes a step with a stand-in for the backbone, to see what the real run will need."""

from typing import Any

import torch
from torch import Tensor, nn

from unihssl.data.batches import PairedData
from unihssl.methods.base import Method

BACKWARD = 2.0  # a backward pass takes about as long as two forward passes


class StandIn(nn.Module):
    """Random features in place of a backbone's, and a count of the passes it was spared."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width, self.cost = width, 0.0

    def forward(self, x: Tensor) -> Tensor:
        self.cost += len(x) * (1 + BACKWARD * torch.is_grad_enabled())
        return torch.randn(len(x), self.width, device=x.device)


def rehearse(method: Method[Any], data: PairedData, *, with_sweeps: bool) -> list[float]:
    """Take a step of each stage of a method built on `StandIn`s; returns what each costs, in samples' forward passes.

    `with_sweeps`: also what passes over all data, before a stage and after the last. It is not counted.
    """
    costs = []
    method.to(data.device).train()
    for index, stage in enumerate(method.stages()):
        data.reseed_before(index)
        if with_sweeps and stage.begin:
            stage.begin(data)
        data.reseed(index, 0)
        data.load(index, 0, 0.0)
        if with_sweeps and stage.each_epoch:
            stage.each_epoch(data, 0)
        before = _cost(method)
        method(stage.step, data.batch())
        costs.append(_cost(method) - before)
    if with_sweeps:
        method.finish(data)
    data.settle()
    return costs


def _cost(method: Method[Any]) -> float:
    return sum(part.cost for part in method.modules() if isinstance(part, StandIn))

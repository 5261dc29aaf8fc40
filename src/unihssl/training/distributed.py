"""Several processes, through Fabric: what they exchange, and what only the first of them does."""

import torch
from torch import Tensor

from unihssl.methods.peers import Peers
from unihssl.training.setup import Fabric


class FabricPeers(Peers):
    """The processes of a Fabric run; each holds an equal part of every batch."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric, self.rank, self.count = fabric, fabric.global_rank, fabric.world_size

    def gather(self, part: Tensor) -> Tensor:
        if self.count == 1:
            return part
        gathered: Tensor = self.fabric.all_gather(part, sync_grads=part.requires_grad)
        return gathered.flatten(0, 1)


def anyone(fabric: Fabric, flag: bool) -> bool:
    """Whether any process raises this flag; all must ask at the same moment."""
    if fabric.world_size == 1:
        return flag
    return bool(fabric.all_reduce(torch.tensor(float(flag), device=fabric.device), reduce_op="sum") > 0)

"""Several processes, through Fabric: what they exchange, and how they keep one memory."""

import warnings

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from unihssl.methods.process_group import ProcessGroup
from unihssl.training.batch_norm import HostSyncBatchNorm
from unihssl.training.setup import Fabric

# Fabric gathers by a function that recent versions of torch call deprecated; there is no other public one.
warnings.filterwarnings("ignore", "torch.distributed.nn.functional", FutureWarning)


class FabricProcesses(ProcessGroup):
    """The processes of a Fabric run; each holds an equal part of every batch."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric, self.rank, self.count = fabric, fabric.global_rank, fabric.world_size

    def gather(self, part: Tensor) -> Tensor:
        if self.count == 1:
            return part
        gathered: Tensor = self.fabric.all_gather(part, sync_grads=part.requires_grad)
        return gathered.transpose(0, 1).flatten(0, 1)


def anyone(fabric: Fabric, flag: bool) -> bool:
    """Whether any process raises this flag; all must ask at the same moment."""
    if fabric.world_size == 1:
        return flag
    return bool(fabric.all_reduce(torch.tensor(float(flag), device=fabric.device), reduce_op="sum") > 0)


def all_agree(fabric: Fabric, number: int) -> bool:
    """Whether all processes have the same number; all must ask at the same moment."""
    if fabric.world_size == 1:
        return True
    everybodys = fabric.all_gather(torch.tensor(number, device=fabric.device))
    return bool((everybodys == number).all())


def share_memory(fabric: Fabric, method: nn.Module) -> None:
    """Give every process the first one's buffers: GPUs need not agree on the last bit of what each swept alone."""
    if fabric.world_size > 1:
        for buffer in method.buffers():
            torch.distributed.broadcast(buffer, src=0)


class AverageStatistics:
    """Without synchronised BatchNorm each process has running statistics of its own; calling this averages them.

    Done after every step: whoever looks at a network in evaluation mode sees the same one on every process.
    """

    def __init__(self, fabric: Fabric, method: nn.Module) -> None:
        synchronised = (nn.SyncBatchNorm, HostSyncBatchNorm)
        layers = [m for m in method.modules() if isinstance(m, _BatchNorm) and not isinstance(m, synchronised)]
        found = [s for layer in layers for s in (layer.running_mean, layer.running_var) if s is not None]
        self.count = fabric.world_size
        self.statistics = found if self.count > 1 else []

    def __call__(self) -> None:
        if self.statistics:
            together = torch.cat(self.statistics)
            torch.distributed.all_reduce(together)
            sizes = [len(s) for s in self.statistics]
            for mine, mean in zip(self.statistics, (together / self.count).split(sizes), strict=True):
                mine.copy_(mean)

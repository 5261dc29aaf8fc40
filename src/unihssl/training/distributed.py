"""Several processes, through Fabric: what they exchange, and how their BatchNorm and buffers stay equal."""

import warnings

import torch
from torch import Tensor, nn
from torch.distributed.nn.functional import all_gather
from torch.nn.modules.batchnorm import _BatchNorm

from unihssl.methods.process_group import ProcessGroup
from unihssl.training.fabric import Fabric

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


def any_process(fabric: Fabric, flag: bool) -> bool:
    """Whether any process raises this flag; all processes must call this together."""
    if fabric.world_size == 1:
        return flag
    return bool(fabric.all_reduce(torch.tensor(float(flag), device=fabric.device), reduce_op="sum") > 0)


def all_agree(fabric: Fabric, number: int) -> bool:
    """Whether all processes have the same number; all must call this together."""
    if fabric.world_size == 1:
        return True
    numbers = fabric.all_gather(torch.tensor(number, device=fabric.device))
    return bool((numbers == number).all())


def share_memory(fabric: Fabric, method: nn.Module) -> None:
    """Give every process the first one's buffers: GPUs may differ in the last bit of what each computed by itself."""
    if fabric.world_size > 1:
        for buffer in method.buffers():
            torch.distributed.broadcast(buffer, src=0)


class AverageStatistics:
    """Without synchronised BatchNorm each process has running statistics of its own; calling this averages them.

    Called after every step, so that all processes have the same network in evaluation mode.
    """

    def __init__(self, fabric: Fabric, method: nn.Module) -> None:
        synchronised = (nn.SyncBatchNorm, HostSyncBatchNorm)
        layers = [m for m in method.modules() if isinstance(m, _BatchNorm) and not isinstance(m, synchronised)]
        found = [s for layer in layers for s in (layer.running_mean, layer.running_var) if s is not None]
        self.count = fabric.world_size
        self.statistics = found if self.count > 1 else []

    def __call__(self) -> None:
        if self.statistics:
            together = torch.cat(self.statistics)  # one message
            torch.distributed.all_reduce(together)
            torch._foreach_copy_(self.statistics, torch.split(together / self.count, [len(s) for s in self.statistics]))


def synchronise_batch_norm(module: nn.Module, device: torch.device) -> None:
    """Let every BatchNorm in the module see all processes' samples. Parameters and buffers stay the same tensors.

    On GPUs the layers become torch's SyncBatchNorm, by timm's conversion: torch's own would lose the activations
    that timm puts into some of its BatchNorm layers.
    """
    if device.type == "cpu":
        _synchronise_on_host(module)
    else:
        from timm.layers import convert_sync_batchnorm  # only needed with several GPUs

        convert_sync_batchnorm(module)


def _synchronise_on_host(module: nn.Module) -> None:
    for name, child in module.named_children():
        if not isinstance(child, _BatchNorm):
            _synchronise_on_host(child)
        elif not isinstance(child, HostSyncBatchNorm):  # a network may be reached by two ways
            module.add_module(name, HostSyncBatchNorm(child))


class HostSyncBatchNorm(_BatchNorm):
    """SyncBatchNorm for processes on the CPU, where torch's refuses to work; used nowhere else.

    Every process normalises the whole batch and keeps its own part; all parts are of one size. In evaluation mode, and
    without other processes, it is plain BatchNorm.
    """

    def __init__(self, layer: _BatchNorm) -> None:
        super().__init__(layer.num_features, layer.eps, layer.momentum, layer.affine, layer.track_running_stats)
        self.weight, self.bias = layer.weight, layer.bias
        self.running_mean, self.running_var = layer.running_mean, layer.running_var
        self.num_batches_tracked = layer.num_batches_tracked
        self.training = layer.training
        for name, child in layer.named_children():  # timm's dropout and activation
            self.add_module(name, child)

    def _check_input_dim(self, input: Tensor) -> None:
        """Any number of dimensions from two."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
            batch = torch.cat(all_gather(x.contiguous()))  # type: ignore[no-untyped-call]
            own = torch.distributed.get_rank() * len(x)
            y = super().forward(batch)[own : own + len(x)]
        else:
            y = super().forward(x)
        for child in self.children():
            y = child(y)
        return y

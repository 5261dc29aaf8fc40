"""Several processes, through Fabric: what they exchange, and how their BatchNorm and buffers stay equal."""

import warnings

import torch
from torch import Tensor, nn
from torch.distributed.nn.functional import all_gather
from torch.nn.modules.batchnorm import _BatchNorm

from unihssl.methods.process_group import ProcessGroup
from unihssl.models.classifier import full_precision
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


def anyone(fabric: Fabric, flag: bool) -> bool:
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
            for own, mean in zip(self.statistics, (together / self.count).split(sizes), strict=True):
                own.copy_(mean)


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

    In evaluation mode, and without other processes, it is plain BatchNorm. Every process holds equally many samples.
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
        alone = not (torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1)
        y = super().forward(x) if alone or not self.training else self._normalise(x)
        for child in self.children():
            y = child(y)
        return y

    def _normalise(self, x: Tensor) -> Tensor:
        exact = full_precision(x)
        axes = [0, *range(2, x.dim())]
        var, mean = torch.var_mean(exact, axes, correction=0)
        parts = torch.stack(all_gather(torch.stack([mean, var])))  # type: ignore[no-untyped-call]
        mean = parts[:, 0].mean(0)
        var = (parts[:, 1] + (parts[:, 0] - mean).square()).mean(0)
        self._track(mean.detach(), var.detach(), len(parts) * x.numel() // x.shape[1])
        scale, shift = (var + self.eps).rsqrt(), mean
        columns = (1, -1, *[1] * (x.dim() - 2))
        y = (exact - shift.view(columns)) * scale.view(columns)
        if self.affine:
            y = y * self.weight.view(columns) + self.bias.view(columns)
        return y.to(x.dtype)

    @torch.no_grad()
    def _track(self, mean: Tensor, var: Tensor, count: int) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        rate = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean), rate)
        self.running_var.lerp_((var * (count / max(count - 1, 1))).to(self.running_var), rate)

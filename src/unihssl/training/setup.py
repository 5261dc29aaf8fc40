"""Fabric, optimiser and schedule, from the settings."""

import inspect
import logging
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from unihssl.config import Settings
from unihssl.models.device import pick_device
from unihssl.training.fabric import DDPStrategy, Fabric
from unihssl.training.processes import find_processes

__all__ = [
    "Fabric",
    "make_fabric",
    "make_optimizer",
    "restore_momentum",
    "schedule_factor",
    "set_learning_rate",
]


def make_fabric(settings: Settings) -> Fabric:
    """Fabric decides where and in which precision; bf16 autocast on a GPU unless told otherwise."""
    on_gpu = pick_device(settings.device) == "cuda"
    bf16 = settings.precision == "bf16" or (settings.precision == "auto" and on_gpu)
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it announces each setting it was given
    processes = find_processes(settings, on_gpu)
    return Fabric(
        accelerator="cuda" if on_gpu else "cpu",
        devices=processes.devices,
        num_nodes=processes.nodes,
        strategy=_ddp() if processes.count > 1 else "auto",
        plugins=[processes.environment],
        precision="bf16-mixed" if bf16 else "32-true",
    )


def _ddp() -> Any:
    """DDP that leaves buffers alone: the memory of pseudo-labels may be large, and every step keeps it equal."""
    known = inspect.signature(nn.parallel.DistributedDataParallel).parameters
    broadcast = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    return DDPStrategy(find_unused_parameters=True, gradient_as_bucket_view=True, **{broadcast: False})


def make_optimizer(module: nn.Module, settings: Settings) -> torch.optim.SGD:
    """SGD with momentum; each group remembers its learning rate before the schedule.

    On a GPU the update is one fused kernel and the rate a tensor there, so that a captured step sees it change.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:  # such as an average of weights
            continue
        rate = settings.lr * (1.0 if "encoder." in name else settings.head_lr)
        decay = settings.weight_decay if parameter.dim() > 1 or settings.decay_bias_and_norm else 0.0
        groups.setdefault((rate, decay), []).append(parameter)
    device = next(module.parameters()).device
    on_gpu = device.type == "cuda"

    def rate_of(lr: float) -> float | Tensor:
        return torch.tensor(lr, device=device) if on_gpu else lr

    optimizer = torch.optim.SGD(
        [{"params": p, "lr": rate_of(lr), "base_lr": lr, "weight_decay": wd} for (lr, wd), p in groups.items()],
        lr=settings.lr,
        fused=on_gpu or None,
        momentum=settings.momentum,
        nesterov=settings.nesterov and settings.momentum > 0,
    )
    if on_gpu and settings.momentum:  # a fused update wants all or none, and some may get their first gradient late
        for parameter in (p for parameters in groups.values() for p in parameters):
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer


def schedule_factor(settings: Settings, step: int, progress: float) -> float:
    """What the learning rate is multiplied with at this step, `progress` being its share of the stage."""
    rise = min(1.0, progress / settings.lr_warm_up) if settings.lr_warm_up else 1.0
    if settings.lr_schedule == "cosine":
        return rise * 0.5 * (1 + math.cos(math.pi * progress / settings.cosine_horizon))
    if settings.lr_schedule == "cosine_7_16":
        return rise * math.cos(7 * math.pi * progress / 16)
    if settings.lr_schedule == "inverse":
        return float(rise * (1 + settings.decay_gamma * step) ** -settings.decay_power)
    return rise


def set_learning_rate(groups: Iterable[dict[str, Any]], factor: float) -> None:
    for group in groups:
        rate = group["base_lr"] * factor
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def restore_momentum(optimizer: Any, state: dict[str, Any]) -> None:
    """Take over what the optimiser had gathered; rates and the like follow from the settings and the device."""
    optimizer.load_state_dict({"state": state["state"], "param_groups": optimizer.state_dict()["param_groups"]})
    for parameter, gathered in optimizer.state.items():
        buffer = gathered.get("momentum_buffer")
        if buffer is not None:  # laid out like its weights, which are channels-last on a GPU
            gathered["momentum_buffer"] = torch.empty_like(parameter).copy_(buffer)

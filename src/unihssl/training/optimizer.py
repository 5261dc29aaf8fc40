"""Optimiser and learning-rate schedule, from the settings."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from unihssl.config import Settings
from unihssl.models.classifier import Classifier


def make_optimizer(module: nn.Module, settings: Settings, method: nn.Module | None = None) -> torch.optim.Optimizer:
    """SGD with momentum, or AdamW. Each group of parameters keeps its rate as `base_lr`.

    Encoders learn at `lr`, less in their first layers with `layer_decay`, and all else at `lr * head_lr`.

    Encoders are those of all classifiers in `method` (by default the module itself), even if the module is only a part.
    On a GPU the update is one fused kernel and the rate a tensor there, so that a captured step sees it change.
    """
    classifiers = [part for part in (method or module).modules() if isinstance(part, Classifier)]
    scales = {
        parameter: scale
        for part in classifiers
        for parameter, scale in layer_scales(part.encoder, settings.layer_decay)
    }
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for parameter in module.parameters():
        if not parameter.requires_grad:  # such as a moving average of weights
            continue
        rate = settings.lr * scales.get(parameter, settings.head_lr)
        decay = settings.weight_decay if parameter.dim() > 1 or settings.decay_bias_and_norm else 0.0
        groups.setdefault((rate, decay), []).append(parameter)
    device = next(module.parameters()).device
    on_gpu = device.type == "cuda"
    rates = {lr: torch.tensor(lr, device=device) if on_gpu else lr for lr, _ in groups}
    described = [{"params": p, "lr": rates[lr], "base_lr": lr, "weight_decay": wd} for (lr, wd), p in groups.items()]
    if settings.optimizer == "adamw":
        betas = (settings.momentum, 0.999)
        return torch.optim.AdamW(described, lr=settings.lr, betas=betas, fused=on_gpu or None, capturable=on_gpu)
    optimizer = torch.optim.SGD(
        described,
        lr=settings.lr,
        fused=on_gpu or None,
        momentum=settings.momentum,
        nesterov=settings.nesterov and settings.momentum > 0,
    )
    if on_gpu and settings.momentum:  # fused SGD needs a momentum buffer for every parameter or for none
        for parameter in (p for parameters in groups.values() for p in parameters):
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer


def layer_scales(encoder: nn.Module, decay: float) -> Iterator[tuple[nn.Parameter, float]]:
    """Each parameter of an encoder with its share of the learning rate: `decay` for every layer behind its own."""
    if decay == 1 or not any(True for _ in encoder.parameters()):
        yield from ((parameter, 1.0) for parameter in encoder.parameters())
        return
    from timm.optim import param_groups_layer_decay

    for group in param_groups_layer_decay(encoder, layer_decay=decay):
        yield from ((parameter, group["lr_scale"]) for parameter in group["params"])


def schedule_factor(settings: Settings, step: int, progress: float) -> float:
    """The learning rate's factor at this step; `progress` is the share of the stage that is done."""
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
    """Load momentum from a checkpoint; rates and the like follow from the settings and the device."""
    optimizer.load_state_dict({"state": state["state"], "param_groups": optimizer.state_dict()["param_groups"]})
    for parameter, state_of in optimizer.state.items():
        for name, buffer in state_of.items():
            if isinstance(buffer, Tensor) and buffer.shape == parameter.shape:
                # laid out like its weights, which are channels-last on a GPU
                state_of[name] = torch.empty_like(parameter).copy_(buffer)

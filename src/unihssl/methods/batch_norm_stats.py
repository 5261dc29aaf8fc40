"""BatchNorm statistics: which ones a forward pass uses, and which ones it changes."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from unihssl.models.classifier import full_precision


@contextmanager
def keep_running_statistics(network: nn.Module) -> Iterator[None]:
    """Normalise by the batch, but leave BatchNorm's running statistics as they are."""
    layers = _layers(network)
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.momentum = 0.0
    try:
        yield
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum


@contextmanager
def statistics_of(network: nn.Module, batches: Iterable[Tensor]) -> Iterator[None]:
    """While entered, BatchNorm's running statistics are those of these batches: AdaBN (Li et al., 2016).

    The batches should be shuffled: a batch of one class has other statistics than the domain.
    """
    layers = _layers(network)
    buffers = [buffer for layer in layers for buffer in layer.buffers(recurse=False)]
    before = [buffer.clone() for buffer in buffers]
    try:
        set_statistics(network, batches)
        yield
    finally:
        for buffer, old in zip(buffers, before, strict=True):
            buffer.copy_(old)


def has_batch_norm(network: nn.Module) -> bool:
    """Whether the network has statistics that could be those of a domain."""
    return bool(_layers(network))


def set_statistics(network: nn.Module, batches: Iterable[Tensor]) -> None:
    """Replace BatchNorm's running statistics by those of these batches."""
    for layer, (variance, mean) in (_mean_statistics(network, batches) if _layers(network) else {}).items():
        layer.running_var.copy_(variance)
        layer.running_mean.copy_(mean)


@torch.no_grad()
def _mean_statistics(network: nn.Module, batches: Iterable[Tensor]) -> dict[Any, Tensor]:
    """Variance and mean of what each BatchNorm layer is given, averaged over the batches.

    Measured by hooks, not tracked by the layers: synchronised over processes, they would count every sample several
    times.
    """
    sums: dict[nn.Module, Tensor] = {}
    counts: Counter[nn.Module] = Counter()

    def measure(layer: nn.Module, arguments: tuple[Tensor]) -> None:
        x = full_precision(arguments[0])
        statistics = torch.stack(torch.var_mean(x, [0, *range(2, x.dim())]))
        sums[layer] = sums[layer] + statistics if layer in sums else statistics
        counts[layer] += 1

    training = network.training
    network.train()
    hooks = [layer.register_forward_pre_hook(measure) for layer in _layers(network)]
    try:
        with keep_running_statistics(network):
            for x in batches:
                network(x)
    finally:
        for hook in hooks:
            hook.remove()
        network.train(training)
    return {layer: total / counts[layer] for layer, total in sums.items()}


def _layers(network: nn.Module) -> list[_BatchNorm]:
    """The BatchNorm layers that keep running statistics."""
    return [m for m in network.modules() if isinstance(m, _BatchNorm) and m.running_mean is not None]

"""Which BatchNorm statistics a forward pass goes by, and which it leaves behind."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


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

    The batches should be as mixed as training's are: a batch of one class has statistics of its own.
    """
    layers = _layers(network)
    buffers = [buffer for layer in layers for buffer in layer.buffers(recurse=False)]
    before, momenta, training = [b.clone() for b in buffers], [layer.momentum for layer in layers], network.training
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the plain mean over all batches
    network.train()
    try:
        with torch.no_grad():
            for x in batches if layers else ():
                network(x)
        network.train(training)
        yield
    finally:
        network.train(training)
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        for buffer, old in zip(buffers, before, strict=True):
            buffer.copy_(old)


def _layers(network: nn.Module) -> list[_BatchNorm]:
    return [layer for layer in network.modules() if isinstance(layer, _BatchNorm)]

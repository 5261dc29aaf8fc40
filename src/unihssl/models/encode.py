"""Features of a frozen encoder."""

from collections.abc import Iterable
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from unihssl.models.classifier import full_precision


@torch.no_grad()
def encode(encoder: nn.Module, batches: Iterable[Tensor], out: Tensor, autocast: torch.dtype | None = None) -> None:
    """Write the features of all batches, in evaluation mode and one below the other, to `out` (N, D).

    >>> encode(encoder, [x], features := torch.empty(len(x), 2048))
    """
    training = encoder.training
    encoder.eval()
    done = 0
    for x in batches:
        with nullcontext() if autocast is None else torch.autocast(x.device.type, autocast):
            features = encoder(x)
        out[done : done + len(x)] = full_precision(features).to(out.device)
        done += len(x)
    encoder.train(training)

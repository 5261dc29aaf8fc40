"""Who is mixed with whom, and how much: the draws of one step of inter-domain mixup."""

from collections.abc import Callable

import torch
from torch import Tensor

from unihssl.data.batches import PairedBatch
from unihssl.losses import interpolate, progressive_mixup_ratio

Mix = Callable[[Tensor, Tensor], Tensor]


def draw_mixing(batch: PairedBatch, alpha: float, schedule: str, draw: str) -> Mix:
    """This step's pairs and ratios, as a function that mixes labeled with unlabeled tensors row by row.

    Images are mixed before the forward pass and labels after it, by the same function. Samples pair by position;
    the smaller batch is repeated. `mixmatch` mixes each sample of both domains with a random one of both.
    """
    labeled, unlabeled = len(batch.labeled), len(batch.unlabeled)
    pooled = schedule == "mixmatch"
    size = labeled + unlabeled if pooled else max(labeled, unlabeled)
    progressive = schedule == "progressive"
    count = batch.random.whole(size) if draw == "sample" else 1
    ratio = progressive_mixup_ratio(batch.progress, 1.0, alpha, count, batch.random.generator, progressive=progressive)
    ratio = batch.random.own(ratio) if draw == "sample" else ratio
    if pooled:
        partners = torch.randperm(size, device=ratio.device, generator=batch.random.generator)
        majority = torch.maximum(ratio, 1 - ratio)
        return lambda x, u: interpolate(torch.cat([x, u])[partners], torch.cat([x, u]), majority)
    if labeled == unlabeled:
        return lambda x, u: interpolate(x, u, ratio)
    order = torch.arange(size, device=ratio.device)
    return lambda x, u: interpolate(x[order % labeled], u[order % unlabeled], ratio)

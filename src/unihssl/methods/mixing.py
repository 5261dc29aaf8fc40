"""Inter-domain mixup of one step: which samples are mixed, and in which ratio."""

from collections.abc import Callable

import torch
from torch import Tensor

from unihssl.data.batches import PairedBatch
from unihssl.losses import interpolate, progressive_mixup_ratio

Mix = Callable[[Tensor, Tensor], Tensor]


def draw_mixing(batch: PairedBatch, alpha: float, schedule: str, draw: str) -> Mix:
    """This step's pairs and ratios, as a function that mixes labeled with unlabeled tensors row by row.

    Images are mixed before the forward pass and labels after it, by the same function. Samples are paired by position;
    the smaller batch is repeated. `mixmatch` mixes each sample of both domains with a random one of both.
    """
    labeled, unlabeled = len(batch.labeled), len(batch.unlabeled)
    pooled = schedule == "mixmatch"
    size = labeled + unlabeled if pooled else max(labeled, unlabeled)
    progressive = schedule == "progressive"
    random = batch.random["mixup"]
    count = random.whole(size) if draw == "sample" else 1
    ratio = progressive_mixup_ratio(batch.progress, 1.0, alpha, count, random.generator, progressive=progressive)
    ratio = random.own(ratio) if draw == "sample" else ratio
    if pooled:
        partners = torch.randperm(size, device=ratio.device, generator=random.generator)
        majority = torch.maximum(ratio, 1 - ratio)
        return lambda x, u: interpolate(torch.cat([x, u])[partners], torch.cat([x, u]), majority)
    if labeled == unlabeled:
        return lambda x, u: interpolate(x, u, ratio)
    order = torch.arange(size, device=ratio.device)
    return lambda x, u: interpolate(x[order % labeled], u[order % unlabeled], ratio)

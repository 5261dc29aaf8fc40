"""Pillow's bilinear filter in tensor operations that exported graphs can hold, bit for bit."""

import torch
from torch import Tensor

BITS = 22  # of the filter's weights, which Pillow rounds to integers


def resize(images: Tensor, height: int, width: int) -> Tensor:
    """uint8 images (N, H, W, C) at (N, height, width, C), as `unihssl.data.images.resized` makes them."""
    if not torch.compiler.is_compiling():
        return _resized(images, height, width)
    has_size = [torch.full((), old) == new for old, new in zip(images.shape[1:3], (height, width), strict=True)]
    found: Tensor = torch.cond(
        has_size[0] & has_size[1],
        lambda x: x.index_select(1, torch.arange(height)).index_select(2, torch.arange(width)),  # whose size is known
        lambda x: _resized(x, height, width),
        (images,),
    )
    return found


def _resized(images: Tensor, height: int, width: int) -> Tensor:
    return _along(_along(images, 2, width), 1, height)


def _along(images: Tensor, dim: int, size: int) -> Tensor:
    """One pass: each of `size` places along `dim` is a weighted mean of the pixels within the filter's reach."""
    old = images.shape[dim]
    scale = torch.full((), old, dtype=torch.float64) / size
    reach = scale.clamp(min=1)
    pixels = 2 * ((old + size - 1) // size) + 1  # within reach of a place, at most
    centre = (torch.arange(size, dtype=torch.float64) + 0.5) * scale
    first = (centre - reach + 0.5).long().clamp(min=0)
    end = (centre + reach + 0.5).long().clamp(max=old)
    rows = first.unsqueeze(1) + torch.arange(pixels)
    distance = (rows - centre.unsqueeze(1) + 0.5).abs() / reach
    weights = (1 - distance).clamp(min=0) * (rows < end.unsqueeze(1))
    weights = (weights / weights.sum(1, keepdim=True) * (1 << BITS) + 0.5).int()
    taken = torch.unflatten(images.index_select(dim, rows.clamp(max=old - 1).flatten()), dim, (size, pixels))
    weights = weights.view(size, pixels, *[1] * (3 - dim))
    sums = (taken.int() * weights).sum(dim + 1, dtype=torch.int32) + (1 << (BITS - 1))
    return (sums // (1 << BITS)).clamp(0, 255).byte()

"""Shared by the strong views: PIL's arithmetic on float images (B, C, H, W) with values 0..255."""

import functools
from collections.abc import Callable

import torch
from torch import Tensor

CACHED_PIXELS = 2**18  # that a CPU works on at once: the result of one op is then still in its cache for the next


def blend(degenerate: Tensor, images: Tensor, factor: Tensor) -> Tensor:
    """PIL's `Image.blend`: from the degenerate image (0) to the image (1) and beyond, truncated to whole numbers."""
    return (images - degenerate).mul(factor).add_(degenerate).clamp_(0, 255).floor_()


def gray(images: Tensor) -> Tensor:
    """PIL's "L": luma in 16-bit fixed point, which float32 holds exactly where the values are whole.

    Channels that are not RGB have no common grey: each is its own.
    """
    if images.shape[1] != 3:
        return images
    shares = constant((19595 / 65536, 38470 / 65536, 7471 / 65536), images.device).view(1, 3, 1, 1)
    return (images * shares).sum(1, keepdim=True).add_(0.5).floor_()


def in_parts(view: Callable[..., Tensor], images: Tensor, *drawn: Tensor) -> Tensor:
    """Apply a view to float planes, on a CPU in parts; the result has the images' type and memory format."""
    if images.dim() != 4:
        raise ValueError(f"strong views need images of shape (B, C, H, W), got {tuple(images.shape)}")
    parts = 1 + images.numel() // (images.shape[1] * CACHED_PIXELS) if images.device.type == "cpu" else 1
    samples = zip(*(each.chunk(parts) for each in (images.float().contiguous(), *drawn)), strict=True)
    views = [view(*part) for part in samples]
    out = (torch.cat(views) if parts > 1 else views[0]).to(images.dtype)
    channels_last = images.is_contiguous(memory_format=torch.channels_last)
    return out.contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)


def colour(values: tuple[float, ...], images: Tensor) -> Tensor:
    """An RGB colour, (1, 3, 1, 1); for images that are not RGB its mean."""
    found = constant(values, images.device).view(1, -1, 1, 1)
    return found if images.shape[1] == found.shape[1] else found.mean(1, keepdim=True)


@functools.cache
def constant(values: tuple[float, ...], device: torch.device, dtype: torch.dtype = torch.float32) -> Tensor:
    """Copied to the device once, not in every step."""
    return torch.tensor(values, device=device, dtype=dtype)

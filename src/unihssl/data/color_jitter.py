"""MoCo-v2's strong view of a whole batch at once: colour jitter, grayscale and blur, different for each sample."""

import torch
import torch.nn.functional as F
from torch import Tensor

from unihssl.data.batch_random import BatchRandom
from unihssl.data.pixels import blend, constant, gray, in_parts


@torch.no_grad()
def moco_view(images: Tensor, random: BatchRandom) -> Tensor:
    """SimMatch's strong view: colour jitter (p 0.8), grayscale (p 0.2), blur (p 0.5). No crop, no flip.

    Jitter has one order (brightness, contrast, saturation, hue); torchvision draws an order for each image. Images that
    are not RGB get brightness, contrast and blur alone.
    """
    return in_parts(_moco_colours, images, random.uniform(len(images), 8, 1, 1, 1))


def _moco_colours(images: Tensor, drawn: Tensor) -> Tensor:
    """The view of each sample by its eight random numbers in 0..1, (B, 8, 1, 1, 1)."""
    jitters, brightness, contrast, saturation, hue, grays, blurs, sigma = drawn.unbind(1)
    strengths = (0.6 + 0.8 * brightness, 0.6 + 0.8 * contrast, 0.6 + 0.8 * saturation, 0.2 * hue - 0.1)
    out = torch.where(jitters < 0.8, color_jitter(images, *strengths), images)
    out = torch.where(grays < 0.2, gray(out), out)
    return torch.where(blurs < 0.5, gaussian_blur(out, 0.1 + 1.9 * sigma), out)


def color_jitter(images: Tensor, brightness: Tensor, contrast: Tensor, saturation: Tensor, hue: Tensor) -> Tensor:
    """torchvision's ColorJitter with each sample's own factors, (B, 1, 1, 1); hue in turns of the colour wheel.

    Images that are not RGB have neither saturation nor hue.
    """
    out = blend(torch.zeros_like(images), images, brightness)
    out = blend((gray(out).mean((2, 3), keepdim=True) + 0.5).floor(), out, contrast)
    if images.shape[1] != 3:
        return out
    out = blend(gray(out), out, saturation)
    return _turn_hue(out, hue)


def _turn_hue(images: Tensor, turns: Tensor) -> Tensor:
    """Through HSV and back: each channel is the largest, less its distance on the colour wheel times the chroma."""
    red, green, blue = images.chunk(3, dim=1)
    largest = images.amax(1, keepdim=True)
    chroma = largest - images.amin(1, keepdim=True)
    scale = 1 / torch.where(chroma > 0, chroma, 1)
    sixth = torch.where(
        largest == red,
        (green - blue) * scale,
        torch.where(largest == green, 2 + (blue - red) * scale, 4 + (red - green) * scale),
    )
    wheel = (sixth + 6 * turns + constant((5, 3, 1), images.device).view(1, 3, 1, 1)) % 6
    return largest - chroma * torch.minimum(wheel, 4 - wheel).clamp(0, 1)


def gaussian_blur(images: Tensor, sigma: Tensor) -> Tensor:
    """Each sample with its own sigma, (B, 1, 1, 1); the kernel is a tenth of the image long. Chen et al., 2020."""
    height, width = images.shape[2:]
    reach = max(1, min(height, width) // 20)
    offset = torch.arange(-reach, reach + 1, device=images.device)
    kernel = torch.exp(-0.5 * (offset / sigma.view(-1, 1)) ** 2)
    kernels = (kernel / kernel.sum(1, keepdim=True)).repeat(1, images.shape[1]).view(-1, 1, 1, 2 * reach + 1)
    planes = F.pad(images, (reach, reach, reach, reach), mode="reflect").flatten(0, 1).unsqueeze(0)
    planes = F.conv2d(planes, kernels, groups=len(kernels))
    return F.conv2d(planes, kernels.transpose(2, 3), groups=len(kernels)).reshape(images.shape)

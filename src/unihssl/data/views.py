"""Training and test views of a whole batch at once, on its device, each sample with its own random numbers.

Images come as (B, H, W, C) uint8 and leave as normalised floats (B, C, h, w), already in channels-last memory.
Feature vectors pass through unchanged.
"""

import functools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from unihssl.data.batch_random import BatchRandom
from unihssl.data.color_jitter import moco_view
from unihssl.data.randaugment import FIXMATCH_IMAGENET, TIMM_M10_N2, TORCHSSL, rand_augment

WeakView = Literal["crop", "translate", "resized_crop", "center"]
StrongView = Literal["randaugment", "randaugment_cutout", "randaugment_imagenet", "moco"]
POLICIES = {"randaugment": TIMM_M10_N2, "randaugment_cutout": TORCHSSL, "randaugment_imagenet": FIXMATCH_IMAGENET}
SHIFT = 1 / 8  # of the side: MixMatch's 4 pixels of 32
ASPECT = (3 / 4, 4 / 3)


@dataclass(frozen=True)
class Views:
    """How a model sees images: its input side (None: as stored), its normalisation, and the training views."""

    side: int | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    weak_view: WeakView = "crop"
    flip: bool = True
    least_area: float = 0.08  # of a resized crop
    strong_view: StrongView = "randaugment"

    def has_strong(self, images: Tensor) -> bool:
        """Whether the strong view differs from the weak one: images have one, feature vectors do not."""
        return images.dim() > 2

    def test(self, images: Tensor) -> Tensor:
        """The centre of the image."""
        if images.dim() == 2:
            return images
        return self._normalised(self._pixels(self._centre(images)))

    def weak(self, images: Tensor, random: BatchRandom, kind: WeakView | None = None) -> Tensor:
        """A random crop (or shift, or resized crop, or the centre) and flip."""
        if images.dim() == 2:
            return images
        return self._normalised(self._weak_pixels(images, random, kind or self.weak_view))

    def strong(self, images: Tensor, random: BatchRandom) -> Tensor:
        """A weak view of its own, strongly augmented. Feature vectors stay as they are."""
        if images.dim() == 2:
            return images
        pixels = self._weak_pixels(images, random, self.weak_view)
        if self.strong_view == "moco":
            return self._normalised(moco_view(pixels, random))
        return self._normalised(rand_augment(pixels, random, POLICIES[self.strong_view]))

    def _weak_pixels(self, images: Tensor, random: BatchRandom, kind: WeakView) -> Tensor:
        if kind == "resized_crop":
            return self._resized_crop(images, random)
        if kind == "center":
            return self._pixels(_random_crop(self._centre(images), (0, 0), self.flip, random))
        height, width = images.shape[1:3]
        out = self._crop_side(height, width)
        slack = (height - out[0], width - out[1])
        if kind == "translate" or slack == (0, 0):
            reach = (round(out[0] * SHIFT), round(out[1] * SHIFT))
            images, slack = _pad_edges(self._centre(images), *reach), (2 * reach[0], 2 * reach[1])
        return self._pixels(_random_crop(images, slack, self.flip, random))

    def _centre(self, images: Tensor) -> Tensor:
        height, width = images.shape[1:3]
        out = self._crop_side(height, width)
        top, left = (height - out[0]) // 2, (width - out[1]) // 2
        return images[:, top : top + out[0], left : left + out[1]]

    def _crop_side(self, height: int, width: int) -> tuple[int, int]:
        """What is cut from a stored image: the model's side, or all of it if it is no larger."""
        if self.side is None or height <= self.side or width <= self.side:
            return height, width
        return self.side, self.side

    def _resized_crop(self, images: Tensor, random: BatchRandom) -> Tensor:
        count, height, width, _ = images.shape
        chance = random.uniform(count, 5).unbind(1)
        area = self.least_area + (1 - self.least_area) * chance[0]
        low, high = math.log(ASPECT[0]), math.log(ASPECT[1])
        aspect = torch.exp(low + (high - low) * chance[1])
        scale_y, scale_x = (area / aspect).sqrt().clamp(max=1), (area * aspect).sqrt().clamp(max=1)
        centre_y, centre_x = (2 * chance[2] - 1) * (1 - scale_y), (2 * chance[3] - 1) * (1 - scale_x)
        if self.flip:
            scale_x = torch.where(chance[4] < 0.5, -scale_x, scale_x)
        zero = torch.zeros_like(scale_x)
        theta = torch.stack([scale_x, zero, centre_x, zero, scale_y, centre_y], dim=1).view(count, 2, 3)
        out = (self.side, self.side) if self.side else (height, width)
        x = images.permute(0, 3, 1, 2).float()
        grid = F.affine_grid(theta, [count, x.shape[1], *out], align_corners=False)
        crops = F.grid_sample(x, grid, align_corners=False, padding_mode="reflection")
        return crops.contiguous(memory_format=torch.channels_last)

    def _pixels(self, images: Tensor) -> Tensor:
        """Floats 0..255, channels first, at the model's side."""
        x = images.permute(0, 3, 1, 2).float()
        if self.side and x.shape[2:] != (self.side, self.side):
            x = F.interpolate(x, size=(self.side, self.side), mode="bilinear", antialias=False)
        return x

    def _normalised(self, pixels: Tensor) -> Tensor:
        return (pixels - _pixel_scale(self.mean, pixels.device)) / _pixel_scale(self.std, pixels.device)

    def to_look_at(self, x: Tensor) -> np.ndarray:
        """What the network takes, (N, C, H, W), as uint8 images (N, H, W, C)."""
        pixels = x.float() * _pixel_scale(self.std, x.device) + _pixel_scale(self.mean, x.device)
        return np.asarray(pixels.clamp(0, 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy(force=True))


def _pixel_scale(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Per-channel constants on the 0..255 scale; copied to the device once, not in every step."""
    # What is made while an export traces belongs to the trace, and must not be kept for later steps.
    return _new_pixel_scale(values, device) if torch.compiler.is_compiling() else _kept_pixel_scale(values, device)


def _new_pixel_scale(values: tuple[float, ...], device: torch.device) -> Tensor:
    return torch.tensor(values, device=device).mul(255).view(1, -1, 1, 1)


_kept_pixel_scale = functools.cache(_new_pixel_scale)


def _pad_edges(images: Tensor, rows: int, columns: int) -> Tensor:
    """Repeat the border pixels, so that a shifted image has no black edge."""
    height, width = images.shape[1:3]
    y = torch.arange(-rows, height + rows, device=images.device).clamp(0, height - 1)
    x = torch.arange(-columns, width + columns, device=images.device).clamp(0, width - 1)
    return images[:, y][:, :, x]


def _random_crop(images: Tensor, slack: tuple[int, int], flip: bool, random: BatchRandom) -> Tensor:
    """Cut a window that is `slack` smaller from each image at a random place; mirror half of them."""
    count, height, width, _ = images.shape
    device = images.device
    out = (height - slack[0], width - slack[1])
    top = random.integers(slack[0] + 1, count, 1)
    left = random.integers(slack[1] + 1, count, 1)
    rows = top + height * torch.arange(count, device=device).unsqueeze(1) + torch.arange(out[0], device=device)
    columns = torch.arange(out[1], device=device).expand(count, -1)
    if flip:
        mirrored = random.uniform(count, 1) < 0.5
        columns = torch.where(mirrored, out[1] - 1 - columns, columns)
    places = (width * rows).unsqueeze(2) + (left + columns).unsqueeze(1)  # a single index into all pixels is fastest
    return images.flatten(0, 2).index_select(0, places.flatten()).view(*places.shape, images.shape[3])

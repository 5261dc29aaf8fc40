"""Training and test views of a whole batch at once, on the device that holds it, each sample with its own draw.

Images come as (B, H, W, 3) uint8 and leave as normalised floats (B, 3, h, w), already in channels-last memory.
Feature vectors pass through unchanged.
"""

import functools
import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

WeakView = Literal["crop", "translate", "resized_crop"]
SHIFT = 1 / 8  # of the side: MixMatch's 4 pixels of 32
ASPECT = (3 / 4, 4 / 3)
AREA = (0.08, 1.0)


@dataclass(frozen=True)
class Views:
    """How a model sees images: its side (None: as stored), its normalisation, and the training view."""

    side: int | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    weak_view: WeakView = "crop"
    flip: bool = True

    def test(self, images: Tensor) -> Tensor:
        """The centre of the image."""
        if images.dim() == 2:
            return images
        _, height, width, _ = images.shape
        out = self._crop_side(height, width)
        top, left = (height - out[0]) // 2, (width - out[1]) // 2
        return self._finish(images[:, top : top + out[0], left : left + out[1]])

    def weak(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """A random crop (or shift, or resized crop) and flip."""
        if images.dim() == 2:
            return images
        _, height, width, _ = images.shape
        if self.weak_view == "resized_crop":
            return self._finish(images, grid=self._resized_crop_grid(images, generator))
        out = self._crop_side(height, width)
        slack = (height - out[0], width - out[1])
        if self.weak_view == "translate" or slack == (0, 0):
            images = images[:, slack[0] // 2 : slack[0] // 2 + out[0], slack[1] // 2 : slack[1] // 2 + out[1]]
            reach = (round(out[0] * SHIFT), round(out[1] * SHIFT))
            images, slack = _pad_edges(images, *reach), (2 * reach[0], 2 * reach[1])
        return self._finish(_random_crop(images, slack, self.flip, generator))

    def _crop_side(self, height: int, width: int) -> tuple[int, int]:
        """What is cut from a stored image: the model's side, or all of it where it is no larger than that."""
        if self.side is None or height <= self.side or width <= self.side:
            return height, width
        return self.side, self.side

    def _resized_crop_grid(self, images: Tensor, generator: torch.Generator) -> Tensor:
        count, height, width, _ = images.shape
        draws = torch.rand(5, count, device=images.device, generator=generator)
        area = AREA[0] + (AREA[1] - AREA[0]) * draws[0]
        low, high = math.log(ASPECT[0]), math.log(ASPECT[1])
        aspect = torch.exp(low + (high - low) * draws[1])
        scale_y, scale_x = (area / aspect).sqrt().clamp(max=1), (area * aspect).sqrt().clamp(max=1)
        centre_y, centre_x = (2 * draws[2] - 1) * (1 - scale_y), (2 * draws[3] - 1) * (1 - scale_x)
        if self.flip:
            scale_x = torch.where(draws[4] < 0.5, -scale_x, scale_x)
        zero = torch.zeros_like(scale_x)
        theta = torch.stack([scale_x, zero, centre_x, zero, scale_y, centre_y], dim=1).view(count, 2, 3)
        out = (self.side, self.side) if self.side else (height, width)
        return F.affine_grid(theta, [count, 3, *out], align_corners=False)

    def _finish(self, images: Tensor, grid: Tensor | None = None) -> Tensor:
        """uint8 to normalised floats at the model's side."""
        x = images.permute(0, 3, 1, 2).float()
        if grid is not None:
            x = F.grid_sample(x, grid, align_corners=False, padding_mode="reflection")
        elif self.side and x.shape[2:] != (self.side, self.side):
            x = F.interpolate(x, size=(self.side, self.side), mode="bilinear", antialias=False)
        mean, std = _pixel_scale(self.mean, x.device), _pixel_scale(self.std, x.device)
        return (x - mean) / std


@functools.cache
def _pixel_scale(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Per-channel constants on the 0..255 scale; copied to the device once, not in every step."""
    return torch.tensor(values, device=device).mul(255).view(1, -1, 1, 1)


def _pad_edges(images: Tensor, rows: int, columns: int) -> Tensor:
    """Repeat the border pixels, so that a shifted image has no seam."""
    height, width = images.shape[1:3]
    y = torch.arange(-rows, height + rows, device=images.device).clamp(0, height - 1)
    x = torch.arange(-columns, width + columns, device=images.device).clamp(0, width - 1)
    return images[:, y][:, :, x]


def _random_crop(images: Tensor, slack: tuple[int, int], flip: bool, generator: torch.Generator) -> Tensor:
    """Cut a window that is `slack` smaller from each image at its own place, mirrored for half of them."""
    count, height, width, _ = images.shape
    device = images.device
    out = (height - slack[0], width - slack[1])
    top = torch.randint(slack[0] + 1, (count, 1), device=device, generator=generator)
    left = torch.randint(slack[1] + 1, (count, 1), device=device, generator=generator)
    rows = top + torch.arange(out[0], device=device)
    columns = torch.arange(out[1], device=device).expand(count, -1)
    if flip:
        mirrored = torch.rand(count, 1, device=device, generator=generator) < 0.5
        columns = torch.where(mirrored, out[1] - 1 - columns, columns)
    sample = torch.arange(count, device=device).view(-1, 1, 1)
    return images[sample, rows.unsqueeze(2), (left + columns).unsqueeze(1)]

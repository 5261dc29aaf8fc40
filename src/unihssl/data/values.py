"""The numbers of an image as its file has them, of any depth and any number of channels."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from unihssl.errors import Setting, UserError

Range = tuple[float, float]


@dataclass(frozen=True)
class Values:
    """An upright image: its numbers, and what its file says about them."""

    pixels: np.ndarray  # (H, W, C) integers or floats; NaN where the file has no value
    kind: str = ""  # how it is stored, such as `PNG uint16`; empty: 8 bits, which stay as they are
    limits: Range = (0, 255)  # what its format can hold
    window: Range | None = None  # the range to look at, if the file names one
    inverted: bool = False  # small values are white
    alpha: np.ndarray | None = None  # (H, W) in 0..1

    @property
    def channels(self) -> int:
        return int(self.pixels.shape[2])


class WrongChannelsError(Exception):
    """An image has another number of channels than this run or model takes."""

    def __init__(self, found: int, wanted: int) -> None:
        super().__init__(found, wanted)
        self.found, self.wanted = found, wanted

    def of(self, name: object, *, trained: bool) -> UserError:
        """What the user is told; the number of a trained model's channels cannot be set."""
        found = f"{name}: {self.found} channels (or pages)"
        if trained:
            return UserError(f"{found}, and this model takes {self.wanted}")
        return UserError(
            f"{found}, and {Setting('channels', self.wanted)}: all images need the same number; "
            f"{Setting('channels', self.found)} takes {self.found}"
        )


def fitted(pixels: np.ndarray, channels: int) -> np.ndarray:
    """(..., C) with this many channels: grey is repeated for RGB, RGB becomes luma for one; others must fit."""
    found = pixels.shape[-1]
    if found == channels:
        return pixels
    if (found, channels) == (1, 3):
        return np.repeat(pixels, 3, axis=-1)
    if (found, channels) == (3, 1):
        luma: np.ndarray = (pixels @ np.array([0.299, 0.587, 0.114]))[..., None]
        return np.rint(luma).astype(np.uint8) if pixels.dtype == np.uint8 else luma.astype(float_type(pixels))
    raise WrongChannelsError(found, channels)


def float_type(pixels: np.ndarray) -> np.dtype[Any]:
    """float32, or float64 for what that cannot hold: whole numbers of 32 bits and more, doubles."""
    return np.result_type(pixels.dtype, np.float32)


def shown(pixels: np.ndarray) -> np.ndarray:
    """(H, W, 3) to look at, of an image (H, W, C): of many channels the first three, else the first."""
    return pixels[..., :3] if pixels.shape[2] >= 3 else np.repeat(pixels[..., :1], 3, axis=2)


def with_alpha(pixels: np.ndarray, channels: int, limits: Range) -> tuple[np.ndarray, np.ndarray | None]:
    """Take the last channel off as alpha, if colours (or grey) alone are asked for."""
    if pixels.shape[2] not in (2, 4) or channels not in (1, 3):
        return pixels, None
    return pixels[..., :-1], pixels[..., -1].astype(np.float32) / np.float32(limits[1])


def upright(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Undo an EXIF orientation (1..8) of (H, W, C)."""
    if orientation in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    vertical, horizontal = orientation in (3, 4, 7, 8), orientation in (2, 3, 6, 7)
    pixels = pixels[::-1] if vertical else pixels
    return pixels[:, ::-1] if horizontal else pixels


def type_limits(dtype: np.dtype) -> Range:
    """The range of an integer type; 0..1 for floats."""
    if dtype.kind == "f":
        return 0.0, 1.0
    about = np.iinfo(dtype)
    return float(about.min), float(about.max)

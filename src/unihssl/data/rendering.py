"""One image file as 8-bit pixels of the stored size: what every decoder of many files calls for each."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from unihssl.data.dicom import read_dicom
from unihssl.data.image_format import HEAD, PILLOW, check_size, is_bare_dicom, is_deep_png, is_dicom, is_tiff
from unihssl.data.images import load_square, open_rgb
from unihssl.data.intensity import Window, window_for
from unihssl.data.png_check import checked_png
from unihssl.data.tiff import read_tiff
from unihssl.data.values import Values, fitted, float_type, shown, type_limits, upright, with_alpha
from unihssl.plain_files import MOST_IMAGE, read_bytes

ORIENTATION = 0x0112
PNG_16 = "PNG uint16"


@dataclass(frozen=True)
class Rendering:
    """How images are stored: height and width, channels, and the windows of those with more than 8 bits.

    A kind of storage has two windows where the domain of an image is not known.
    """

    size: tuple[int, int]
    channels: int = 3
    windows: Mapping[str, tuple[Window, ...]] = field(default_factory=dict)
    trained: bool = True  # as a trained model takes images, or a benchmark has them; else `channels` can be chosen

    @property
    def shape(self) -> tuple[int, int, int]:
        return (*self.size, self.channels)

    @property
    def text(self) -> str:
        """For keys: differs where pixels may. Plain RGB of 8 bits has the text that it always had."""
        text = f"{self.size[0]}x{self.size[1]}"
        if self.channels != 3:
            text += f" {self.channels}"
        windows = {_precise(kind): [(w.low, w.high) for w in found] for kind, found in self.windows.items()}
        return f"{text} {json.dumps(windows, sort_keys=True)}" if windows else text


def _precise(kind: str) -> str:
    """A kind of storage, for keys; doubles and whole numbers of 32 bits were once scaled in float32."""
    return f"{kind} in float64" if kind.endswith(("int32", "64")) else kind


def render(content: bytes, how: Rendering) -> tuple[np.ndarray, str]:
    """The image (height, width, channels) uint8; and how it is stored, if that is a deep kind without a window."""
    values = read_values(content, how.channels)
    if values is None:
        return load_square(io.BytesIO(content), *how.size), ""
    if not values.kind:
        return scaled(values, how), ""
    windows = how.windows.get(values.kind)
    if windows:
        return scaled(values, how, window_for(values, windows)), ""
    return _by_format(content, values, how), values.kind


def read_values(content: bytes, channels: int) -> Values | None:
    """The numbers of an image; None for plain images of 8 bits, if RGB is asked for."""
    head = content[:HEAD]
    if is_dicom(head):
        return read_dicom(content)
    if is_bare_dicom(head):
        raise ValueError("a DICOM data set without the preamble of a file: write it as one, such as with dcmconv")
    if is_deep_png(head):
        return _read_png(content, channels)
    values = read_tiff(content, channels) if is_tiff(head) else None
    return values if values or channels == 3 else _read_plain(content, channels)


def scaled(values: Values, how: Rendering, window: Window | None = None) -> np.ndarray:
    """Values between the window's ends as 0..255, at the stored size: rounded once, after resizing."""
    pixels = fitted(values.pixels, how.channels)
    planes = [_plane(values, pixels[..., c], _channel_ends(window, c), how.size) for c in range(how.channels)]
    return np.stack(planes, axis=-1)


def _channel_ends(window: Window | None, channel: int) -> tuple[float, float]:
    if window is None:
        return 0.0, 255.0
    channel = min(channel, len(window.low) - 1)
    return window.low[channel], window.high[channel]


def _plane(values: Values, plane: np.ndarray, ends: tuple[float, float], size: tuple[int, int]) -> np.ndarray:
    low, high = ends
    wide: np.ndarray = plane.astype(float_type(plane))
    np.nan_to_num(wide, copy=False, nan=high if values.inverted else low, posinf=high, neginf=low)
    grey = np.clip((wide - low) * (255 / (high - low)), 0, 255, out=wide).astype(np.float32, copy=False)
    if values.inverted:
        np.subtract(255, grey, out=grey)
    if values.alpha is not None:
        grey = values.alpha * grey + (1 - values.alpha) * 255  # laid on white
    if grey.shape != size:
        resized = Image.fromarray(grey).resize((size[1], size[0]), Image.Resampling.BILINEAR)
        grey = np.asarray(resized)
    return np.clip(np.rint(grey), 0, 255).astype(np.uint8)


def open_to_show(path: Path) -> Image.Image:
    """An image as RGB to look at, never to train on: a deep one by its own window, or by the range of its values."""
    content = read_bytes(path, MOST_IMAGE)
    values = read_values(content, 3)
    if values is None:
        return open_rgb(io.BytesIO(content))
    values = replace(values, pixels=shown(values.pixels))
    finite = values.pixels[np.isfinite(values.pixels)]
    low, high = values.window or (float(finite.min()), float(finite.max())) if values.kind else (0.0, 255.0)
    window = Window((low,), (max(high, low + 1e-6),), (low, high))
    return Image.fromarray(scaled(values, Rendering(values.pixels.shape[:2]), window))


def _by_format(content: bytes, values: Values, how: Rendering) -> np.ndarray:
    """An image whose kind has no window: as the file says, or by the range of its format."""
    if how.channels == 3 and values.window is None:
        try:
            return load_square(io.BytesIO(content), *how.size)  # as models of earlier versions saw it
        except (UnidentifiedImageError, SyntaxError):
            pass
    low, high = values.window or values.limits
    return scaled(values, how, Window((low,), (high,), (low, high)))


def _read_png(content: bytes, channels: int) -> Values:
    """A PNG of 16 bits a channel, which Pillow would cut to 8."""
    import torch  # slow to import, and pages that show images do without
    from torchvision.io import ImageReadMode, decode_png

    with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
        check_size(image.height, image.width, len(image.getbands()))
        turned = image.getexif().get(ORIENTATION, 1) if b"eXIf" in content else 1
    try:
        whole = torch.frombuffer(bytearray(checked_png(content)), dtype=torch.uint8)
        planes = decode_png(whole, ImageReadMode.UNCHANGED)
    except RuntimeError as error:
        raise ValueError(str(error).rpartition(", ")[2]) from None
    limits = type_limits(np.dtype(np.uint16))
    pixels, alpha = with_alpha(upright(planes.permute(1, 2, 0).numpy(), turned), channels, limits)
    return Values(pixels, PNG_16, limits, alpha=alpha)


def _read_plain(content: bytes, channels: int) -> Values:
    """An image of 8 bits with another number of channels than three."""
    if channels == 1:
        return Values(np.asarray(open_rgb(io.BytesIO(content)).convert("L"))[..., None])
    with Image.open(io.BytesIO(content), formats=PILLOW) as image:
        ImageOps.exif_transpose(image, in_place=True)
        pixels = np.asarray(image.convert("RGB") if image.mode == "P" else image)
    return Values(pixels[..., None] if pixels.ndim == 2 else pixels)

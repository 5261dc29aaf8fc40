"""Opening one image file, whatever its format, as upright 8-bit RGB."""

import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import ExifTags, Image, ImageOps

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"})

# What Pillow raises for files that are not, or not wholly, images.
UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError)


def open_rgb(file: Path | BinaryIO) -> Image.Image:
    """Decode to RGB: EXIF rotation applied, transparency laid on white, 16-bit and float grey scaled to 8."""
    with Image.open(file) as image:
        ImageOps.exif_transpose(image, in_place=True)  # also decodes; in place, as plain photos need no second copy
        if image.mode.startswith(("I", "F")):
            return _eight_bit(image).convert("RGB")
        if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
            layer = image.convert("RGBA")
            return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
        return image if image.mode == "RGB" else image.convert("RGB")


def _eight_bit(image: Image.Image) -> Image.Image:
    """Pillow clips deep greys at 255 when asked for 8 bits; scale by the range of the format instead."""
    pixels = np.asarray(image)
    if image.mode == "F":
        scale = 255.0 if pixels.size and float(pixels.max()) <= 1.0 else 1.0
    else:
        scale = 255.0 / 65535.0 if (pixels.size and int(pixels.max()) > 255) or "16" in image.mode else 1.0
    return Image.fromarray(np.clip(np.rint(pixels * scale), 0, 255).astype(np.uint8))


def upright_size(path: Path) -> tuple[int, int]:
    """Height and width after EXIF rotation, from the header alone."""
    with Image.open(path) as image:
        turned = image.getexif().get(ExifTags.Base.Orientation, 1) in (5, 6, 7, 8)
        return (image.width, image.height) if turned else (image.height, image.width)


def load_square(file: Path | BinaryIO, height: int, width: int) -> np.ndarray:
    """Decode and resize to (height, width, 3) uint8; the aspect ratio is not kept, as in the paper's field."""
    image = open_rgb(file)
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(image)

"""Image files: finding them in a folder, and opening one as upright 8-bit RGB."""

import os
import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import ExifTags, Image, ImageOps

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"})

# What Pillow raises for files that are not images, or are cut short.
UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError)


def find_images(folder: Path) -> list[Path]:
    """All images below a folder, sorted. Hidden files and folders are skipped."""
    found = []
    for parent, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(f for f in folders if not f.startswith((".", "__MACOSX")))
        found += [Path(parent, f) for f in sorted(files) if is_image(f)]
    return found


def is_image(file_name: str) -> bool:
    """Whether a file is a visible image, by its name."""
    return Path(file_name).suffix.lower() in SUFFIXES and not file_name.startswith(".")


def open_rgb(file: Path | BinaryIO) -> Image.Image:
    """Decode to RGB: EXIF rotation applied, transparency on white, 16-bit and float grey scaled to 8 bits."""
    with Image.open(file) as image:
        ImageOps.exif_transpose(image, in_place=True)  # also decodes; no second copy of plain photos
        if image.mode.startswith(("I", "F")):
            return _eight_bit(image).convert("RGB")
        if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
            layer = image.convert("RGBA")
            return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
        return image if image.mode == "RGB" else image.convert("RGB")


def _eight_bit(image: Image.Image) -> Image.Image:
    """Scale grey of more than 8 bits by the range of its format; Pillow would clip it at 255."""
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
    """Decode and resize to (height, width, 3) uint8. The aspect ratio is not kept, as usual in this field."""
    image = open_rgb(file)
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(image)

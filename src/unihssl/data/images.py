"""Image files: finding them in a folder, and opening one as upright 8-bit RGB."""

import os
import struct
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import ExifTags, Image, ImageOps, TiffImagePlugin, UnidentifiedImageError

from unihssl.data import dicom, tiff
from unihssl.data.image_format import HEAD, PILLOW, is_dicom, is_known, is_tiff
from unihssl.errors import UserError
from unihssl.plain_files import check_regular

SUFFIXES = frozenset({".jpg", ".jpeg", ".jfif", ".jpe", ".png", ".webp", ".bmp", ".tif", ".tiff"})
SUFFIXES |= {".dcm", ".dic", ".dicom", ".ima"}
# Images that we do not read: of phones, of cameras, of the web; of medicine and microscopes.
_OTHERS = "heic heif avif jxl jp2 j2k gif psd svg eps ppm pgm pfm tga ico exr hdr fits dng cr2 cr3 nef arw raf rw2"
_OTHERS += " nii mha mhd nrrd svs ndpi czi lif nd2"
OTHER_SUFFIXES = frozenset(f".{name}" for name in _OTHERS.split())

# What decoders raise for files that are not images, or are damaged; the last five were found by changing random bytes.
UNREADABLE: tuple[type[Exception], ...] = (OSError, SyntaxError, ValueError, EOFError, struct.error)
UNREADABLE += (Image.DecompressionBombError, ArithmeticError, LookupError, TypeError, AttributeError, MemoryError)


def find_images(folder: Path) -> list[Path]:
    """All images below a folder, sorted. Hidden files and folders are skipped.

    A file without a suffix, or with a number for one, as scanners name theirs, is an image if it begins like one.
    """
    return images_among(visible_files(folder))


def images_among(files: Iterable[Path]) -> list[Path]:
    return [path for path in files if is_image(path.name) or _begins_like_one(path)]


def _begins_like_one(path: Path) -> bool:
    if path.suffix.strip(".0123456789") or path.name.upper() == "DICOMDIR":  # a table of contents
        return False
    try:
        check_regular(path)
        with path.open("rb") as file:
            return is_known(file.read(HEAD))
    except OSError:
        return False


def left_out(files: Iterable[Path]) -> Counter[str]:
    """Files that are images, but of a suffix that is not read: how many of each."""
    suffixes = (Path(path.name.lower().removesuffix(".gz")).suffix for path in files)
    return Counter(suffix for suffix in suffixes if suffix in OTHER_SUFFIXES)


def visible_files(folder: Path) -> list[Path]:
    """A folder's own files, sorted, before those of its sub-folders. Each real folder is walked once.

    Links are followed after all else, so that circles of them end, and folders are found under their own names.
    """
    found: list[Path] = []
    seen: set[tuple[int, int]] = set()
    waiting, linked = [folder], False
    while waiting:
        for parent, folders, files in os.walk(waiting.pop(0), onerror=_refuse):
            about = Path(parent).stat()
            if (about.st_dev, about.st_ino) in seen:
                folders.clear()
                continue
            seen.add((about.st_dev, about.st_ino))
            folders[:] = sorted(f for f in folders if not f.startswith((".", "__MACOSX")))
            waiting += [path for f in folders if (path := Path(parent, f)).is_symlink()]
            found += [Path(parent, f) for f in sorted(files) if not f.startswith(".")]
        linked = linked or bool(waiting)
    return sorted(found, key=_place) if linked else found


def _refuse(error: OSError) -> None:
    raise UserError(f"{error.filename}: cannot be read ({error.strerror}); allow it, or move it elsewhere")


def _place(path: Path) -> list[tuple[bool, str]]:
    """Orders files as walking does that follows links at once: those of a folder before its sub-folders."""
    *folders, name = path.parts
    return [*((True, folder) for folder in folders), (False, name)]


def is_image(file_name: str) -> bool:
    """Whether a file is a visible image, by its name."""
    return Path(file_name).suffix.lower() in SUFFIXES and not file_name.startswith(".")


def open_rgb(file: Path | BinaryIO) -> Image.Image:
    """Decode to RGB: EXIF rotation applied, transparency on white, deep grey scaled by the range of its format."""
    with Image.open(file, formats=PILLOW) as image:
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
    check_regular(path)
    with path.open("rb") as file:
        return header_size(file)


def size_if_readable(path: Path) -> tuple[int, int] | None:
    """The same; None of what cannot be read."""
    try:
        return upright_size(path)
    except UNREADABLE:
        return None


def header_size(file: BinaryIO) -> tuple[int, int]:
    """Height and width of an open file, as `upright_size` has them."""
    head = file.read(HEAD)
    file.seek(0)
    if is_dicom(head):
        return dicom.size(file)
    try:
        with Image.open(file, formats=PILLOW) as image:
            # Behind the pixels of a PNG there may be EXIF, too, for which Pillow would decode them all.
            known = image.getexif() if image.format != "PNG" or "exif" in image.info else {}
            turned = known.get(ExifTags.Base.Orientation, 1) in (5, 6, 7, 8)
            width, height = image.size
            if isinstance(image, TiffImagePlugin.TiffImageFile):  # some versions of Pillow have turned its size already
                width, height = image.tag_v2[ExifTags.Base.ImageWidth], image.tag_v2[ExifTags.Base.ImageLength]
            return (width, height) if turned else (height, width)
    except UnidentifiedImageError:
        if not is_tiff(head):
            raise
    file.seek(0)
    return tiff.size(file)


def load_square(file: Path | BinaryIO, height: int, width: int) -> np.ndarray:
    """Decode and resize to (height, width, 3) uint8. The aspect ratio is not kept, as usual in this field."""
    return np.asarray(resized(open_rgb(file), height, width))


def resized(image: Image.Image, height: int, width: int) -> Image.Image:
    """Resized by Pillow's bilinear filter, columns before rows: left to itself, Pillow 13 begins with either.

    Each pass rounds to integers, so that their order matters; exported models resize in this one.
    """
    for size in ((width, image.height), (width, height)):
        if image.size != size:
            image = image.resize(size, Image.Resampling.BILINEAR)
    return image

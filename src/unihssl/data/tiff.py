"""TIFF of more than 8 bits or of any number of channels: with Pillow where it can, else tifffile (`scientific`)."""

import io
import logging
from typing import Any, BinaryIO

import numpy as np
from PIL import Image, TiffImagePlugin, UnidentifiedImageError

from unihssl.data.image_format import check_size
from unihssl.data.values import Values, float_type, type_limits, upright, with_alpha
from unihssl.errors import UserError

BITS, PHOTOMETRIC, ORIENTATION, SAMPLES, SAMPLE_FORMAT, NO_DATA = 258, 262, 274, 277, 339, 42113
MOST_SAMPLES = 4  # of a pixel, in what Pillow reads: red, green, blue and alpha, or CMYK
UNSIGNED, SIGNED = 1, 2
WHITE_IS_ZERO = 0
PREMULTIPLIED, ALPHA = 1, (1, 2)  # kinds of extra samples
# Codecs that unpack to the size of a tile, whatever is in it: none, LZW, ZIP, PackBits, LZMA, Zstandard.
CODECS = {1, 5, 8, 32946, 32773, 34925, 50000}
NEEDED = "reading this TIFF needs tifffile and imagecodecs: pip install 'unihssl[scientific]'"


def size(file: BinaryIO) -> tuple[int, int]:
    """Upright height and width of a TIFF that Pillow cannot read, from the header alone."""
    with _open(file) as opened:
        page = opened.pages[0]
        turned = _tag(page, ORIENTATION, 1) in (5, 6, 7, 8)
        return (page.imagewidth, page.imagelength) if turned else (page.imagelength, page.imagewidth)


def read_tiff(content: bytes, channels: int) -> Values | None:
    """The image's numbers; None for 8-bit grey or colours, which Pillow reads as they are.

    Pages of one size are channels.
    """
    try:
        with Image.open(io.BytesIO(content), formats=["TIFF"]) as image:
            assert isinstance(image, TiffImagePlugin.TiffImageFile)
            samples = image.tag_v2.get(SAMPLES, 1)
            if max(image.tag_v2.get(BITS, (1,))) <= 8 and channels in (1, 3) and samples <= MOST_SAMPLES:
                return None
            grey = _grey(image) if image.n_frames == 1 and channels in (1, 3) else None
    except (UnidentifiedImageError, SyntaxError):
        grey = None
    return grey or _with_tifffile(content, channels)


def is_deep(file: BinaryIO) -> bool:
    """Whether a TIFF may have more than 8 bits, from the header alone."""
    try:
        with Image.open(file, formats=["TIFF"]) as image:
            assert isinstance(image, TiffImagePlugin.TiffImageFile)
            return bool(max(image.tag_v2.get(BITS, (1,))) > 8)
    except (UnidentifiedImageError, SyntaxError):
        return True


def _grey(image: TiffImagePlugin.TiffImageFile) -> Values | None:
    """Grey that Pillow reads without loss."""
    sample = image.tag_v2.get(SAMPLE_FORMAT, (UNSIGNED,))[0]
    bits = image.tag_v2[BITS][0]
    if image.mode not in ("I;16", "I;16B", "F") and not (image.mode == "I" and sample == SIGNED):
        return None
    if bits not in (16, 32, 64):  # such as 12, which Pillow has put into 16
        return None
    check_size(image.height, image.width)
    pixels = np.asarray(image)
    kind = {UNSIGNED: "uint", SIGNED: "int"}.get(sample, "float")
    dtype = np.dtype(f"{kind}{bits}")
    orientation, photometric = image.tag_v2.get(ORIENTATION, 1), image.tag_v2.get(PHOTOMETRIC)
    inverted = photometric == WHITE_IS_ZERO
    if (nodata := image.tag_v2.get(NO_DATA)) is not None:
        pixels = np.where(pixels == float(str(nodata).strip("\0 ")), np.nan, pixels).astype(float_type(pixels))
    return Values(upright(pixels[..., None], orientation), f"TIFF {dtype}", type_limits(dtype), inverted=inverted)


def _with_tifffile(content: bytes, channels: int) -> Values:
    with _open(io.BytesIO(content)) as opened:
        series = opened.series[0]
        page = series.keyframe
        pages = int(np.prod(series.shape)) // (page.imagelength * page.imagewidth)
        check_size(page.imagelength, page.imagewidth, pages)
        if int(page.compression) not in CODECS:
            name = getattr(page.compression, "name", page.compression)
            raise ValueError(
                f"a TIFF of this kind compressed with {name} is not read: save it uncompressed or with ZIP"
            )
        try:
            pixels = series.asarray()
        except Exception as error:  # of any of the decoders that tifffile finds
            if "imagecodecs" in str(error):
                raise UserError(NEEDED) from None
            raise ValueError(str(error) or "damaged") from None
        nodata = page.nodata if "GDAL_NODATA" in page.tags else None
        orientation, inverted = _tag(page, ORIENTATION, 1), _tag(page, PHOTOMETRIC, 1) == WHITE_IS_ZERO
        has_alpha = bool(page.extrasamples) and page.extrasamples[-1] in ALPHA
        premultiplied = has_alpha and page.extrasamples[-1] == PREMULTIPLIED
        pixels = _channels_last(pixels, series.axes)
    if pixels.dtype.kind not in "uif":
        raise ValueError(f"its numbers are {pixels.dtype}, not integers or floats")
    kind = "" if pixels.dtype == np.uint8 else f"TIFF {pixels.dtype}"
    limits = type_limits(pixels.dtype)
    if nodata is not None:
        pixels = np.where(pixels == nodata, np.nan, pixels).astype(float_type(pixels))
    pixels, alpha = with_alpha(upright(pixels, orientation), channels if has_alpha else 0, limits)
    if alpha is not None and premultiplied:
        pixels = np.minimum(pixels / np.maximum(alpha, 1e-6)[..., None], limits[1]).astype(float_type(pixels))
    return Values(pixels, kind, limits, inverted=inverted, alpha=alpha)


def _channels_last(pixels: np.ndarray, axes: str) -> np.ndarray:
    pixels = pixels.reshape([n for n, axis in zip(pixels.shape, axes, strict=True) if n > 1 or axis in "YX"])
    if pixels.ndim == 2:
        return pixels[..., None]
    if pixels.ndim != 3:
        raise ValueError(f"it has the axes {axes}, {pixels.shape}: one image of several channels is expected")
    return pixels if axes.endswith("S") else np.moveaxis(pixels, 0, 2)


def _open(file: BinaryIO) -> Any:
    tifffile = _tifffile()
    try:
        return tifffile.TiffFile(file)
    except Exception as error:  # a damaged file makes the reader stumble in any way it likes
        raise ValueError(f"not a readable TIFF ({error})") from None


def _tifffile() -> Any:
    try:
        import tifffile
    except ImportError:
        raise UserError(NEEDED) from None
    logging.getLogger("tifffile").setLevel(logging.CRITICAL)  # it logs what it also raises
    return tifffile


def _tag(page: Any, code: int, default: int) -> int:
    found = page.tags.get(code)
    return default if found is None else int(found.value)

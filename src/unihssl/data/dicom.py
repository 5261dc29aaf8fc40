"""DICOM images, read with pydicom (extra `medical`)."""

import io
from typing import Any, BinaryIO

import numpy as np

from unihssl.data.image_format import NoDecoderError, check_size, codestream_size
from unihssl.data.values import Range, Values, float_type, type_limits
from unihssl.errors import UserError

DEFLATED = "1.2.840.10008.1.2.1.99"  # a transfer syntax that may unpack to any size
RLE = "1.2.840.10008.1.2.5"
NOT_DESCRIBED = (AttributeError, TypeError, NotImplementedError)  # what pydicom raises for entries that are damaged


def size(file: BinaryIO) -> tuple[int, int]:
    """Height and width, from the header alone."""
    about = _read(file, stop_before_pixels=True)
    try:
        return int(about.get("Rows", 0)), int(about.get("Columns", 0))
    except NOT_DESCRIBED as error:
        raise ValueError(f"a DICOM file whose image is not described in full ({error})") from None


def read_dicom(content: bytes) -> Values:
    """The image in the units of its modality (such as Hounsfield units), with the window that the file names.

    Files of several frames are refused: one file is one sample.
    """
    about = _read(io.BytesIO(content))
    try:
        return _values(about)
    except NOT_DESCRIBED as error:
        raise ValueError(f"a DICOM file whose image is not described in full ({error})") from None


def _values(about: Any) -> Values:
    frames = int(about.get("NumberOfFrames") or 1)
    if frames > 1:
        raise ValueError("it has several frames: save each as a file of its own")
    if "PixelData" not in about and "FloatPixelData" not in about:
        raise ValueError(f"a DICOM file without an image ({about.get('Modality', 'of no modality')})")
    check_size(int(about.Rows), int(about.Columns), int(about.get("SamplesPerPixel", 1)))
    _check_compressed(about)
    pixels = _stored(about)
    bits = int(about.get("BitsStored", 8 * pixels.dtype.itemsize))
    inverted = about.get("PhotometricInterpretation") == "MONOCHROME1"
    is_palette = about.get("PhotometricInterpretation") == "PALETTE COLOR"
    if pixels.dtype == np.uint8 and (is_palette or (bits == 8 and not _rescaled(about))):
        return Values(pixels, inverted=inverted)
    signed = pixels.dtype.kind == "i"
    limits = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1) if signed else (0.0, 2.0**bits - 1)
    limits = type_limits(pixels.dtype) if pixels.dtype.kind == "f" else limits
    slope, intercept = _rescale(about)
    ends = sorted(end * slope + intercept for end in limits)
    if "ModalityLUTSequence" in about:
        values = np.asarray(_pydicom().pixels.apply_modality_lut(pixels, about)).astype(float_type(pixels))
    else:
        values = (pixels * slope + intercept).astype(float_type(pixels))
    padding, limit = about.get("PixelPaddingValue"), about.get("PixelPaddingRangeLimit")
    if isinstance(padding, int):
        first, last = sorted((padding, limit if isinstance(limit, int) else padding))
        values[(pixels >= first) & (pixels <= last)] = np.nan
    kind = f"DICOM {about.get('Modality') or 'image'}"
    return Values(values, kind, (ends[0], ends[1]), _window(about), inverted)


def _check_compressed(about: Any) -> None:
    """Refuse a compressed image of another size than the header says: decoders would make room for it."""
    syntax = about.file_meta.get("TransferSyntaxUID") if hasattr(about, "file_meta") else None
    if syntax is None or not syntax.is_transfer_syntax or not syntax.is_compressed or "PixelData" not in about:
        return
    try:
        frame = _pydicom().encaps.get_frame(about.PixelData, 0, number_of_frames=1)
    except Exception as error:
        raise ValueError(f"its compressed image cannot be found ({error})") from None
    height, width = int(about.Rows), int(about.Columns)
    if syntax == RLE:
        values = height * width * int(about.get("SamplesPerPixel", 1)) * int(about.get("BitsAllocated", 8)) // 8
        if len(frame) <= 2 * values + 128:
            return
    elif (found := codestream_size(frame)) == (height, width):
        return
    elif found is None:
        raise ValueError(f"its transfer syntax, {syntax.name}, is not read: save it uncompressed")
    raise ValueError(f"its compressed image is not of the {width}x{height} that its header says")


def _read(file: BinaryIO, **options: bool) -> Any:
    pydicom = _pydicom()
    try:
        pydicom.filereader.read_preamble(file, force=False)
        about = pydicom.filereader._read_file_meta_info(file)
        if about.get("TransferSyntaxUID") == DEFLATED:
            raise ValueError("deflated, which may unpack to any size: save it uncompressed")
        file.seek(0)
        return pydicom.dcmread(file, **options)
    except Exception as error:  # a damaged file makes the reader stumble in any way it likes
        raise ValueError(f"not a readable DICOM file ({error})") from None


def _pydicom() -> Any:
    try:
        import pydicom
        import pydicom.encaps
        import pydicom.pixels
    except ImportError:
        raise UserError("reading DICOM files needs pydicom: pip install 'unihssl[medical]'") from None
    return pydicom


def _stored(about: Any) -> np.ndarray:
    """The pixels (H, W, C) as stored; YCbCr and palettes become RGB."""
    pixels = _pydicom().pixels
    try:
        found = np.asarray(pixels.pixel_array(about))
        if about.PhotometricInterpretation == "PALETTE COLOR":
            found = np.asarray(pixels.apply_color_lut(found, about))
            found = (found >> 8).astype(np.uint8) if found.dtype == np.uint16 else found
    except Exception as error:  # of any of the decoders that pydicom finds
        syntax = about.file_meta.get("TransferSyntaxUID", "none") if hasattr(about, "file_meta") else "none"
        name = getattr(syntax, "name", syntax)
        kind = NoDecoderError if "missing dependencies" in str(error) else ValueError
        raise kind(
            f"its pixels cannot be decoded (transfer syntax {name}): {' '.join(str(error).split())[:160]}; install "
            "python-gdcm or pylibjpeg-libjpeg, or save it uncompressed"
        ) from None
    return found[..., None] if found.ndim == 2 else found


def _rescaled(about: Any) -> bool:
    return _rescale(about) != (1, 0) or "ModalityLUTSequence" in about


def _rescale(about: Any) -> tuple[float, float]:
    """Slope and intercept from stored values to those of the modality."""
    slope, intercept = (_first(about.get(name)) for name in ("RescaleSlope", "RescaleIntercept"))
    return 1.0 if slope is None else slope, intercept or 0.0


def _window(about: Any) -> Range | None:
    """The first window of the file: PS3.3 C.11.2.1.2."""
    centre, width = (_first(about.get(name)) for name in ("WindowCenter", "WindowWidth"))
    if centre is None or width is None or width <= 1:
        return None
    return centre - 0.5 - (width - 1) / 2, centre - 0.5 + (width - 1) / 2


def _first(value: Any) -> float | None:
    """A number, or the first of several."""
    many = isinstance(value, list | tuple) or type(value).__name__ == "MultiValue"
    value = (value[0] if len(value) else None) if many else value
    return None if value in (None, "") else float(value)

"""What an image file is, by its first bytes, and what may be opened at all."""

import struct

from PIL import Image

HEAD = 132  # bytes that tell the formats apart
PNG = b"\x89PNG\r\n\x1a\n"
PILLOW = ("JPEG", "PNG", "WEBP", "BMP", "TIFF")  # Pillow knows more, some of which start other programs
FRAME_HEADERS = {*range(0xC0, 0xD0), 0xF7} - {0xC4, 0xC8, 0xCC}  # markers of JPEG with its size; 0xF7 is JPEG-LS
TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")  # the last two are BigTIFF
# Numbers in an image of more than 8 bits: read whole by every thread, it takes 4 or 8 bytes for each while scaled.
MOST_VALUES = Image.MAX_IMAGE_PIXELS or 89_478_485


class NoDecoderError(ValueError):
    """No installed package decodes an image: another one may, so that nothing is remembered of it."""


def is_dicom(head: bytes) -> bool:
    return head[128:132] == b"DICM"


def is_bare_dicom(head: bytes) -> bool:
    """Whether it begins with an element of DICOM, of group 2 or 8, as data sets do that lack the preamble of a file."""
    return head[:2] in (b"\2\0", b"\x08\0") and head[3:4] == b"\0"


def is_tiff(head: bytes) -> bool:
    return head[:4] in TIFF


def is_known(head: bytes) -> bool:
    """Whether it is surely of a format that we read; a BMP has too short a mark to be sure."""
    jpeg, webp = head[:3] == b"\xff\xd8\xff", head[:4] == b"RIFF" and head[8:12] == b"WEBP"
    return jpeg or webp or head[:8] == PNG or is_tiff(head) or is_dicom(head)


def is_deep_png(head: bytes) -> bool:
    """Whether it is a PNG of 16 bits a channel."""
    return head[:8] == PNG and head[24:25] == b"\x10"


def codestream_size(data: bytes) -> tuple[int, int] | None:
    """Height and width that a JPEG, JPEG-LS or JPEG 2000 image itself says; None for anything else."""
    at = 0
    while data[4:8] == b"jP  " and data[at + 4 : at + 8] != b"jp2c" and at + 8 <= len(data):  # boxes before the image
        at += max(8, int.from_bytes(data[at : at + 4], "big"))
    if data[4:8] == b"jP  ":
        data = data[at + (16 if data[at : at + 4] == b"\0\0\0\1" else 8) :]
    if data[:4] == b"\xff\x4f\xff\x51" and len(data) >= 24:  # JPEG 2000
        width, height, left, top = struct.unpack_from(">4I", data, 8)
        return height - top, width - left
    at = 2
    while data[:2] == b"\xff\xd8" and at + 9 <= len(data):
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if marker in FRAME_HEADERS:
            return int.from_bytes(data[at + 5 : at + 7], "big"), int.from_bytes(data[at + 7 : at + 9], "big")
        at += 1 if marker == 0xFF else 2 + length  # bytes of 255 may fill up
    return None


def check_size(height: int, width: int, channels: int = 1) -> None:
    """ValueError if an image of more than 8 bits is too large to be decoded."""
    if (values := height * width * channels) > MOST_VALUES:
        raise ValueError(
            f"{width}x{height}x{channels} are {values:,} values, more than {MOST_VALUES:,}: make it smaller"
        )

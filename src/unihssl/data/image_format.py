"""What an image file is, by its first bytes, and what may be opened at all."""

from PIL import Image

HEAD = 132  # bytes that tell the formats apart
PNG = b"\x89PNG\r\n\x1a\n"
PILLOW = ("JPEG", "PNG", "WEBP", "BMP", "TIFF")  # Pillow knows more, some of which start other programs
TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")  # the last two are BigTIFF
# Numbers in an image of more than 8 bits: it is read whole by every thread, and takes 4 bytes for each while scaled.
MOST_VALUES = Image.MAX_IMAGE_PIXELS or 89_478_485


def is_dicom(head: bytes) -> bool:
    return head[128:132] == b"DICM"


def is_tiff(head: bytes) -> bool:
    return head[:4] in TIFF


def is_known(head: bytes) -> bool:
    """Whether it is surely of a format that we read; a BMP has too short a mark to be sure."""
    jpeg, webp = head[:3] == b"\xff\xd8\xff", head[:4] == b"RIFF" and head[8:12] == b"WEBP"
    return jpeg or webp or head[:8] == PNG or is_tiff(head) or is_dicom(head)


def is_deep_png(head: bytes) -> bool:
    """Whether it is a PNG of 16 bits a channel."""
    return head[:8] == PNG and head[24:25] == b"\x10"


def check_size(height: int, width: int, channels: int = 1) -> None:
    """ValueError if an image of more than 8 bits is too large to be decoded."""
    if (values := height * width * channels) > MOST_VALUES:
        raise ValueError(
            f"{width}x{height}x{channels} are {values:,} values, more than {MOST_VALUES:,}: make it smaller"
        )

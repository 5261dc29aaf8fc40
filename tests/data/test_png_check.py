"""A deep PNG is checked whole before libpng sees it, and what is whole comes through unchanged."""

import io
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.io import ImageReadMode, decode_png

from unihssl.data.png_check import _chunk, checked_png

HEAD = b"\x89PNG\r\n\x1a\n"


def png(rows: bytes, width: int = 5, height: int = 4, colour: int = 0, interlaced: int = 0, more: bytes = b"") -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 16, colour, 0, 0, interlaced)
    return HEAD + _chunk(b"IHDR", header) + more + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


def decoded(content: bytes) -> np.ndarray:
    return decode_png(torch.frombuffer(bytearray(content), dtype=torch.uint8), ImageReadMode.UNCHANGED).numpy()


@pytest.mark.parametrize("colour", [0, 2, 4, 6])
@pytest.mark.parametrize("filtered", [0, 1, 2, 3, 4])
def test_whole_images_are_what_they_were(colour, filtered):
    stride = 2 * 5 * {0: 1, 2: 3, 4: 2, 6: 4}[colour]
    rows = b"".join(bytes([filtered]) + np.random.default_rng(i).bytes(stride) for i in range(4))
    content = png(rows, colour=colour, more=_chunk(b"tEXt", b"Comment\0x"))
    assert np.array_equal(decoded(checked_png(content)), decoded(content))
    assert b"tEXt" not in checked_png(content)


def test_interlaced_images_are_what_they_were():
    sizes = [(1, 1), (1, 1), (2, 1), (1, 2), (3, 1), (2, 3), (5, 2)]  # columns and rows of 5 x 5 in the seven passes
    rows = b"".join(b"\0" + bytes(range(2 * columns)) for columns, count in sizes for _ in range(count))
    content = png(rows, height=5, interlaced=1)
    assert np.array_equal(decoded(checked_png(content)), decoded(content))


def test_large_images_are_checked_in_pieces():
    pixels = np.random.default_rng(0).integers(0, 2**16, (700, 900), dtype=np.uint16)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=1)
    assert np.array_equal(decoded(checked_png(buffer.getvalue()))[0], pixels)


ROW = b"\0" + bytes(10)
DAMAGED = {
    "unknown filter": png(ROW * 3 + b"\5" + bytes(10)),
    "rows missing": png(ROW * 3),
    "rows too many": png(ROW * 5),
    "no rows": HEAD + png(ROW * 4)[8:33] + _chunk(b"IEND", b""),
    "cut": png(ROW * 4)[:-20],
    "no end": png(ROW * 4)[:-12],
    "crc": png(ROW * 4)[:-14] + b"\0\0" + png(ROW * 4)[-12:],
    "no width": png(b"", width=0),
    "wide": png(ROW * 4, width=2**31 - 1),
    "colour": png(ROW * 4, colour=3),
    "no header": HEAD + _chunk(b"IEND", b""),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
def test_damaged_images_never_reach_libpng(content):
    with pytest.raises(ValueError, match="broken PNG file"):
        checked_png(content)

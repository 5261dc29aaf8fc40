"""A PNG of 16 bits a channel, checked whole before torchvision decodes it, which crashes on what libpng refuses."""

import struct
import zlib
from collections.abc import Iterator

import numpy as np

CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # by colour type
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
MOST_PIXELS = 1_000_000  # of a side, by libpng's own limit
PIECE = 2**20


def checked_png(content: bytes) -> bytes:
    """The same image without chunks that say nothing of its pixels; ValueError if anything in it is damaged."""
    chunks = list(_chunks(content))
    if [name for name, _ in chunks[:1]] != [b"IHDR"] or len(chunks[0][1]) != 13:
        raise ValueError("broken PNG file (no header)")
    width, height, depth, colour, compression, kind, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    sizes = 0 < width <= MOST_PIXELS and 0 < height <= MOST_PIXELS
    if not sizes or depth != 16 or colour not in CHANNELS or compression or kind or interlaced > 1:
        raise ValueError("broken PNG file (a header that means nothing)")
    passes = list(_passes(width, height, 2 * CHANNELS[colour], bool(interlaced)))
    _check_rows(b"".join(data for name, data in chunks if name == b"IDAT"), passes)
    transparent = {0: 2, 2: 6}.get(colour)
    kept = [(b"IHDR", chunks[0][1])]
    kept += [chunk for chunk in chunks if chunk[0] == b"tRNS" and len(chunk[1]) == transparent][:1]
    kept += [chunk for chunk in chunks if chunk[0] == b"IDAT"]
    return content[:8] + b"".join(_chunk(*chunk) for chunk in (*kept, (b"IEND", b"")))


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Name and data of each chunk up to the end of the image."""
    at = 8
    while at + 12 <= len(content):
        length, name = struct.unpack_from(">I4s", content, at)
        data = content[at + 8 : at + 8 + length]
        end = at + 8 + length
        if end + 4 > len(content) or struct.unpack_from(">I", content, end)[0] != zlib.crc32(data, zlib.crc32(name)):
            raise ValueError("broken PNG file (a chunk that is cut short or damaged)")
        if name == b"IEND":
            return
        yield name, data
        at = end + 4
    raise ValueError("broken PNG file (cut short)")


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(name)))


def _passes(width: int, height: int, pixel: int, interlaced: bool) -> Iterator[tuple[int, int]]:
    """Rows, and bytes of a row with its filter, of each pass over the image."""
    for x, y, across, down in ADAM7 if interlaced else ((0, 0, 1, 1),):
        columns, rows = -(-(width - x) // across), -(-(height - y) // down)
        if columns > 0 and rows > 0:
            yield rows, 1 + columns * pixel


def _check_rows(packed: bytes, passes: list[tuple[int, int]]) -> None:
    """Unpack in pieces, keeping none: every row must be there, and begin with a filter that exists."""
    inflate, rest = zlib.decompressobj(), packed
    try:
        for rows, stride in passes:
            done, total = 0, rows * stride
            while done < total:
                piece = inflate.decompress(rest, min(PIECE, total - done))
                rest = inflate.unconsumed_tail
                if not piece:
                    raise ValueError("broken PNG file (rows are missing)")
                if (np.frombuffer(piece, np.uint8)[-done % stride :: stride] > 4).any():
                    raise ValueError("broken PNG file (an unknown filter)")
                done += len(piece)
        if inflate.decompress(rest, 1) or not inflate.eof:
            raise ValueError("broken PNG file (more rows than it should have)")
    except zlib.error as error:
        raise ValueError(f"broken PNG file ({error})") from None

"""Reading, hashing and decoding many image files at once, in bounded memory."""

import hashlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import UnidentifiedImageError

from unihssl.data.image_format import NoDecoderError
from unihssl.data.images import UNREADABLE
from unihssl.data.machine import cpus
from unihssl.data.rendering import Rendering, render
from unihssl.data.values import WrongChannelsError
from unihssl.errors import UserError
from unihssl.interrupt import held_interrupts
from unihssl.plain_files import MOST_IMAGE, read_bytes

# Raise it whenever the same file would give other pixels. Not raised when columns came before rows in every version of
# Pillow: pixels are those that versions before 13 gave, and 13 differed by one grey level in some tall images.
FORMAT = 1
NOT_READ = bytes(32)  # the digest of a file that could not be read at all

Progress = Callable[[int, int], None]
Put = Callable[[int, np.ndarray], None]
Part = TypeVar("Part")


@dataclass(frozen=True)
class Decoded:
    """The readable images (N, H, W, C) in order, why the others are unreadable (by row), and the content key."""

    pixels: np.ndarray
    unreadable: dict[int, str]
    key: str
    found: bool = False  # taken from the cache, not decoded now
    unscaled: Counter[str] = field(default_factory=Counter)  # decoded now: deep images without a window, by kind


def spread(work: Callable[[range], Part], total: int, progress: Progress | None = None) -> list[Part]:
    """Call `work` on ranges that cover `total` rows, in parallel; returns the results in order.

    Threads were as fast as processes on photos (Pillow releases the GIL), and need no main guard in users' scripts.
    """
    step = min(max(total // 500, 1), 256)
    parts = [range(first, min(first + step, total)) for first in range(0, total, step)]
    done: list[Part] = []
    with warnings.catch_warnings(), held_interrupts() as check, ThreadPoolExecutor(cpus()) as pool:
        warnings.filterwarnings("ignore", module="pydicom")  # on every tag that is not to the letter of the standard
        try:
            for rows, result in zip(parts, pool.map(work, parts), strict=True):
                check()
                done.append(result)
                if progress:
                    progress(rows.stop, total)
        except BaseException:
            pool.shutdown(cancel_futures=True)  # without it, an error or Ctrl-C would wait for the rest
            raise
    return done


def content_key(digests: Iterable[bytes], how: Rendering) -> str:
    """A key for decoded images: depends on the files' contents, their order, the rendering and this decoder."""
    key = hashlib.sha256(f"images {FORMAT} {how.text}\n".encode())
    for digest in digests:
        key.update(digest)
    return key.hexdigest()


def array_key(samples: np.ndarray) -> str:
    """A key for samples that came as an array."""
    key = hashlib.sha256(f"array {samples.dtype.str} {samples.shape}\n".encode())
    key.update(np.ascontiguousarray(samples).data)
    return key.hexdigest()


def hash_files(paths: Sequence[Path], progress: Progress | None = None) -> list[bytes]:
    """A digest of each file's bytes."""

    def work(rows: range) -> list[bytes]:
        return [_read(paths[row])[1] for row in rows]

    return [digest for part in spread(work, len(paths), progress) for digest in part]


def decode_files(
    paths: Sequence[Path], how: Rendering, put: Put, progress: Progress | None = None
) -> tuple[list[bytes], dict[int, str], Counter[str]]:
    """Read, hash and decode each file, and `put(row, pixels)`.

    Returns the digests, why some are unreadable, and how many deep images of which kinds had no window.
    """
    unscaled: list[str] = []

    def work(rows: range) -> list[tuple[bytes, str | None]]:
        return [decode(row) for row in rows]

    def decode(row: int) -> tuple[bytes, str | None]:
        content, digest = _read(paths[row])
        if isinstance(content, str):
            return digest, content
        try:
            pixels, kind = render(content, how)
        except WrongChannelsError as error:
            raise error.of(paths[row], trained=how.trained) from None
        except UserError as error:  # a package is missing
            raise UserError(f"{paths[row]}: {error}") from None
        except NoDecoderError as error:
            return NOT_READ, _reason(content, error)
        except UNREADABLE as error:
            return digest, _reason(content, error)
        if kind:
            unscaled.append(kind)
        put(row, pixels)  # not in the try block: a failed write is not an unreadable image
        return digest, None

    results = [result for part in spread(work, len(paths), progress) for result in part]
    digests, whys = [digest for digest, _ in results], enumerate(why for _, why in results)
    return digests, {row: why for row, why in whys if why is not None}, Counter(unscaled)


def decode_in_memory(paths: Sequence[Path], how: Rendering, progress: Progress | None = None) -> Decoded:
    """The files' images, without a cache."""
    pixels = np.empty((len(paths), *how.shape), dtype=np.uint8)
    digests, unreadable, unscaled = decode_files(paths, how, pixels.__setitem__, progress)
    if unreadable:
        pixels = np.delete(pixels, list(unreadable), axis=0)
    return Decoded(pixels, unreadable, content_key(digests, how), unscaled=unscaled)


def _read(path: Path) -> tuple[bytes | str, bytes]:
    """The file's bytes, or why it cannot be read, and their digest."""
    try:
        content = read_bytes(path, MOST_IMAGE)
    except OSError as error:
        return error.strerror or str(error), NOT_READ
    except ValueError as error:  # a path that no file can have
        return str(error), NOT_READ
    return content, hashlib.blake2b(content, digest_size=len(NOT_READ)).digest()


def _reason(content: bytes, error: BaseException) -> str:
    if not content:
        return "the file is empty"
    return "not an image" if isinstance(error, UnidentifiedImageError) else str(error)

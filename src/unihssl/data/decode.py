"""Reading, hashing and decoding many image files at once, in bounded memory."""

import hashlib
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from PIL import UnidentifiedImageError

from unihssl.data.images import UNREADABLE, load_square
from unihssl.data.machine import cpus
from unihssl.interrupt import held_interrupts

FORMAT = 1  # to be raised whenever the same file would come out as other pixels
NOT_READ = bytes(32)  # stands for the digest of a file that could not be read at all

Progress = Callable[[int, int], None]
Put = Callable[[int, np.ndarray], None]
Part = TypeVar("Part")
Result = tuple[bytes, str | None]  # a file's digest, and why it is no image, if so


@dataclass(frozen=True)
class Decoded:
    """The readable images (N, H, W, 3) in order, what was wrong with the others by row, and the content key."""

    pixels: np.ndarray
    unreadable: dict[int, str]
    key: str
    found: bool = False  # in the cache, rather than decoded now


def spread(work: Callable[[range], Part], total: int, progress: Progress | None = None) -> list[Part]:
    """`work` on ranges of rows, in parallel: a million rows are a few thousand tasks, not a million.

    Threads: on photos processes were no faster (Pillow lets go of the interpreter), and callers need no main guard.
    """
    step = min(max(total // 500, 1), 256)
    parts = [range(first, min(first + step, total)) for first in range(0, total, step)]
    done: list[Part] = []
    with held_interrupts() as check, ThreadPoolExecutor(cpus()) as pool:
        try:
            for rows, result in zip(parts, pool.map(work, parts), strict=True):
                check()
                done.append(result)
                if progress:
                    progress(rows.stop, total)
        except BaseException:
            pool.shutdown(cancel_futures=True)  # else a full disk or Ctrl-C would wait for all the rest
            raise
    return done


def content_key(digests: Iterable[bytes], size: tuple[int, int]) -> str:
    """Names what decoding gives: the files' contents in their order, the stored size and this decoder."""
    key = hashlib.sha256(f"images {FORMAT} {size[0]}x{size[1]}\n".encode())
    for digest in digests:
        key.update(digest)
    return key.hexdigest()


def array_key(samples: np.ndarray) -> str:
    """The like for samples that came as an array."""
    key = hashlib.sha256(f"array {samples.dtype.str} {samples.shape}\n".encode())
    key.update(np.ascontiguousarray(samples).data)
    return key.hexdigest()


def hash_files(paths: Sequence[Path], progress: Progress | None = None) -> list[bytes]:
    """A digest of each file's bytes."""

    def work(rows: range) -> list[bytes]:
        return [_read(paths[row])[1] for row in rows]

    return [digest for part in spread(work, len(paths), progress) for digest in part]


def decode_files(
    paths: Sequence[Path],
    size: tuple[int, int],
    put: Put,
    progress: Progress | None = None,
    known: Mapping[range, list[Result]] = MappingProxyType({}),
    note: Callable[[range, list[Result]], None] = lambda rows, results: None,
) -> tuple[list[bytes], dict[int, str]]:
    """Read each file once, hash it and `put` its pixels; returns the digests, and by row what was unreadable.

    Ranges whose results are `known` were put before; those of the others are given to `note`.
    """

    def work(rows: range) -> list[Result]:
        if rows in known:
            return known[rows]
        results = [one(row) for row in rows]
        note(rows, results)
        return results

    def one(row: int) -> Result:
        content, digest = _read(paths[row])
        if isinstance(content, str):
            return digest, content
        try:
            pixels = load_square(io.BytesIO(content), *size)
        except UNREADABLE as error:
            return digest, _reason(content, error)
        put(row, pixels)  # outside: an error in writing is not one of the image
        return digest, None

    results = [result for part in spread(work, len(paths), progress) for result in part]
    return [digest for digest, _ in results], {row: why for row, (_, why) in enumerate(results) if why is not None}


def decode_in_memory(paths: Sequence[Path], size: tuple[int, int], progress: Progress | None = None) -> Decoded:
    pixels = np.empty((len(paths), *size, 3), dtype=np.uint8)
    digests, unreadable = decode_files(paths, size, pixels.__setitem__, progress)
    if unreadable:
        pixels = np.delete(pixels, list(unreadable), axis=0)
    return Decoded(pixels, unreadable, content_key(digests, size))


def _read(path: Path) -> tuple[bytes | str, bytes]:
    """The file's bytes, or why there are none, and their digest."""
    try:
        content = path.read_bytes()
    except OSError as error:
        return error.strerror or str(error), NOT_READ
    except ValueError as error:  # a path no file can have
        return str(error), NOT_READ
    return content, hashlib.blake2b(content, digest_size=len(NOT_READ)).digest()


def _reason(content: bytes, error: BaseException) -> str:
    if not content:
        return "the file is empty"
    return "not an image" if isinstance(error, UnidentifiedImageError) else str(error)

"""Whether files are still those seen before, without reading them."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from unihssl.data.decode import FORMAT, spread
from unihssl.data.paths import FullPaths


def files_signature(paths: Sequence[Path], size: tuple[int, int]) -> str:
    """Changes when a file is renamed, replaced or written to; costs no more than asking for its size and time."""
    full_path = FullPaths()
    return _digest(size, spread(lambda rows: _stamps(paths, rows, full_path), len(paths)))


def rows_signature(paths: Sequence[Path], size: tuple[int, int], rows: range) -> str:
    """The same of some rows, in this thread alone: they are few."""
    return _digest(size, [_stamps(paths, rows, FullPaths())])


def _stamps(paths: Sequence[Path], rows: range, full_path: FullPaths) -> bytes:
    return "".join(_stamp(paths[row], full_path) for row in rows).encode(errors="surrogateescape")


def _stamp(path: Path, full_path: FullPaths) -> str:
    try:
        full, about = full_path(path), path.stat()
    except (OSError, ValueError):
        return f"{path}\0missing\n"
    return f"{full}\0{about.st_size} {about.st_mtime_ns}\n"


def _digest(size: tuple[int, int], parts: Iterable[bytes]) -> str:
    signature = hashlib.sha256(f"{FORMAT} {size[0]}x{size[1]}\n".encode())
    for part in parts:
        signature.update(part)
    return signature.hexdigest()

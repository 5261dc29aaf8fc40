"""Whether files are still those seen before, without reading them."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from unihssl.data.decode import FORMAT, spread
from unihssl.data.paths import FullPaths


def files_signature(paths: Sequence[Path], size: tuple[int, int]) -> str:
    """Changes when a file is renamed, replaced or written to; costs no more than asking for its size and time."""
    full_path = FullPaths()

    def stamp(path: Path) -> str:
        try:
            full, about = full_path(path), path.stat()
        except (OSError, ValueError):
            return f"{path}\0missing\n"
        return f"{full}\0{about.st_size} {about.st_mtime_ns}\n"

    def work(rows: range) -> bytes:
        return "".join(stamp(paths[row]) for row in rows).encode(errors="surrogateescape")

    signature = hashlib.sha256(f"{FORMAT} {size[0]}x{size[1]}\n".encode())
    for part in spread(work, len(paths)):
        signature.update(part)
    return signature.hexdigest()

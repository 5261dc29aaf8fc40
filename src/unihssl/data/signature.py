"""Whether files are still those seen before, without reading them."""

import hashlib
import stat
from collections.abc import Sequence
from pathlib import Path

from unihssl.data.decode import FORMAT, spread


def files_signature(paths: Sequence[Path], size: tuple[int, int]) -> str:
    """Changes when a file is renamed, replaced or written to; costs no more than asking for its size and time."""
    folders: dict[str, str] = {}

    def stamp(path: Path) -> str:
        try:
            about = path.lstat()
            if stat.S_ISLNK(about.st_mode):
                full, about = str(path.resolve()), path.stat()
            else:
                folder, slash, name = str(path).rpartition("/")
                if folder + slash not in folders:  # to resolve each path by itself takes five times as long
                    folders[folder + slash] = str(path.parent.resolve())
                full = f"{folders[folder + slash]}/{name}"
        except (OSError, ValueError):
            return f"{path}\0missing\n"
        return f"{full}\0{about.st_size} {about.st_mtime_ns}\n"

    def work(rows: range) -> bytes:
        return "".join(stamp(paths[row]) for row in rows).encode(errors="surrogateescape")

    signature = hashlib.sha256(f"{FORMAT} {size[0]}x{size[1]}\n".encode())
    for part in spread(work, len(paths)):
        signature.update(part)
    return signature.hexdigest()

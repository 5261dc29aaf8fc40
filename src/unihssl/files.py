"""Atomic writes, lock files and full paths."""

import errno
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from safetensors import SafetensorError

from unihssl.errors import UserError

OPEN_FILE = re.compile(r"/dev/(stdout|stderr|fd/\d+)$|/proc/(self|\d+)/fd/\d+$")
PATIENCE_SECONDS = 1.0  # how long to wait for a lock before saying so


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; the file takes its real name once it is complete and on the disk.

    A link keeps pointing where it does: its target is replaced. A pipe or device is written to and stays what it is,
    and so is an open file of this process, such as /dev/stdout, whatever is behind it.
    """
    target, special = path, bool(OPEN_FILE.match(str(path.absolute())))
    with suppress(OSError):  # what cannot be looked at cannot be written either, which is said below
        special = special or (path.exists() and not path.is_file() and not path.is_dir())
        target = path.resolve() if path.is_symlink() and not special else path
    if special:
        with _copied_into(target) as temporary:
            yield temporary
        return
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        temporary.touch()
        mode = stat.S_IMODE(temporary.stat().st_mode)  # as the umask has it; some libraries create files as 0600
        yield temporary
        flush(temporary)
        temporary.chmod(mode)
        temporary.replace(target)
    except (OSError, RuntimeError, SafetensorError) as error:  # the last two: torch and safetensors on a full disk
        raise write_error(path, error) from error
    finally:
        with suppress(OSError):  # the folder itself may be missing, read-only or a file
            temporary.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Wait until a file's content is on the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


@contextmanager
def _copied_into(target: Path) -> Iterator[Path]:
    """Yield a temporary path whose content is written to a pipe or device at the end."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder) / "content"
            with (Path(folder) / "content").open("rb") as content, target.open("ab") as file:  # behind what is there
                shutil.copyfileobj(content, file)
    except OSError as error:
        raise write_error(target, error) from error


def make_folder(path: Path) -> None:
    """Create a folder and its parents; a `UserError` if that fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be made a folder ({error.strerror})") from None


def write_error(path: Path, error: Exception) -> UserError:
    """The error to raise when `path` could not be written."""
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if full or not isinstance(error, OSError):
        return UserError(f"{path}: could not be written, is the disk full? What was there before is intact ({error})")
    return UserError(f"{path}: could not be written ({error.strerror})")


def write_text(path: Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")  # of paths that are not UTF-8


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def lock_if_possible(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[bool]:
    """Hold a lock file while entered, once no other process holds it. Yields whether it is held.

    Where nothing can be written or the file system knows no locks, the caller continues without. `waiting` is called
    if another process holds the lock for more than a moment.
    """
    lock = FileLock(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=PATIENCE_SECONDS)
        except Timeout:
            if waiting:
                waiting()
            lock.acquire(timeout=-1)
    except (OSError, NotImplementedError):
        pass
    try:
        yield lock.is_locked
    finally:
        lock.release()


class FullPaths:
    """Resolves the paths of many files, links followed.

    Remembers the folders it has resolved: resolving each path by itself takes five times as long.
    """

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def __call__(self, path: Path) -> str:
        """The full path; OSError if there is no such file."""
        if stat.S_ISLNK(path.lstat().st_mode):
            return str(path.resolve())
        folder, slash, name = str(path).rpartition(os.sep)
        if folder + slash not in self._folders:
            self._folders[folder + slash] = str(path.parent.resolve())
        return f"{self._folders[folder + slash]}{os.sep}{name}"

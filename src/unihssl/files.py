"""Writing files so that nothing is ever half there."""

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from safetensors import SafetensorError

from unihssl.errors import UserError


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary path to write to; it takes the real name only once it is complete and on the disk."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except (OSError, RuntimeError, SafetensorError) as error:  # torch and safetensors wrap a full disk in their own
        raise write_error(path, error) from error
    finally:
        with suppress(OSError):  # the folder itself may be missing, read-only or a file
            temporary.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be made a folder ({error.strerror})") from None


def write_error(path: Path, error: Exception) -> UserError:
    """What to tell the user when `path` could not be written."""
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if full or not isinstance(error, OSError):
        return UserError(f"{path}: could not be written, is the disk full? What was there before is intact ({error})")
    return UserError(f"{path}: could not be written ({error.strerror})")


def write_text(path: Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: not found; is {path.parent} a run directory?") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from None


class Lock:
    """Waits until no other process holds the file, unless told not to.

    Where files cannot be locked, or another holds it and we do not wait, goes on without (`held` False).
    """

    def __init__(self, path: Path, wait: bool = True) -> None:
        self.path, self.wait, self.held = path, wait, False
        self._file: IO[str] | None = None

    def __enter__(self) -> "Lock":
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a")
            fcntl.flock(self._file, fcntl.LOCK_EX if self.wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.held = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file:
            self._file.close()

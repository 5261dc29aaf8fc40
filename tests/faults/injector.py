"""The fault layer: counts every change a process makes to the files below a folder, and makes one of them fail.

A point is an open for writing, a write, fsync, truncation, rename, removal, new folder or lock. `Faulty` runs a command
with the functions of `os`, `open` and the libraries that write by themselves replaced. It is sent to a child process.
"""
# ruff: noqa: PTH109, PTH115, PTH116, PTH118
# pathlib calls the functions that are replaced here.

import _pyio
import builtins
import errno
import fcntl
import io
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ACTIONS = ("kill", "half", "ENOSPC", "EACCES")  # half: killed after half of a write
SIGNALS = ("SIGINT", "SIGTERM")  # ask a run to stop, which goes on at this point
GROWS = ("open", "write", "mkdir", "reserve")  # what a full disk refuses
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True)
class Fault:
    """What happens at which point; points are counted from 1, and at 0 nothing does."""

    point: int = 0
    action: str = ""


@dataclass(frozen=True)
class Faulty:
    """The main function of a process that has one fault below `root`, and lists its points in the file `log`."""

    root: str
    fault: Fault
    log: str
    main: Callable[[], None] | None = None

    def __call__(self) -> None:
        from unihssl import cli

        Injector(self).install()
        (self.main or cli.main)()


class Injector:
    def __init__(self, about: Faulty) -> None:
        self.root, self.fault = os.path.realpath(about.root) + os.sep, about.fault
        self.log = os.open(about.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.count, self.full, self.lock = 0, False, threading.Lock()
        self.write_log = os.write

    def install(self) -> None:
        for name, kind in {"mkdir": "mkdir", "rmdir": "rmdir", "chmod": "chmod"}.items():
            self._replace(os, name, kind)
        for name in ("unlink", "remove"):
            self._replace(os, name, "unlink")
        for name in ("rename", "replace", "link", "symlink"):
            self._replace(os, name, "rename", path_at=1)
        for module, name, kind in ((os, "fsync", "fsync"), (os, "ftruncate", "truncate"), (fcntl, "flock", "lock")):
            self._replace(module, name, kind)
        self._replace(os, "posix_fallocate", "reserve")
        self._replace_open()
        self._replace_writes()
        self._replace_libraries()

    def reached(self, kind: str, path: Any, half: Callable[[], object] | None = None) -> None:
        """Count a point and, if it is its turn, fail: by a kill, or an OSError. `half` does half of a write."""
        place = self._place(path)
        if not place.startswith(self.root):
            return
        with self.lock:
            self.count += 1
            own = self.count == self.fault.point
            self.write_log(self.log, f"{kind} {place.removeprefix(self.root)}\n".encode())
        if own and self.fault.action in SIGNALS:
            os.kill(os.getpid(), signal.Signals[self.fault.action])
            return
        if own and self.fault.action in ("half", "ENOSPC") and half:
            half()
        if own and self.fault.action in ("kill", "half"):
            os.kill(os.getpid(), signal.SIGKILL)
        self.full |= own and self.fault.action == "ENOSPC"
        if self.full and (own or kind in GROWS):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), place)
        if own:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), place)

    def _place(self, path: Any, folder: int | None = None) -> str:
        if isinstance(path, int):
            return os.readlink(f"/proc/self/fd/{path}").removesuffix(" (deleted)")
        base = os.getcwd() if folder is None else os.readlink(f"/proc/self/fd/{folder}")
        return os.path.normpath(os.path.join(base, os.fsdecode(path)))

    def _replace(self, module: Any, name: str, kind: str, path_at: int = 0) -> None:
        real = getattr(module, name)

        def function(*args: Any, **options: Any) -> Any:
            folder = options.get("dir_fd")
            self.reached(kind, args[path_at] if folder is None else self._place(args[path_at], folder))
            return real(*args, **options)

        setattr(module, name, function)

    def _replace_open(self) -> None:
        real_os_open, real_open = os.open, io.open

        def os_open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            if flags & WRITES:
                self.reached("open", path if dir_fd is None else self._place(path, dir_fd))
            return real_os_open(path, flags, mode, dir_fd=dir_fd)

        def open_file(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            """Files to write are Python's own implementation in Python, which calls os.open and os.write."""
            ours = set(mode) & set("wax+") and not isinstance(file, int) and self._place(file).startswith(self.root)
            return (_pyio.open if ours else real_open)(file, mode, *args, **options)  # type: ignore[operator]

        os.open, io.open, builtins.open = os_open, open_file, open_file

    def _replace_writes(self) -> None:
        real_write, real_pwrite = os.write, os.pwrite

        def write(descriptor: int, content: Any) -> int:
            self.reached("write", descriptor, lambda: real_write(descriptor, bytes(content)[: len(content) // 2]))
            return real_write(descriptor, content)

        def pwrite(descriptor: int, content: Any, offset: int) -> int:
            half = bytes(content)[: len(content) // 2]
            self.reached("write", descriptor, lambda: real_pwrite(descriptor, half, offset))
            return real_pwrite(descriptor, content, offset)

        os.write, os.pwrite = write, pwrite

    def _replace_libraries(self) -> None:
        """torch and safetensors write files without Python; their errors are their own, too."""
        import safetensors.torch
        import torch

        def replaced(real: Callable[..., None], error: type[Exception]) -> Callable[..., None]:
            def save(content: Any, path: Any, *args: Any, **options: Any) -> None:
                def half() -> None:
                    real(content, path, *args, **options)
                    os.truncate(path, os.stat(path).st_size // 2)

                if isinstance(path, str | os.PathLike):
                    try:
                        self.reached("write", path, half)
                    except OSError as problem:
                        raise error(f"file write failed: {problem.strerror}") from None
                real(content, path, *args, **options)

            return save

        torch.save = replaced(torch.save, RuntimeError)
        module = safetensors.torch
        module.save_file = replaced(module.save_file, sys.modules["safetensors"].SafetensorError)

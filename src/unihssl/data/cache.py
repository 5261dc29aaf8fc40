"""Decoded images on disk, so that a data set is decoded once, whatever its files are called and wherever they lie.

    stores/<key>/samples.npy    the readable images, (N, H, W, 3) uint8: a plain .npy
    stores/<key>/store.json     how many files there were, and what was wrong with those left out
    index/<signature>           the key of the files that had these paths, sizes and times
    building/<signature>/       a store under way, or what a stopped process left of one to go on with
    locks/<signature>           held while building

A warm start only asks for the files' sizes and times. Files that were moved or touched are read and hashed, not
decoded. A file whose content changed while its path, size and modification time stayed the same goes unnoticed. A
build that was stopped goes on where it was, if it is asked for again within a week.
"""

import json
import math
import os
import re
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from unihssl.data.decode import NOT_READ, Decoded, Progress, content_key, decode_files, hash_files
from unihssl.data.journal import Journal
from unihssl.data.sample_file import SampleFile, begun, open_samples
from unihssl.data.signature import files_signature, rows_signature
from unihssl.files import Lock

SAMPLES, ABOUT, JOURNAL = "samples.npy", "store.json", "journal"
KEPT_SECONDS = 7 * 24 * 3600  # how long a stopped build waits to be gone on with
PATIENCE_SECONDS = 1.0  # to wait for another process without a word
KEY = re.compile("[0-9a-f]{64}")
DAMAGED = (FileNotFoundError, ValueError, LookupError, TypeError, AttributeError)  # a file is gone, cut or garbled
Size = tuple[int, int]


def cache_folder(wish: str) -> Path | None:
    """Where to keep decoded images, from the `cache` setting; None for nowhere."""
    place = wish or os.environ.get("UNIHSSL_CACHE", "")
    if place == "none":
        return None
    try:
        if place:
            return Path(place).expanduser()
        home = os.environ.get("XDG_CACHE_HOME", "")
        return (Path(home) if home else Path.home() / ".cache") / "unihssl"
    except RuntimeError:  # a user without a home
        return None


class Cache:
    """A folder of decoded stores. Any number of processes may use it at once; deleting it loses only time."""

    def __init__(self, folder: Path) -> None:
        self.stores, self.index, self.building, self.locks = self.folders = tuple(
            folder / name for name in ("stores", "index", "building", "locks")
        )

    def decoded(
        self, paths: Sequence[Path], size: Size, progress: Progress | None = None, waiting: Progress | None = None
    ) -> Decoded:
        """The files' images, decoded now unless they are here. OSError: they are not, and cannot be kept here.

        `waiting` is told if another process is at it, and takes more than a moment.
        """
        signature = files_signature(paths, size)
        found = self._by_signature(signature, len(paths), size)
        if found:
            return found
        with self._lock(signature, partial(waiting, 0, len(paths)) if waiting else None) as lock:
            found = self._by_signature(signature, len(paths), size) or self._by_content(
                signature, paths, size, progress
            )
            if found:
                return found
            for folder in self.folders:
                folder.mkdir(parents=True, exist_ok=True)
            self._sweep(signature if lock.held else "")
            return self._build(self._place(signature, lock.held), signature, paths, size, progress)

    @contextmanager
    def _lock(self, signature: str, tell: Callable[[], None] | None) -> Iterator[Lock]:
        """Another process may be at it: wait, to take what it made."""
        timer = threading.Timer(PATIENCE_SECONDS, tell or (lambda: None))
        timer.daemon = True
        timer.start()
        try:
            with Lock(self.locks / signature) as lock:
                timer.cancel()
                yield lock
        finally:
            timer.cancel()

    def _by_signature(self, signature: str, files: int, size: Size) -> Decoded | None:
        try:
            key = (self.index / signature).read_text(encoding="ascii")
        except (OSError, ValueError):
            return None
        return self._open(key, files, size)

    def _by_content(
        self, signature: str, paths: Sequence[Path], size: Size, progress: Progress | None
    ) -> Decoded | None:
        """Read and hash the files, but only if there is a store that could be theirs."""
        if not any(self._open(entry.name, len(paths), size) for entry in _entries(self.stores)):
            return None
        digests = hash_files(paths, progress)
        found = self._open(content_key(digests, size), len(paths), size)
        if found:
            with suppress(OSError):  # a cache that may only be read still serves
                self._remember(signature, found.key, digests, paths, size)
        return found

    def _open(self, key: str, files: int, size: Size) -> Decoded | None:
        """The store of this key if it is of so many files at this size. A damaged one is removed."""
        folder = self.stores / key
        if not KEY.fullmatch(key) or not folder.is_dir():
            return None
        try:
            about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
            if (about["files"], about["size"]) != (files, list(size)):
                return None
            unreadable = {int(row): str(why) for row, why in about["unreadable"].items()}
            pixels = open_samples(folder / SAMPLES, (files - len(unreadable), *size, 3))
        except DAMAGED:
            shutil.rmtree(folder, ignore_errors=True)
            return None
        except OSError:
            return None
        return Decoded(pixels, unreadable, key, found=True)

    def _build(
        self, folder: Path, signature: str, paths: Sequence[Path], size: Size, progress: Progress | None
    ) -> Decoded:
        """Decode into a folder that takes its name once it is whole and on the disk. If stopped, it may go on later."""
        folder.mkdir(exist_ok=True)
        goes_on = False
        try:
            digests, unreadable = self._decode(folder, paths, size, progress)
            key = content_key(digests, size)
            if len(unreadable) == len(paths):
                return Decoded(np.empty((0, *size, 3), dtype=np.uint8), unreadable, key)
            about = {"files": len(paths), "size": size, "unreadable": unreadable}
            _write(folder / ABOUT, json.dumps(about, indent=2, ensure_ascii=False))
            try:
                folder.rename(self.stores / key)
                _onto_disk(self.stores)
            except OSError:
                if not self._open(key, len(paths), size):  # else another process was first, and its store serves
                    raise
            built = self._open(key, len(paths), size)
            if not built:
                raise FileNotFoundError(f"{self.stores / key} vanished")
            self._remember(signature, key, digests, paths, size)
            return replace(built, found=False)
        except KeyboardInterrupt:
            goes_on = folder.name == signature and (folder / JOURNAL).exists()
            raise
        finally:
            if not goes_on:
                shutil.rmtree(folder, ignore_errors=True)

    def _decode(
        self, folder: Path, paths: Sequence[Path], size: Size, progress: Progress | None
    ) -> tuple[list[bytes], dict[int, str]]:
        """The samples' file, but for what a stopped build has put there; digests, and by row what was unreadable."""

        shape = len(paths), *size, 3
        if not begun(folder / SAMPLES, shape):  # first of all: it must never speak of a file that came after it
            (folder / JOURNAL).unlink(missing_ok=True)
            _onto_disk(folder)
        with SampleFile(folder / SAMPLES, shape, go_on=True) as samples:
            journal = Journal(folder / JOURNAL, partial(rows_signature, paths, size), samples.sync)
            found = decode_files(paths, size, samples.put, progress, journal.read(), journal.note)
            journal.path.unlink(missing_ok=True)  # rows move from here on
            _onto_disk(folder)
            samples.finish(without=found[1])
        return found

    def _remember(self, signature: str, key: str, digests: list[bytes], paths: Sequence[Path], size: Size) -> None:
        """Note the signature, unless a file changed meanwhile, or could not be read: that may mend unseen."""
        if NOT_READ in digests or files_signature(paths, size) != signature:
            return
        entry = self._own(signature)
        _write(entry, key)
        entry.replace(self.index / signature)

    def _own(self, signature: str) -> Path:
        """A name for something under way that no other process has."""
        return self.building / f"{signature}.{uuid.uuid4().hex}"

    def _place(self, signature: str, held: bool) -> Path:
        """Where to build: where a stopped build was, if no other process can be there."""
        return self.building / signature if held else self._own(signature)

    def _sweep(self, mine: str) -> None:
        """Remove what killed processes have left and none will go on with: its lock is ours, or nobody's."""
        for entry in _entries(self.building):
            signature = entry.name.partition(".")[0]
            if entry.name == mine or _age(entry / JOURNAL) < KEPT_SECONDS:
                continue
            with Lock(self.locks / signature, wait=False) as lock:
                if signature == mine or lock.held:
                    shutil.rmtree(entry, ignore_errors=True)
                    with suppress(OSError):
                        entry.unlink()


def _age(path: Path) -> float:
    """Seconds since a file was written to; without end if there is none."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return math.inf


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _onto_disk(folder: Path) -> None:
    """A new name is safe from a power cut only once its folder is written."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)

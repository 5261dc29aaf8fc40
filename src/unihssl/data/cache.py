"""A cache of decoded images on disk. A data set is decoded once, even if its files are moved or renamed later.

    stores/<key>/samples.npy    the readable images, (N, H, W, C) uint8: a plain .npy
    stores/<key>/checksums.npy  a CRC-32 of each of them (N,) uint32; stores of 0.1.0 have none
    stores/<key>/store.json     how many files there were, and why some were left out
    index/<signature>           the key for files of these paths, sizes and times
    surveys/<signature>.*       the values of images of more than 8 bits: see `data.survey`
    building/<signature>.*      a store being built
    locks/<signature>           held while building

The key is a hash of the files' contents, the signature one of their paths, sizes and modification times. A warm start
computes the signature only. Files that were moved or touched are read and hashed, but not decoded again. A file whose
content changed while path, size and modification time stayed the same goes unnoticed.
"""

import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from filelock import FileLock

from unihssl.data.decode import FORMAT, NOT_READ, Decoded, Progress, content_key, decode_files, hash_files, spread
from unihssl.data.rendering import Rendering
from unihssl.data.sample_file import SampleFile, damaged_rows, open_samples
from unihssl.files import FullPaths, lock_if_possible
from unihssl.plain_files import BAD_NUMPY

SAMPLES, CHECKSUMS, DESCRIPTION = "samples.npy", "checksums.npy", "store.json"
KEY = re.compile("[0-9a-f]{64}")
# What reading a bad store raises.
DAMAGED = (FileNotFoundError, *BAD_NUMPY)


def cache_folder(setting: str) -> Path | None:
    """The folder for decoded images, from the `cache` setting; None for no cache."""
    folder = setting or os.environ.get("UNIHSSL_CACHE", "")
    if folder == "none":
        return None
    try:
        if folder:
            return Path(folder).expanduser()
        base = os.environ.get("XDG_CACHE_HOME", "")
        return (Path(base) if base else Path.home() / ".cache") / "unihssl"
    except RuntimeError:  # a user without a home folder
        return None


class Cache:
    """A folder of decoded images. Any number of processes may use it at once; deleting it loses only time."""

    def __init__(self, folder: Path) -> None:
        self.stores, self.index, self.building, self.locks = self.folders = tuple(
            folder / name for name in ("stores", "index", "building", "locks")
        )

    def decoded(
        self, paths: Sequence[Path], how: Rendering, progress: Progress | None = None, waiting: Progress | None = None
    ) -> Decoded:
        """The files' images, decoded now unless they are cached.

        `waiting` is called if another process has been decoding them for more than a moment. Raises OSError if they
        cannot be cached.
        """
        signature = files_signature(paths, how)
        found = self._by_signature(signature, len(paths), how)
        if found:
            return found
        with lock_if_possible(self.locks / signature, waiting and partial(waiting, 0, len(paths))) as held:
            found = self._by_signature(signature, len(paths), how)  # another process may have built it meanwhile
            found = found or self._by_content(signature, paths, how, progress)
            if found:
                return found
            for folder in self.folders:
                folder.mkdir(parents=True, exist_ok=True)
            self._sweep(signature if held else "")
            return self._build(signature, paths, how, progress)

    def known_key(self, paths: Sequence[Path], how: Rendering) -> str | None:
        """The content key of the files, if they are as they were when they were cached."""
        return self._indexed(files_signature(paths, how))

    def has(self, key: str) -> bool:
        """Whether there is a store of this content key."""
        return bool(KEY.fullmatch(key)) and (self.stores / key).is_dir()

    def _indexed(self, signature: str) -> str | None:
        try:
            return (self.index / signature).read_text(encoding="ascii")
        except (OSError, ValueError):
            return None

    def _by_signature(self, signature: str, files: int, how: Rendering) -> Decoded | None:
        key = self._indexed(signature)
        return self._open(key, files, how, verify=True) if key else None

    def _by_content(
        self, signature: str, paths: Sequence[Path], how: Rendering, progress: Progress | None
    ) -> Decoded | None:
        """Find the store by hashing the files, unless no store has their number and size."""
        if not any(self._open(entry.name, len(paths), how) for entry in _entries(self.stores)):
            return None
        digests = hash_files(paths, progress)
        found = self._open(content_key(digests, how), len(paths), how, verify=True)
        if found:
            with suppress(OSError):  # a read-only cache still serves
                self._remember(signature, found.key, digests, paths, how)
        return found

    def _open(self, key: str, files: int, how: Rendering, *, verify: bool = False) -> Decoded | None:
        """Open the store of this key if it holds this many files at this size. A damaged store is removed.

        `verify` looks at the samples, too: at all of a small store, at some of a large one.
        """
        folder = self.stores / key
        if not KEY.fullmatch(key) or not folder.is_dir():
            return None
        try:
            about = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
            if (about["files"], about["size"], about.get("channels", 3)) != (files, list(how.size), how.channels):
                return None
            unreadable = {int(row): str(why) for row, why in about["unreadable"].items()}
            pixels = open_samples(folder / SAMPLES, (files - len(unreadable), *how.shape))
            sums = folder / CHECKSUMS
            if verify and sums.exists() and damaged_rows(pixels, np.load(sums, allow_pickle=False)):
                raise ValueError("damaged")
        except DAMAGED:
            shutil.rmtree(folder, ignore_errors=True)
            return None
        except OSError:
            return None
        return Decoded(pixels, unreadable, key, found=True)

    def _build(self, signature: str, paths: Sequence[Path], how: Rendering, progress: Progress | None) -> Decoded:
        """Decode into a temporary folder, which takes its real name once it is complete and on the disk."""
        folder = self._temporary(signature)
        folder.mkdir()
        try:
            with SampleFile(folder / SAMPLES, (len(paths), *how.shape)) as samples:
                digests, unreadable, unscaled = decode_files(paths, how, samples.put, progress)
                samples.finish(without=unreadable)
                np.save(folder / CHECKSUMS, samples.checksums)
            key = content_key(digests, how)
            if len(unreadable) == len(paths):
                return Decoded(np.empty((0, *how.shape), dtype=np.uint8), unreadable, key)
            about = {"files": len(paths), "size": how.size, "unreadable": unreadable}
            about |= {} if how.channels == 3 else {"channels": how.channels}
            (folder / DESCRIPTION).write_text(json.dumps(about, indent=2, ensure_ascii=False), encoding="utf-8")
            try:
                folder.rename(self.stores / key)
            except OSError:
                if not self._open(key, len(paths), how):  # else another process was first, and its store serves
                    raise
            built = self._open(key, len(paths), how)
            if not built:
                raise FileNotFoundError(f"{self.stores / key} vanished")
            self._remember(signature, key, digests, paths, how)
            return replace(built, found=False, unscaled=unscaled)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _remember(self, signature: str, key: str, digests: list[bytes], paths: Sequence[Path], how: Rendering) -> None:
        """Add the signature to the index, unless a file changed meanwhile, or could not be read and may be later."""
        if NOT_READ in digests or files_signature(paths, how) != signature:
            return
        entry = self._temporary(signature)
        entry.write_text(key, encoding="ascii")
        entry.replace(self.index / signature)

    def _temporary(self, signature: str) -> Path:
        """A path for unfinished work that no other process has."""
        return self.building / f"{signature}.{uuid.uuid4().hex}"

    def _sweep(self, own: str) -> None:
        """Remove the unfinished work of killed processes. Work in progress is locked; we hold the lock of `own`."""
        for entry in _entries(self.building):
            signature = entry.name.partition(".")[0]
            lock = nullcontext() if signature == own else FileLock(self.locks / signature, timeout=0)
            with suppress(OSError, NotImplementedError), lock:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def files_signature(paths: Sequence[Path], how: Rendering) -> str:
    """Changes when a file is renamed, replaced or written to. Reads only sizes and times, no contents."""
    full_path = FullPaths()

    def stamps(rows: range) -> bytes:
        return "".join(_stamp(paths[row], full_path) for row in rows).encode(errors="surrogateescape")

    signature = hashlib.sha256(f"{FORMAT} {how.text}\n".encode())
    for part in spread(stamps, len(paths)):
        signature.update(part)
    return signature.hexdigest()


def _stamp(path: Path, full_path: FullPaths) -> str:
    try:
        full, about = full_path(path), path.stat()
    except (OSError, ValueError):
        return f"{path}\0missing\n"
    return f"{full}\0{about.st_size} {about.st_mtime_ns}\n"


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []

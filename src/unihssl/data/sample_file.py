"""One .npy file of samples, written a row at a time by many threads and read through a memory map."""

import io
import math
import os
import zlib
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from unihssl.errors import UserError

CHECKED_BYTES = 2**28  # of a store, when it is opened: 0.14 s at 1.9 GB/s
Shape = tuple[int, ...]


class SampleFile:
    """A .npy file of uint8 samples (N, ...) being written.

    Space is reserved first, and rows are written, not mapped: a full disk is then an OSError, never a SIGBUS.
    """

    def __init__(self, path: Path, shape: Shape) -> None:
        self.shape, self.row_bytes = shape, math.prod(shape[1:])
        self.header = _header(shape)
        self.checksums = np.zeros(shape[0], dtype=np.uint32)  # of each row
        self.file = path.open("w+b", buffering=0)
        self.descriptor = self.file.fileno()
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self.descriptor, 0, self._offset(shape[0]))
            self._write(self.header, 0)
        except BaseException:
            self.file.close()
            raise

    def __enter__(self) -> "SampleFile":
        return self

    def __exit__(self, *exception: object) -> None:
        self.file.close()

    def put(self, row: int, sample: np.ndarray) -> None:
        """Write one row; threads may do so at once."""
        content = np.ascontiguousarray(sample).data.cast("B")
        self.checksums[row] = zlib.crc32(content)
        self._write(content, self._offset(row))

    def finish(self, without: Collection[int]) -> None:
        """Drop the rows `without`, which were never written, and flush everything to the disk."""
        kept = [row for row in range(self.shape[0]) if row not in without]
        for new, old in enumerate(kept):
            if new != old:
                self._write(os.pread(self.descriptor, self.row_bytes, self._offset(old)), self._offset(new))
        self.checksums = self.checksums[kept]
        header = _header((len(kept), *self.shape[1:]))
        if len(header) != len(self.header):  # NumPy leaves room for the number of rows to change
            raise OSError("the header of the .npy file changed its length")
        self._write(header, 0)
        self.file.truncate(self._offset(len(kept)))
        os.fsync(self.descriptor)

    def _offset(self, row: int) -> int:
        return len(self.header) + row * self.row_bytes

    def _write(self, content: bytes | memoryview, offset: int) -> None:
        view = memoryview(content)
        while view:
            written = os.pwrite(self.descriptor, view, offset)
            view, offset = view[written:], offset + written


class MappedFile:
    """A file under a memory map. Reading a part of the map that the file lost would end the process (SIGBUS)."""

    def __init__(self, mapped: np.memmap) -> None:
        self.path, self.size, self.inode = Path(str(mapped.filename)), mapped.offset + mapped.nbytes, 0
        with suppress(OSError):  # removed meanwhile: it cannot be cut any more
            self.inode = self.path.stat().st_ino

    def check(self) -> None:
        """A `UserError` if the file was cut. One that was removed or replaced stays readable through the map."""
        try:
            about = self.path.stat()
        except OSError:
            return
        if about.st_ino == self.inode and about.st_size < self.size:
            raise UserError(
                f"{self.path}: was cut from {self.size:,} to {about.st_size:,} bytes while it was in use; run it "
                "again: damaged samples in the cache are decoded anew"
            )


def open_samples(path: Path, shape: Shape) -> np.ndarray:
    """Map a finished file of samples; ValueError unless it is complete and of this shape.

    Read-only: a writable mapping would count against the machine's memory in full.
    """
    samples = npy.open_memmap(path, mode="r")
    size = len(_header(shape)) + math.prod(shape)
    if samples.shape != shape or samples.dtype != np.uint8 or path.stat().st_size != size:
        raise ValueError(f"{path}: not a complete file of samples of shape {shape}")
    return samples


def damaged_rows(samples: np.ndarray, checksums: np.ndarray, most_bytes: int = CHECKED_BYTES) -> bool:
    """Whether rows of a file are not as they were written. Of a large file some are looked at, spread over all."""
    if checksums.shape != samples.shape[:1] or checksums.dtype != np.uint32:
        return True
    step = -(-samples.nbytes // most_bytes) or 1
    return any(zlib.crc32(samples[row].data) != checksums[row] for row in range(0, len(samples), step))


def _header(shape: Shape) -> bytes:
    buffer = io.BytesIO()
    npy.write_array_header_1_0(buffer, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return buffer.getvalue()

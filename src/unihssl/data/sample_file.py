"""One .npy file of samples, written a row at a time by many threads and read through a memory map."""

import io
import math
import os
from collections.abc import Collection
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.lib import format as npy

Shape = tuple[int, ...]


def begun(path: Path, shape: Shape) -> bool:
    """Whether a file for samples of this shape is there, whole or under way."""
    return path.exists() and path.stat().st_size == len(_header(shape)) + math.prod(shape)


class SampleFile:
    """A .npy of uint8 samples under way.

    Its space is reserved first, and rows are written, not mapped: a full disk is an OSError, never a SIGBUS.
    With `go_on` the rows of a file that was begun before, if it is of this shape, are kept.
    """

    def __init__(self, path: Path, shape: Shape, *, reserve: bool = True, go_on: bool = False) -> None:
        self.shape, self.row = shape, math.prod(shape[1:])
        self.header = _header(shape)
        self.file = path.open("r+b" if go_on and begun(path, shape) else "w+b", buffering=0)
        self.number = self.file.fileno()
        try:
            if reserve and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self.number, 0, self._place(shape[0]))
            self._write(self.header, 0)
        except BaseException:
            self.file.close()
            raise

    def __enter__(self) -> "SampleFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()

    def put(self, row: int, sample: np.ndarray) -> None:
        self._write(np.ascontiguousarray(sample).data.cast("B"), self._place(row))

    def sync(self) -> None:
        """See the rows put so far onto the disk."""
        os.fsync(self.number)

    def finish(self, without: Collection[int]) -> None:
        """Close the gaps that rows never put have left, and see everything onto the disk."""
        kept = [row for row in range(self.shape[0]) if row not in without]
        for new, old in enumerate(kept):
            if new != old:
                self._write(os.pread(self.number, self.row, self._place(old)), self._place(new))
        header = _header((len(kept), *self.shape[1:]))
        if len(header) != len(self.header):  # NumPy leaves room for the number of rows to change
            raise OSError("the header of the .npy file changed its length")
        self._write(header, 0)
        self.file.truncate(self._place(len(kept)))
        self.sync()

    def _place(self, row: int) -> int:
        return len(self.header) + row * self.row

    def _write(self, content: bytes | memoryview, place: int) -> None:
        view = memoryview(content)
        while view:
            written = os.pwrite(self.number, view, place)
            view, place = view[written:], place + written


def open_samples(path: Path, shape: Shape) -> np.ndarray:
    """The samples of a finished file; ValueError unless it is whole and of this shape.

    Nothing is read yet. Read-only: a mapping that could be written counts against the machine's memory in full.
    """
    samples = npy.open_memmap(path, mode="r")
    size = len(_header(shape)) + math.prod(shape)
    if samples.shape != shape or samples.dtype != np.uint8 or path.stat().st_size != size:
        raise ValueError(f"{path}: not a whole file of samples of shape {shape}")
    return samples


def _header(shape: Shape) -> bytes:
    buffer = io.BytesIO()
    npy.write_array_header_1_0(buffer, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return buffer.getvalue()

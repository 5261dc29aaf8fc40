"""Which rows of a store under way are safely on the disk, so that a build that was stopped goes on from there."""

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from unihssl.data.decode import NOT_READ, Result

EVERY_SECONDS = 5.0  # what a stop may cost; a build that takes less keeps no journal


class Journal:
    """A line for each range of rows that is done: its files' digests, and why some were no images.

    Pixels are on the disk before the line that speaks of them. `stamp` tells of the sizes and times of a range's
    files: if they are others when the build goes on, the range does not count.
    """

    def __init__(self, path: Path, stamp: Callable[[range], str], sync: Callable[[], None]) -> None:
        self.path, self._stamp, self._sync = path, stamp, sync
        self._pending: dict[range, list[Result]] = {}
        self._turn = threading.Lock()
        self._written = time.monotonic()

    def read(self) -> dict[range, list[Result]]:
        """The ranges that need no work. Lines that a kill cut short are passed over."""
        if not self.path.exists():
            return {}
        done = {}
        for line in self.path.read_text(encoding="ascii", errors="replace").splitlines():
            try:
                start, stop, stamp, results = json.loads(line)
                rows, known = range(start, stop), [(bytes.fromhex(digest), why) for digest, why in results]
                counts = len(known) == len(rows) and stamp == self._stamp(rows)
            except (ValueError, TypeError, LookupError):
                continue
            if counts:
                done[rows] = known
        return done

    def note(self, rows: range, results: list[Result]) -> None:
        """A range was put, by any thread. One with a file that could not be read is tried again: that may mend."""
        if any(digest == NOT_READ for digest, _ in results):
            return
        with self._turn:
            self._pending[rows] = results
            if time.monotonic() - self._written >= EVERY_SECONDS:
                self._write()

    def _write(self) -> None:
        self._sync()
        with self.path.open("a", encoding="ascii") as file:
            for rows, results in self._pending.items():
                known = [(digest.hex(), why) for digest, why in results]
                file.write("\n" + json.dumps((rows.start, rows.stop, self._stamp(rows), known)))
            file.flush()
            os.fsync(file.fileno())
        self._pending.clear()
        self._written = time.monotonic()

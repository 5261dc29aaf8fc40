"""A CSV of images while somebody labels it: every answer is on the disk before the next image is shown."""

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from unihssl.csv_cells import safe_cell
from unihssl.data.label_file import read_label_rows
from unihssl.data.source import first_few
from unihssl.errors import Setting, UserError
from unihssl.files import atomic, write_error


class LabelSheet:
    """The rows of a CSV (`path,label` and any other columns), the row to label now, and what can be undone.

    >>> sheet = LabelSheet(Path("todo.csv"), ["cat", "dog"])
    >>> sheet.answer(0, "dog")
    >>> sheet.current, sheet.labeled
    (1, 1)
    """

    def __init__(self, path: Path, classes: Sequence[str]) -> None:
        self.path, self.classes = path, list(classes)
        self._content, self.rows = _content(path), read_label_rows(path)
        if long := [str(i) for i, row in enumerate(self.rows, start=2) if None in row]:
            raise UserError(f"{path}: line {first_few(long)} has more cells than there are columns; quote its commas")
        if unknown := sorted({row["label"] for row in self.rows} - {"", *self.classes}):
            raise UserError(
                f"{path}: has the labels {first_few(unknown)}, but the classes are {first_few(self.classes)}; correct "
                f"the file, or name all classes with {Setting('classes')}"
            )
        self.skipped: set[int] = set()
        self._history: list[int] = []
        self.current = self._next(-1)

    @property
    def labeled(self) -> int:
        return sum(bool(row["label"]) for row in self.rows)

    @property
    def last(self) -> str | None:
        """The last answer, which can be undone: empty for a skip, None if there was none."""
        return self.rows[self._history[-1]]["label"] if self._history else None

    @property
    def following(self) -> int | None:
        """The row that comes after the current one."""
        return None if self.current is None else self._next(self.current)

    def answer(self, row: int, label: str) -> None:
        """Label the current row and save; then the next is current."""
        self._expect(row)
        if label not in self.classes:
            raise UserError(f"{label}: no such class; the classes are {first_few(self.classes)}")
        self._save(row, label)
        self._advance(row)

    def skip(self, row: int) -> None:
        """Leave the current row without a label for now."""
        self._expect(row)
        self.skipped.add(row)
        self._advance(row)

    def undo(self) -> None:
        """Take back the last answer or skip: its row is current again, without a label."""
        if not self._history:
            raise UserError("there is nothing to undo")
        row = self._history[-1]
        if self.rows[row]["label"]:
            self._save(row, "")
        self._history.pop()
        self.skipped.discard(row)
        self.current = row

    def revisit(self) -> None:
        """Go through the skipped rows again."""
        self.skipped.clear()
        self.current = self._next(-1)

    def _expect(self, row: int) -> None:
        if row != self.current:
            raise UserError("this image was dealt with already, perhaps in another window")

    def _advance(self, row: int) -> None:
        self._history.append(row)
        self.current = self._next(row)

    def _next(self, after: int) -> int | None:
        """The next row to label, from the beginning again after the last; None if all are labeled or skipped."""
        order = [*range(after + 1, len(self.rows)), *range(max(after, 0))]
        return next((row for row in order if not self.rows[row]["label"] and row not in self.skipped), None)

    def _save(self, row: int, label: str) -> None:
        """Rewrite the file; if that fails, nothing has changed."""
        if _content(self.path) != self._content:
            raise UserError(f"{self.path}: another program has changed this file; stop labeling and start it again")
        rows = [*self.rows[:row], self.rows[row] | {"label": label}, *self.rows[row + 1 :]]
        with atomic(self.path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(row | {name: safe_cell(row[name]) for name in ("path", "label")} for row in rows)
        self.rows, self._content = rows, _content(self.path)


@contextmanager
def only_labeler(path: Path) -> Iterator[None]:
    """Refuse a second labeler of the same file."""
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(f"{path}: is being labeled already, by another process; stop that one first") from None
    except OSError as error:
        raise write_error(path, error) from error
    try:
        yield
    finally:
        lock.release()


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None

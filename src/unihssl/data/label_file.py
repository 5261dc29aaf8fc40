"""A CSV of images to label: written with empty labels, read back when somebody has filled them in."""

import csv
from collections.abc import Collection, Container, Iterable, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unihssl.csv_cells import plain_cell, safe_cell
from unihssl.data.domain import Domain, with_likely_names
from unihssl.data.readers import known_label
from unihssl.data.source import Label, csv_rows, first_few
from unihssl.errors import Setting, UserError
from unihssl.files import FullPaths, atomic, make_folder

COLUMNS = ("path", "label")
RUN = "run"  # a third column, of files that a run wrote


class LabelFile(NamedTuple):
    """The filled rows of a CSV, and whether rows before the last filled one were left empty."""

    path: Path
    images: list[str]
    labels: np.ndarray  # (N,) positions in the classes
    has_gaps: bool


def write_label_file(path: Path, domain: Domain, rows: np.ndarray, run: Path, labels: Sequence[Label] = ()) -> None:
    """Write `path,label,run` for rows of a domain; an existing file stays, as it may hold labels.

    `run` is that which the images were drawn for. `labels` are those of the first rows, the other labels are empty.
    """
    refuse_existing(path)
    make_folder(path.parent)
    names = domain.names if isinstance(domain.items, np.ndarray) else [str(Path(p).absolute()) for p in domain.items]
    with atomic(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        listed = zip_longest((names[row] for row in rows), labels, fillvalue="")
        cells = ((name, str(label), str(run.absolute())) for name, label in listed)
        csv.writer(file).writerows([(*COLUMNS, RUN), *(map(safe_cell, row) for row in cells)])


def refuse_existing(path: Path) -> None:
    if path.exists():
        raise UserError(f"{path} exists already, and may hold labels: choose another {Setting('out')}")


def read_label_file(path: Path, classes: Sequence[Label]) -> LabelFile:
    """Read the rows whose label is filled in; the labels must be names of `classes`."""
    rows = read_label_rows(path)
    filled = [i for i, row in enumerate(rows) if row["label"]]
    if not filled:
        raise UserError(f"{path}: none of its {len(rows)} images has a label yet; fill in the column label")
    labels = class_numbers([rows[i]["label"] for i in filled], classes, str(path))
    return LabelFile(path, [rows[i]["path"] for i in filled], labels, filled[-1] >= len(filled))


def read_label_rows(path: Path) -> list[dict[str, str]]:
    """All rows of a CSV of images to label, by column; `label` is empty where there is none yet."""
    rows = csv_rows(path, COLUMNS)
    if not rows:
        raise UserError(f"{path}: the CSV has no rows; expected the columns {','.join(COLUMNS)}")
    return [row | {"path": plain_cell(row["path"]), "label": plain_cell(row["label"].strip())} for row in rows]


def run_of(path: Path) -> Path | None:
    """The run that a CSV of images to label was written for, if it says."""
    run = plain_cell(read_label_rows(path)[0].get(RUN, ""))
    return Path(run) if run else None


def class_numbers(labels: Iterable[Any], classes: Sequence[Label], where: str) -> np.ndarray:
    """The positions (N,) of these labels in `classes`, compared as text."""
    number = {str(name): i for i, name in enumerate(classes)}
    texts = [_as_class(label, number) for label in labels]
    if unknown := set(texts) - set(number):
        names = with_likely_names(unknown, number)
        raise UserError(f"{where}: the model knows no class {names}; its classes are {first_few(list(number))}")
    return np.array([number[text] for text in texts], dtype=np.int64)


def _as_class(label: Any, classes: Container[str]) -> str:
    """A label as text: 3.0 is 3, where no class is called 3.0."""
    known = known_label(label)
    return str(label) if known is None or str(label) in classes else str(known)


def labeled_rows(file: LabelFile, domain: Domain) -> tuple[np.ndarray, np.ndarray]:
    """The rows (N,) of a domain that a file labels, each once, and their classes (N,)."""
    found = find_rows(domain, file.images, file.path.parent)
    if unknown := [image for image, row in zip(file.images, found, strict=True) if row < 0]:
        raise UserError(f"{file.path}: {len(unknown)} of its images are not in {domain.name} ({first_few(unknown)})")
    label_of: dict[int, int] = {}
    for row, label in zip(found, file.labels.tolist(), strict=True):
        if label_of.setdefault(row, label) != label:
            names = f"{domain.classes[label_of[row]]}, {domain.classes[label]}"
            raise UserError(f"{file.path}: {domain.names[row]} has two labels ({names}); keep one")
    return np.array(list(label_of)), np.array(list(label_of.values()))


def find_rows(domain: Domain, images: Collection[str], folder: Path) -> list[int]:
    """The row of each image, by its name in the domain or its path (from `folder`); -1 where there is none."""
    row_of = {name: row for row, name in enumerate(domain.names)}
    full_path = FullPaths()
    if not isinstance(domain.items, np.ndarray):
        for row, item in enumerate(domain.items):
            with suppress(OSError):  # decoding names missing files
                row_of.setdefault(full_path(Path(item)), row)

    def find(image: str) -> int:
        with suppress(OSError, ValueError):
            return row_of.get(full_path(folder / image), row_of.get(image, -1))
        return row_of.get(image, -1)

    return [find(image) for image in images]

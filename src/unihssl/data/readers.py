"""Reading what a user points at: a folder, a CSV or NumPy file, arrays, a domain of the catalog. Nothing is decoded."""

import csv
import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unihssl.config import Settings
from unihssl.data.images import SUFFIXES
from unihssl.data.listed import Listed
from unihssl.errors import UserError

UNKNOWN = -1  # the label of a sample whose class nobody has told us
Label = str | int


class Read(NamedTuple):
    """What a source holds: where it is, its samples and their names, labels (None if unknown) and groups."""

    name: str
    items: Sequence[Path] | np.ndarray
    names: list[str]
    labels: list[Label | None]
    groups: np.ndarray | None = None
    notes: tuple[str, ...] = ()


def find_images(folder: Path) -> list[Path]:
    """Every image below a folder in sorted order; hidden files and folders are passed over."""
    found = []
    for parent, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(f for f in folders if not f.startswith((".", "__MACOSX")))
        found += [Path(parent, f) for f in sorted(files) if _is_image(f)]
    return found


def _is_image(file_name: str) -> bool:
    return Path(file_name).suffix.lower() in SUFFIXES and not file_name.startswith(".")


def read(source: Any, settings: Settings, role: str) -> Read:
    if is_reference(source):
        from unihssl.data.catalog import from_reference  # it reads folders by the functions here

        source = from_reference(source)
    if isinstance(source, Listed):
        return _read_listed(source, settings)
    if not isinstance(source, str | Path):
        return _read_arrays(source, role)
    path = Path(source)
    if str(source) == "":
        raise UserError(f"no {role} data given: pass --{role} with a folder, a CSV or an .npz file")
    if not path.exists():
        raise UserError(f"{path}: no such file or folder (the {role} data)")
    if path.is_dir():
        return _read_folder(path, settings, role)
    if path.suffix.lower() == ".csv":
        return _read_csv(path, settings, role)
    if path.suffix.lower() in (".npz", ".npy"):
        return _read_numpy(path, role)
    raise UserError(f"{path}: expected a folder, a .csv, an .npz or an .npy file")


def is_reference(source: Any) -> bool:
    """Whether it names a domain of the catalog: `catalog:office-31/amazon@ROOT`."""
    return isinstance(source, str) and source.startswith("catalog:")


def _read_listed(source: Listed, settings: Settings) -> Read:
    notes, groups = source.notes, None
    if settings.group_by:
        if settings.group_by not in source.columns:
            known = some(list(source.columns)) or "none"
            raise UserError(f"{source.name}: cannot group_by={settings.group_by}; its columns are {known}")
        groups = _groups(source.columns[settings.group_by])
    else:
        notes += tuple(_shared(source, column) for column in source.columns)
    return Read(source.name, source.items, list(source.names), list(source.labels), groups, notes)


def _shared(source: Listed, column: str) -> str:
    counts = Counter(value for value in source.columns[column] if value)
    shared = sum(n for n in counts.values() if n > 1)
    return (
        f"{source.name}: {shared} of {len(source)} images share their {column} with another, and the split, by image "
        f"as in the paper, may test on what it trained on; --set group_by={column} keeps them on one side"
    )


def _groups(values: Sequence[str | None]) -> np.ndarray:
    """A sample whose group is not known is a group of its own."""
    return np.array([value or f"row {i}" for i, value in enumerate(values)])


def _read_folder(root: Path, settings: Settings, role: str) -> Read:
    if settings.group_by:
        raise UserError(f"{root}: group_by={settings.group_by} needs a CSV with that column, and this is a folder")
    paths = find_images(root)
    if not paths:
        raise UserError(f"{root}: no images found (looked for {', '.join(sorted(SUFFIXES))} in it and below)")
    names = [path.relative_to(root).as_posix() for path in paths]
    labels: list[Label | None] = [n.split("/")[0] if "/" in n else None for n in names]
    loose = [n for n, label in zip(names, labels, strict=True) if label is None]
    if role == "unlabeled" and (settings.unlabeled_layout == "flat" or (loose and settings.unlabeled_layout == "auto")):
        return Read(str(root), paths, names, [None] * len(names))
    if loose:
        raise UserError(
            f"{root}: {len(loose)} images lie outside any class folder ({some(loose)}); expected {root}/<class>/<image>"
        )
    empty = sorted(
        d.name
        for d in root.iterdir()
        if d.is_dir() and not d.name.startswith((".", "__")) and d.name not in set(labels)
    )
    if empty and role == "labeled":
        raise UserError(f"{root}: no images in class folder {some(empty)}; fill or remove it")
    return Read(str(root), paths, names, labels)


def _read_csv(path: Path, settings: Settings, role: str) -> Read:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            columns = reader.fieldnames or []
            needed = [settings.path_column, settings.group_by, settings.label_column if role == "labeled" else ""]
            for column in filter(None, needed):
                if column not in columns:
                    raise UserError(f"{path}: no column '{column}'; its columns are {', '.join(columns) or 'none'}")
            rows = list(reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: not a readable CSV file ({error})") from None
    if not rows:
        raise UserError(f"{path}: the CSV has no rows")
    names = [row[settings.path_column] or "" for row in rows]
    paths = [path.parent / name for name in names]
    gone = [name for name, file in zip(names, paths, strict=True) if not file.is_file()]
    if gone:
        raise UserError(f"{path}: {len(gone)} of {len(rows)} image files do not exist ({some(gone)})")
    labels: list[Label | None] = [(row.get(settings.label_column) or "").strip() or None for row in rows]
    groups = _groups([row[settings.group_by] for row in rows]) if settings.group_by else None
    return Read(str(path), paths, names, labels, groups)


def _read_numpy(path: Path, role: str) -> Read:
    try:
        loaded = np.load(path, allow_pickle=False)
        arrays = {"x": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"{path}: cannot be read as a NumPy file ({error})") from None
    if "x" not in arrays:
        raise UserError(f"{path}: expected arrays named 'x' and 'y', found {', '.join(arrays) or 'none'}")
    source = (arrays["x"], arrays["y"]) if "y" in arrays else arrays["x"]
    return _read_arrays(source, role)._replace(name=str(path))


def _read_arrays(source: Any, role: str) -> Read:
    x, y = source if isinstance(source, tuple | list) and len(source) == 2 else (source, None)
    x = np.asarray(x)
    if x.ndim not in (2, 3, 4) or len(x) == 0 or x.dtype.kind not in "uif":
        raise UserError(
            f"the {role} array has shape {x.shape} and type {x.dtype}; expected numbers of shape "
            "(N, features), (N, height, width) or (N, height, width, channels)"
        )
    if role == "labeled" and y is None:
        raise UserError("the labeled arrays need labels: pass (x, y)")
    if y is not None and np.ndim(y) != 1:
        raise UserError(f"the {role} labels have shape {np.shape(y)}; expected one label for each of {len(x)} samples")
    labels: list[Label | None] = [None] * len(x) if y is None else [_plain(value) for value in np.asarray(y).tolist()]
    if len(labels) != len(x):
        raise UserError(f"the {role} arrays disagree: {len(x)} samples but {len(labels)} labels")
    return Read(f"{role} array", x, [str(i) for i in range(len(x))], labels)


def _plain(label: Any) -> Label | None:
    if label is None or label == "" or label != label or (isinstance(label, int | float) and label == UNKNOWN):
        return None
    return int(label) if isinstance(label, float) and label.is_integer() else label


def some(names: Sequence[str], most: int = 8) -> str:
    """The first few names of a list, for a message."""
    shown = ", ".join(str(n) for n in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"

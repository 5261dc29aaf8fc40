"""Reading what a user points at into a `Source`: a folder, a CSV or NumPy file, arrays, a domain of the catalog."""

import zipfile
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unihssl.config import COLUMN, Settings
from unihssl.data import catalog
from unihssl.data.images import SUFFIXES, images_among, left_out, visible_files
from unihssl.data.machine import free_memory
from unihssl.data.source import DOMAIN, PREFIX, SEPARATOR, Label, Source, counted, csv_rows, first_few
from unihssl.errors import Setting, UserError
from unihssl.plain_files import check_regular, is_regular, is_there


def read(source: Any, settings: Settings, role: str) -> Source:
    """List the samples of a source; nothing is decoded. `role` (labeled, unlabeled) is for messages and layouts."""
    if isinstance(source, Source):
        return source
    if is_reference(source):
        return catalog.from_reference(source)
    if not isinstance(source, str | Path):
        return _read_arrays(source, role, settings.channels)
    check_there(source, role)
    path = Path(source)
    if path.is_dir():
        return _read_folder(path, settings, role)
    if path.suffix.lower() == ".csv":
        return _read_csv(path, settings, role)
    if path.suffix.lower() in (".npz", ".npy"):
        return _read_numpy(path, role, settings.channels)
    raise UserError(f"{path}: expected a folder, a .csv, an .npz or an .npy file")


def several(source: Any) -> list[Any]:
    """The sources of a domain: those of a list of paths or of `a|b`, else the one given."""
    if isinstance(source, str) and SEPARATOR in source and not is_there(Path(source)):
        return source.split(SEPARATOR)
    is_list = isinstance(source, list | tuple) and all(isinstance(part, str | Path | Source) for part in source)
    return list(source) if is_list and source else [source]


def check_there(source: str | Path, role: str) -> None:
    """Refuse a source that does not exist."""
    if str(source) == "":
        raise UserError(f"no {role} data given: pass {Setting(role)}, a folder, a CSV or an .npz file")
    if not is_reference(source) and not is_there(Path(source)):
        raise UserError(f"{source}: no such file or folder (the {role} data); say where it is with {Setting(role)}")


def is_reference(source: Any) -> bool:
    """Whether it names a domain of the catalog: `catalog:office-31/amazon@ROOT`."""
    return isinstance(source, str) and source.startswith(PREFIX)


def _read_folder(root: Path, settings: Settings, role: str) -> Source:
    """A folder of class folders; an unlabeled one may hold images anywhere."""
    files = visible_files(root)
    paths, others = images_among(files), left_out_note(files)
    if not paths:
        found = f"; {others}" if others else ""
        raise UserError(f"{root}: no images found (looked for {', '.join(sorted(SUFFIXES))} in it and below){found}")
    notes = [f"{root}: {others}"] if others else []
    names = [path.relative_to(root).as_posix() for path in paths]
    labels: list[Label | None] = [n.split("/")[0] if "/" in n else None for n in names]
    loose = [n for n, label in zip(names, labels, strict=True) if label is None]
    inside = sorted({str(label) for label in labels if label is not None})
    if role == "unlabeled" and (settings.unlabeled_layout == "flat" or (loose and settings.unlabeled_layout == "auto")):
        if inside and settings.unlabeled_layout == "auto":
            notes.append(
                f"{root}: sub-folders ({first_few(inside)}) are not taken for classes, because of "
                f"{counted(len(loose), 'image')} outside them ({first_few(loose)}): no image has a label"
            )
        return Source(str(root), paths, names, [None] * len(names), notes=tuple(notes))
    if loose:
        raise UserError(
            f"{root}: {len(loose)} images lie outside any class folder ({first_few(loose)}); expected "
            f"{root}/<class>/<image>: move them there, or remove them"
        )
    folders = {d.name for d in root.iterdir() if d.is_dir() and not d.name.startswith((".", "__"))}
    empty = sorted(folders - set(inside))
    if empty and role == "labeled":
        raise UserError(
            f"{root}: no images in class folder {first_few(empty)}; fill or remove it, or name the folder that holds "
            "the classes"
        )
    return Source(str(root), paths, names, labels, notes=tuple(notes))


def left_out_note(files: Iterable[Path]) -> str:
    """How many of the files are images that are left out by their suffix, and what to do; empty if there are none."""
    found = left_out(files)
    kinds = ", ".join(f"{count} {suffix}" for suffix, count in sorted(found.items()))
    count = "1 file is" if found.total() == 1 else f"{found.total()} files are"
    return f"{count} left out by suffix ({kinds}): convert to PNG, JPEG or TIFF" if found else ""


def _read_csv(path: Path, settings: Settings, role: str) -> Source:
    """A CSV with an image path in each row, relative to the CSV."""
    needed = {settings.path_column: Setting("path_column")}
    if role == "labeled" or settings.target_labels == COLUMN:
        needed[settings.label_column] = Setting("label_column")
    rows = csv_rows(path, needed)
    if not rows:
        raise UserError(f"{path}: the CSV has no rows")
    names = [row[settings.path_column] or "" for row in rows]
    paths = [path.parent / name for name in names]
    gone = [name for name, file in zip(names, paths, strict=True) if not is_regular(file)]
    if gone:
        raise UserError(f"{path}: {len(gone)} of {len(rows)} image files do not exist ({first_few(gone)})")
    labels = [(row.get(settings.label_column) or "").strip() or None for row in rows]
    kept = [name for name in rows[0] if name and (settings.group_by or name == DOMAIN)]
    values = {name: [row[name] or "" for row in rows] for name in kept}
    return Source(str(path), paths, names, labels, values)


def _read_numpy(path: Path, role: str, channels: int) -> Source:
    arrays = load_arrays(path)
    if "x" not in arrays:
        raise UserError(f"{path}: expected arrays named 'x' and 'y', found {', '.join(arrays) or 'none'}")
    pair = (arrays["x"], arrays["y"]) if "y" in arrays else arrays["x"]
    return replace(_read_arrays(pair, role, channels), name=str(path))


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz by name, that of an .npy as `x`; a file that would fill the memory is refused."""
    try:
        check_regular(path)
        with zipfile.ZipFile(path) if zipfile.is_zipfile(path) else nullcontext() as parts:
            size = sum(part.file_size for part in parts.infolist()) if parts else path.stat().st_size
        if size > (free := free_memory()):
            raise OSError(f"it holds {size / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB of memory are free")
        loaded = np.load(path, allow_pickle=False)
        return {"x": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    except Exception as error:  # a damaged header makes NumPy's reader stumble in any way it likes
        raise UserError(f"{path}: cannot be read as a NumPy file ({' '.join(str(error).split())[:200]})") from None


def _read_arrays(arrays: Any, role: str, channels: int) -> Source:
    """`x` or `(x, y)`: x (N, features), (N, height, width) or (N, height, width, channels), y (N,).

    A list is always `x`, of N samples.
    """
    x, y = arrays if isinstance(arrays, tuple) and len(arrays) == 2 else (arrays, None)
    if role == "labeled" and y is None:
        raise UserError("the labeled arrays need labels: pass (x, y), a tuple")
    given = "list (of samples of one shape; (x, y) is a tuple)" if isinstance(x, list) else "array"
    x = one_array(x, f"the {role} {given}")
    y = None if y is None else one_array(y, f"the {role} labels")
    if x.ndim not in (2, 3, 4) or x.size == 0 or x.dtype.kind not in "uif":
        raise UserError(
            f"the {role} array has shape {x.shape} and type {x.dtype}; expected numbers of shape "
            "(N, features), (N, height, width) or (N, height, width, channels)"
        )
    if x.ndim == 4 and x.shape[1] in (1, 3) and x.shape[3] > 4 and x.shape[3] != channels:
        raise UserError(
            f"the {role} array has shape {x.shape}, which looks like (N, channels, height, width): pass "
            f"x.transpose(0, 2, 3, 1), channels last, or {Setting('channels', x.shape[3])} if they are"
        )
    if y is not None and y.ndim != 1:
        raise UserError(f"the {role} labels have shape {y.shape}; expected one label for each of {len(x)} samples")
    if y is not None and (kind := y.dtype).kind not in "uifbUO":
        raise UserError(f"the {role} labels are of type {kind}; expected names or whole numbers, such as y.astype(str)")
    labels = [None] * len(x) if y is None else [known_label(value) for value in y.tolist()]
    if len(labels) != len(x):
        raise UserError(f"the {role} arrays disagree: {len(x)} samples but {len(labels)} labels")
    return Source(f"{role} array", x, [str(i) for i in range(len(x))], labels)


def known_label(value: Any) -> Label | None:
    """A class from an array; empty, NaN and -1 mean unknown, and 3.0 is 3."""
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, str | int | float):
        missing = value is None or type(value).__name__ in ("NAType", "NaTType")  # those of pandas
        return None if missing else value
    if value in ("", -1) or value != value:
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value  # type: ignore[return-value]


def one_array(given: Any, what: str, make: Callable[[Any], np.ndarray] = np.asarray) -> np.ndarray:
    """What was given in Python as an array; `what` names it in the error if it is none, such as lists of any length."""
    try:
        return make(given)
    except Exception as error:  # objects that say they are arrays raise what they like
        raise UserError(f"{what} cannot be made an array ({' '.join(str(error).split())[:200]})") from None

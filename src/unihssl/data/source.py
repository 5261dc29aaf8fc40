"""A source: the samples somebody points at, listed but not decoded."""

import csv
import difflib
import io
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from unihssl.errors import NOT_TEXT, UserError
from unihssl.plain_files import read_text

Label = str | int
DOMAIN = "domain"  # column of the sources that are trained together as one domain
LONGEST_NAME = 300  # in a message
SEPARATOR = "|"  # between several sources in one text
PREFIX = "catalog:"  # of a domain of the catalog: `catalog:office-31/amazon@ROOT`
FILES = (".csv", ".npz", ".npy")


@dataclass(frozen=True)
class Source:
    """The samples of one domain, each with a name and a label. All sequences have one entry for each sample.

    `fit` accepts one, and every reader and every data set of the catalog returns one:

    >>> Source("scans", [Path("1.png"), Path("2.png")], ["1", "2"], ["benign", None], {"patient": ["a", "b"]})
    """

    name: str  # a run records it as where its data came from
    items: Sequence[Path] | np.ndarray  # image files, or an array (N, ...)
    names: Sequence[str]
    labels: Sequence[Label | None]  # None where the class is unknown
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)  # what `group_by` chooses from
    notes: tuple[str, ...] = ()
    other_folders: Mapping[str, int] = field(default_factory=dict)  # catalog: folders of no class, and their images

    def __post_init__(self) -> None:
        parts = {"items": self.items, "names": self.names, "labels": self.labels, **self.columns}
        if len({len(part) for part in parts.values()}) > 1:
            lengths = ", ".join(f"{len(part)} {name}" for name, part in parts.items())
            raise UserError(f"{self.name}: expected one entry for each sample, got {lengths}")
        for label in self.labels:
            if label is not None and not isinstance(label, str | int):
                raise UserError(f"{self.name}: labels must be names or whole numbers, got {type(label).__name__}")
        check_names(self.name, (*self.names, *map(str, self.classes)))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def classes(self) -> set[Label]:
        return {label for label in self.labels if label is not None}


def _parts(key: str, source: Source) -> list[str]:
    """What each sample is of: the source itself, or the part of it that its own column names."""
    return [f"{key}/{name}" for name in source.columns[DOMAIN]] if DOMAIN in source.columns else [key] * len(source)


def joined(sources: Sequence[Source]) -> Source:
    """Several sources as one; names begin with the name of their source, which is also the column `DOMAIN`.

    >>> joined([Source("a", [Path("1.png")], ["1"], [None]), Source("b", [Path("2.png")], ["2"], [None])]).names
    ['a/1', 'b/2']
    """
    if len(sources) == 1:
        return sources[0]
    short = [short_name(source.name) for source in sources]
    keys = [name if short.count(name) == 1 else "" for name in short]
    for i, name in enumerate(short):
        numbered = (f"{name}-{number}" for number in itertools.count(i + 1))
        keys[i] = keys[i] or next(key for key in numbered if key not in keys)
    arrays = [source.items for source in sources if isinstance(source.items, np.ndarray)]
    shapes = {items.shape[1:] for items in arrays}
    if arrays and (len(arrays) < len(sources) or len(shapes) > 1):
        raise UserError(f"{', '.join(short)}: sources that are trained together must all be images, or arrays alike")
    shared = set.intersection(*(set(source.columns) for source in sources)) - {DOMAIN}
    columns = {name: [value for source in sources for value in source.columns[name]] for name in shared}
    return Source(
        SEPARATOR.join(source.name for source in sources),
        np.concatenate(arrays) if arrays else [item for source in sources for item in source.items],
        [f"{key}/{name}" for key, source in zip(keys, sources, strict=True) for name in source.names],
        [label for source in sources for label in source.labels],
        columns | {DOMAIN: [part for key, source in zip(keys, sources, strict=True) for part in _parts(key, source)]},
        tuple(note for source in sources for note in source.notes),
    )


def short_name(source: str) -> str:
    """What to call a source: a domain of the catalog, a folder, or a file without its suffix.

    >>> short_name("catalog:office-31/amazon@/data"), short_name("scans/site.1"), short_name("scans/b.csv")
    ('amazon', 'site.1', 'b')
    """
    if source.startswith(PREFIX):
        return source.partition("@")[0].rpartition("/")[2]
    path = Path(source)
    return path.stem if path.suffix.lower() in FILES else path.name


def first_few(names: Sequence[str], most: int = 8) -> str:
    """The first few names of a list, for a message: `a, b and 7 more`."""
    shown = ", ".join(_on_one_line(str(name)) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _on_one_line(name: str) -> str:
    short = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}..."
    return short.replace("\n", "\\n")


def check_names(where: str, names: Iterable[str]) -> None:
    """Refuse names that files of a run could not hold, or that a terminal would obey."""
    if strange := [name for name in names if NOT_TEXT.search(name)]:
        raise UserError(f"{where}: rename what holds control characters or is not UTF-8: {first_few(strange)}")


def csv_rows(path: Path, columns: Iterable[str] | Mapping[str, object]) -> list[dict[str, str]]:
    """The rows of a CSV file that has at least these columns; of a mapping, those by the settings that name them."""
    try:
        reader = csv.DictReader(io.StringIO(read_text(path, encoding="utf-8-sig"), newline=""), restval="")
        present = reader.fieldnames or []
        for column in columns:
            if column not in present:
                way_out = f"; say which it is with {columns[column]}" if isinstance(columns, Mapping) else ""
                if len(present) == 1 and ";" in present[0]:
                    way_out = ": save it with commas between the columns"
                raise UserError(
                    f"{path}: no column '{column}'; its columns are {first_few(present) or 'none'}{way_out}"
                )
        return list(reader)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: save it as CSV UTF-8; it is not ({error})") from None
    except (OSError, csv.Error) as error:
        raise UserError(f"{path}: not a readable CSV file ({error})") from None


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """The most similar of the names; empty if none is similar."""
    return next(iter(difflib.get_close_matches(name, list(names), n=1, cutoff=cutoff)), "")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`did you mean mug? `, for a message; empty if no name is similar."""
    near = nearest(name, names, cutoff=0.5)
    return f"did you mean {near}? " if near else ""


def counted(number: int, thing: str) -> str:
    """`1 image`, `2 images`."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")

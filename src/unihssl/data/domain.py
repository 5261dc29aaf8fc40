"""A domain: a source whose classes are numbered and whose groups are chosen."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unihssl.config import COLUMN, Settings
from unihssl.data.readers import read, several
from unihssl.data.source import DOMAIN, Label, Source, first_few, joined, nearest
from unihssl.errors import Setting, UserError
from unihssl.plain_files import is_folder

UNKNOWN = -1  # the class number of a sample whose class is not known


@dataclass(frozen=True)
class Domain:
    """The N samples of one domain; `labels` are positions in `classes`."""

    name: str
    items: Sequence[Path] | np.ndarray  # image files, or an array (N, ...)
    names: tuple[str, ...]
    labels: np.ndarray  # (N,) int64, UNKNOWN where there is none
    classes: tuple[Label, ...]
    groups: np.ndarray | None = None  # (N,): samples of one group are never split into training and test
    notes: tuple[str, ...] = ()
    target_labels: np.ndarray | None = None  # (N,) of the unlabeled domain: labels to train on, UNKNOWN elsewhere
    sources: np.ndarray | None = None  # (N,) names, where the domain is made of several sources

    def __len__(self) -> int:
        return len(self.names)

    @property
    def known(self) -> np.ndarray:
        """(N,) bool: which samples have a class."""
        return np.asarray(self.labels != UNKNOWN)

    @property
    def has_target_label(self) -> np.ndarray:
        """(N,) bool: which samples of the unlabeled domain have a label that may be trained on."""
        return np.zeros(len(self), bool) if self.target_labels is None else self.target_labels != UNKNOWN

    def keep(self, rows: np.ndarray) -> "Domain":
        """The same domain with only these rows (indices)."""
        items = self.items[rows] if isinstance(self.items, np.ndarray) else [self.items[i] for i in rows]
        return replace(
            self,
            items=items,
            names=tuple(self.names[i] for i in rows),
            labels=self.labels[rows],
            groups=None if self.groups is None else self.groups[rows],
            target_labels=None if self.target_labels is None else self.target_labels[rows],
            sources=None if self.sources is None else self.sources[rows],
        )


def labeled_domain(source: Any, settings: Settings) -> Domain:
    """Read the labeled domain. Every sample needs a label, and there must be two classes or more."""
    listed = read(source, settings, "labeled")
    missing = [name for name, label in zip(listed.names, listed.labels, strict=True) if label is None]
    if missing:
        raise UserError(
            f"{listed.name}: {len(missing)} of {len(listed)} labeled samples have no label ({first_few(missing)})"
        )
    classes = tuple(sorted(listed.classes, key=_class_order))
    if len(classes) < 2:
        found = f"one class only ({classes[0]})" if classes else "no classes, as there are no samples"
        inner = _folders_in_each_class(listed)
        hint = f" ({listed.name}/{classes[0]} holds folders {first_few(inner)}: is that the one?)" if inner else ""
        raise UserError(f"{listed.name}: found {found}; training needs two or more{hint}")
    listed = replace(listed, notes=(*listed.notes, *_class_notes(listed)))
    return _resolve(listed, classes, settings.group_by)


def unlabeled_domain(source: Any, classes: tuple[Label, ...], settings: Settings) -> Domain:
    """Read the unlabeled domain. Its labels, if any, are for measuring only, never for training."""
    listed = joined([_read_unlabeled(part, classes, settings) for part in several(source)])
    if listed.classes:
        trained_on = settings.target_labels == COLUMN
        _check_classes(listed, classes, settings.match_classes == "labeled" or trained_on, trained_on)
    # Of samples whose class is not known, none is held out for the test.
    to_split = bool(listed.classes) or settings.group_by in listed.columns
    return _resolve(listed, classes, settings.group_by, to_split=to_split)


def _read_unlabeled(source: Any, classes: tuple[Label, ...], settings: Settings) -> Source:
    """List one source; sub-folders that name no classes are ignored, if the layout allows it."""
    listed = read(source, settings, "unlabeled")
    if settings.unlabeled_layout == "flat":
        return replace(listed, labels=[None] * len(listed))
    if listed.classes and settings.unlabeled_layout == "auto" and _is_mere_nesting(source, listed.classes, classes):
        folders = first_few(sorted(map(str, listed.classes)))
        note = f"{listed.name}: sub-folders ({folders}) name no class and are ignored; its accuracy stays unknown"
        inner = {name.split("/")[1] for name in listed.names if name.count("/") > 1}
        if inner and inner <= set(map(str, classes)):
            one = len(listed.classes) == 1
            note += "; below them are folders of the classes: "
            note += f"did you mean {listed.name}/{folders}?" if one else "give one of them, or several sources"
        return replace(listed, labels=[None] * len(listed), notes=(*listed.notes, note))
    return listed


def test_domain(source: Any, classes: tuple[Label, ...], settings: Settings) -> Domain:
    """Read labeled samples to evaluate on. Some of the classes may be missing."""
    listed = joined([read(part, settings, "labeled") for part in several(source)])
    unknown = with_likely_names(listed.classes - set(classes), classes)
    if unknown:
        known = first_few([str(c) for c in classes])
        raise UserError(f"{listed.name}: classes do not match: the model knows no {unknown}; its classes are {known}")
    return _resolve(listed, classes, settings.group_by, to_split=False)


def spread_rows(count: int, most: int) -> np.ndarray:
    """At most so many of `count` rows, spread evenly over all."""
    return np.linspace(0, count - 1, min(count, most)).astype(np.int64)


def _resolve(source: Source, classes: tuple[Label, ...], group_by: str, *, to_split: bool = True) -> Domain:
    """Number the classes and choose the groups; groups are not needed where nothing is split."""
    number = {label: i for i, label in enumerate(classes)} | {None: UNKNOWN}
    labels = np.array([number[label] for label in source.labels], dtype=np.int64)
    notes = source.notes if group_by else (*source.notes, *_shared_notes(source))
    groups = _groups(source, group_by) if group_by and to_split else None
    sources = np.array(source.columns[DOMAIN]) if DOMAIN in source.columns else None
    return Domain(source.name, source.items, tuple(source.names), labels, classes, groups, notes, sources=sources)


def _groups(source: Source, column: str) -> np.ndarray:
    """Each sample's group (N,). A sample with an empty value is a group of its own."""
    if column not in source.columns:
        present = [name for name in source.columns if name != DOMAIN]
        columns = f"that column; its columns are {first_few(present)}"
        needed = columns if present else "a CSV with that column (in Python, a Source with it will do)"
        raise UserError(f"{source.name}: {Setting('group_by', column)} needs {needed}")
    return np.array([value or f"row {i}" for i, value in enumerate(source.columns[column])])


def _class_notes(source: Source) -> Iterator[str]:
    """A note on classes that were probably not meant: the same name in two cases, or folders a level too high."""
    spellings: dict[str, list[str]] = {}
    for name in sorted(c for c in source.classes if isinstance(c, str)):
        spellings.setdefault(name.lower(), []).append(name)
    for names in spellings.values():
        if len(names) > 1:
            yield f"{source.name}: classes {first_few(names)} differ only in case, and are learnt as different ones"
    if inner := _folders_in_each_class(source):
        tops, below = first_few(sorted(map(str, source.classes))), first_few(inner)
        yield f"{source.name}: {tops} are taken for the classes, and each holds {below}: are these the classes?"


def _folders_in_each_class(source: Source) -> list[str]:
    """The folders that every class folder holds, two or more and no image beside them: they may be the classes."""
    below: dict[str, set[str]] = {}
    for name, label in zip(source.names, source.labels, strict=True) if is_folder(Path(source.name)) else ():
        top, *inner = name.split("/")
        if top != label:
            return []
        below.setdefault(top, set()).add("/".join(inner[:-1]))
    folders = next(iter(below.values()), set())
    same = len(folders) > 1 and "" not in folders and all(others == folders for others in below.values())
    return sorted(folders) if same else []


def _shared_notes(source: Source) -> Iterator[str]:
    """A note for each column whose groups the split, which goes by image, may divide."""
    for column, values in source.columns.items():
        if column == DOMAIN:
            continue
        shared = sum(n for value, n in Counter(values).items() if value and n > 1)
        if shared:
            yield (
                f"{source.name}: {shared} of {len(source)} images share their {column} with another; the split goes by "
                f"image and may test on what it trained on. Set group_by to {column} to keep them on one side"
            )


def _is_mere_nesting(source: Any, folders: set[Label], classes: tuple[Label, ...]) -> bool:
    """Whether the sub-folders of a folder name no classes.

    If there are as many sub-folders as classes, we assume misspelled classes; the class check then stops with an error.
    """
    if not isinstance(source, str | Path) or not Path(source).is_dir() or len(folders) == len(classes):
        return False
    names = [str(c).lower() for c in classes]
    return not any(nearest(str(folder).lower(), names, cutoff=0.75) for folder in folders)


def _class_order(label: Label) -> tuple[int, int, str]:
    """Numbers first, by value; then names."""
    return (0, label, "") if isinstance(label, int) else (1, 0, label)


def _check_classes(source: Source, classes: tuple[Label, ...], may_lack: bool, trained_on: bool) -> None:
    """Stop unless the source has exactly these classes; with `may_lack`, no others. `trained_on`: its labels are."""
    extra = sorted(str(c) for c in source.classes - set(classes))
    missing = sorted(str(c) for c in set(classes) - source.classes)
    if not extra and (not missing or may_lack):
        return
    differences = []
    if extra:
        differences.append(f"not in the labeled domain: {with_likely_names(extra, missing)}")
    if missing and not may_lack:
        same = {str(c).lower(): f" ({c}?)" for c in source.classes & set(classes)}
        folders = Path(source.name).iterdir() if is_folder(Path(source.name)) else ()
        empty = {folder.name: " (no images in its folder)" for folder in folders}
        why = [f"{name}{empty.get(name) or same.get(name.lower(), '')}" for name in missing]
        differences.append(f"missing here: {first_few(why)}")
    allow = "" if extra else f"allow missing ones with {Setting('match_classes', 'labeled')}, or "
    ignore = (
        "leave their cells empty" if trained_on else f"ignore these names with {Setting('unlabeled_layout', 'flat')}"
    )
    raise UserError(
        f"{source.name}: classes do not match those of the labeled domain; {'; '.join(differences)}. "
        f"Way out: rename them, or {allow}{ignore}"
    )


def with_likely_names(names: Iterable[Label], meant: Iterable[Label]) -> str:
    """Names for a message, each with the one that was probably meant: `bowls (bowl?), cat`."""
    known = [str(name) for name in meant]
    near = {name: nearest(name, known) for name in sorted(map(str, names))}
    return first_few([f"{name} ({match}?)" if match else name for name, match in near.items()])

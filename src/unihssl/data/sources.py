"""A domain: its samples, their labels, and the classes both domains share."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unihssl.config import Settings
from unihssl.data.readers import UNKNOWN, Label, Read, read, some
from unihssl.errors import UserError


@dataclass(frozen=True)
class Domain:
    """One domain's samples: image files, or rows of an array; a label for each (UNKNOWN where there is none)."""

    name: str
    items: Sequence[Path] | np.ndarray
    names: tuple[str, ...]
    labels: np.ndarray
    classes: tuple[Label, ...]
    groups: np.ndarray | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def known(self) -> np.ndarray:
        return np.asarray(self.labels != UNKNOWN)

    def keep(self, rows: np.ndarray) -> "Domain":
        """The same domain with only these rows (indices)."""
        items = self.items[rows] if isinstance(self.items, np.ndarray) else [self.items[i] for i in rows]
        return replace(
            self,
            items=items,
            names=tuple(self.names[i] for i in rows),
            labels=self.labels[rows],
            groups=None if self.groups is None else self.groups[rows],
        )


def labeled_domain(source: Any, settings: Settings) -> Domain:
    """Read the domain whose labels train the model; every sample must have one, in two classes or more."""
    found = read(source, settings, "labeled")
    missing = [name for name, label in zip(found.names, found.labels, strict=True) if label is None]
    if missing:
        raise UserError(
            f"{found.name}: {len(missing)} of {len(found.names)} labeled samples have no label ({some(missing)})"
        )
    classes = tuple(sorted(_classes(found), key=_class_order))
    if len(classes) < 2:
        raise UserError(f"{found.name}: found one class only ({classes[0]}); training needs two or more")
    return _domain(found, classes)


def unlabeled_domain(source: Any, classes: tuple[Label, ...], settings: Settings) -> Domain:
    """Read the domain to adapt to. Labels found there serve only to measure, never to train."""
    found = read(source, settings, "unlabeled")
    if settings.unlabeled_layout == "flat":
        found = found._replace(labels=[None] * len(found.labels))
    if _classes(found) and settings.unlabeled_layout == "auto" and _just_folders(source, _classes(found), classes):
        folders = some(sorted(str(c) for c in _classes(found)))
        note = f"{found.name}: sub-folders ({folders}) name no class and are ignored; its accuracy stays unknown"
        found = found._replace(labels=[None] * len(found.labels), notes=(*found.notes, note))
    if _classes(found):
        _check_match(found, classes, settings)
    return _domain(found, classes)


def _just_folders(source: Any, found: set[Label], classes: tuple[Label, ...]) -> bool:
    """Whether sub-folders are mere nesting: none is named like a class, nor are there as many as classes."""
    if not isinstance(source, str | Path) or not Path(source).is_dir() or len(found) == len(classes):
        return False
    names = [str(c).lower() for c in classes]
    return not any(difflib.get_close_matches(str(f).lower(), names, n=1, cutoff=0.75) for f in found)


def test_domain(source: Any, classes: tuple[Label, ...], settings: Settings) -> Domain:
    """Read labeled images of known classes to evaluate on; some of the classes may be missing."""
    found = read(source, settings, "labeled")
    _check_match(found, classes, replace(settings, match_classes="labeled"))
    return _domain(found, classes)


def _class_order(label: Label) -> tuple[int, int, str]:
    return (0, label, "") if isinstance(label, int) else (1, 0, label)


def _classes(found: Read) -> set[Label]:
    return {label for label in found.labels if label is not None}


def _domain(found: Read, classes: tuple[Label, ...]) -> Domain:
    index = {label: i for i, label in enumerate(classes)}
    numbers = np.array([UNKNOWN if label is None else index[label] for label in found.labels], dtype=np.int64)
    return Domain(found.name, found.items, tuple(found.names), numbers, classes, found.groups, found.notes)


def _check_match(found: Read, classes: tuple[Label, ...], settings: Settings) -> None:
    extra = sorted(str(c) for c in _classes(found) - set(classes))
    missing = sorted(str(c) for c in set(classes) - _classes(found))
    if not extra and (not missing or settings.match_classes == "labeled"):
        return
    parts = []
    if extra:
        near = [(e, difflib.get_close_matches(e, missing, n=1)) for e in extra]
        parts.append("not in the labeled domain: " + some([f"{e} ({m[0]}?)" if m else e for e, m in near]))
    if missing and settings.match_classes == "same":
        parts.append(f"missing here: {some(missing)}")
    ways = ["rename them"]
    if not extra:
        ways.append("allow missing ones with --set match_classes=labeled")
    ways.append("ignore these names with --set unlabeled_layout=flat")
    raise UserError(
        f"{found.name}: classes do not match those of the labeled domain; {'; '.join(parts)}. "
        f"Way out: {', or '.join(ways)}"
    )

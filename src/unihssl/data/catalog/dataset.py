"""What the catalog knows of a benchmark data set: its domains, classes, published counts, and where it comes from."""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from unihssl.data.readers import some
from unihssl.errors import UserError


def plain(name: str) -> str:
    """A name without case, spaces and signs: `Real World`, `Real_World` and `RealWorld` are one."""
    return re.sub("[^a-z0-9]", "", name.lower())


def counted(number: int, thing: str) -> str:
    """`1 image`, `2 images`."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def not_there(names: Sequence[str], listing: str) -> tuple[str, ...]:
    """A remark on the images that a file lists and that are gone; none if all are there."""
    verb = "is" if len(names) == 1 else "are"
    return (f"{counted(len(names), 'image')} of {listing} {verb} not there ({some(names, 3)})",) if names else ()


@dataclass(frozen=True)
class CatalogDomain:
    """One domain: its names, and how many images of each class were published."""

    name: str
    short: str
    counts: Mapping[str, int]
    folders: tuple[str, ...] = ()  # what its folder is called, the official name first
    also: tuple[str, ...] = ()  # further names it goes by in a pair

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def classes_with(self, labels: Sequence[str | int]) -> int:
        """How many of its classes have an image."""
        return len({str(label) for label in labels} & set(self.counts))

    def mostly_missing(self, labels: Sequence[str | int]) -> bool:
        """Whether half of its classes, or more, have no image."""
        return 2 * self.classes_with(labels) <= len(self.counts)

    @property
    def known_as(self) -> set[str]:
        return {plain(name) for name in (self.name, self.short, *self.folders, *self.also)}


@dataclass(frozen=True)
class Found:
    """A domain's samples as they lie on the disk, sorted by names that no layout changes."""

    place: str
    items: Sequence[Path] | np.ndarray
    names: Sequence[str]
    labels: Sequence[str | int]
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    extra: Mapping[str, int] = field(default_factory=dict)  # images in classes the data set does not have
    remarks: tuple[str, ...] = ()  # what else is wrong


@dataclass(frozen=True)
class Remote:
    """A file that may be fetched. `md5`, `sha256` and `size` (bytes) only where somebody has published them."""

    url: str
    md5: str = ""
    sha256: str = ""
    size: int = 0

    @property
    def file(self) -> str:
        return self.url.rsplit("/", 1)[1]


@dataclass(frozen=True)
class Dataset:
    """A benchmark data set."""

    name: str
    title: str
    classes: tuple[str, ...]
    domains: tuple[CatalogDomain, ...]
    pairs: tuple[str, ...]  # those of the paper, in its order, labeled first
    licence: str
    source: str  # the official page
    archives: tuple[str, ...]  # as downloaded
    tree: str  # the official layout
    find: Callable[["Dataset", CatalogDomain, Path], Found | None]
    get: str = ""  # how to come by the archives, where no command may
    downloads: tuple[Remote, ...] = ()
    archive_hints: tuple[str, ...] = ()  # patterns of the plain names its archives go by
    class_aliases: Mapping[str, str] = field(default_factory=dict)  # other spellings, plain -> class
    list_order: tuple[str, ...] = ()  # classes by their number in list files, where one order is in use
    file_prefix: str = ""  # of every image's name, where there are no class folders
    caution: str = ""  # what must be known before its results are believed
    cure: str = ""  # the column to group by, where that makes the caution needless

    def domain(self, name: str) -> CatalogDomain:
        """By full, short or folder name, in any case."""
        for domain in self.domains:
            if plain(name) in domain.known_as:
                return domain
        names = [n for d in self.domains for n in (d.name, d.short)]
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        known = ", ".join(d.name if d.name == d.short else f"{d.name} ({d.short})" for d in self.domains)
        raise UserError(f"{self.name}: no domain '{name}'; {hint}its domains are {known}")

    def pair(self, text: str) -> tuple[CatalogDomain, CatalogDomain]:
        """`A/W`: the first labeled, the second unlabeled."""
        names = text.split("/")
        if len(names) != 2 or not all(names):
            raise UserError(f"'{text}' is no pair: expected labeled/unlabeled, such as {self.all_pairs[0]}")
        labeled, unlabeled = self.domain(names[0]), self.domain(names[1])
        if labeled is unlabeled:
            raise UserError(f"'{text}': a pair needs two different domains, such as {self.all_pairs[0]}")
        return labeled, unlabeled

    def class_of(self, folder: str) -> str | None:
        """The class a folder is named after, if any."""
        return self._class_by_name.get(plain(folder))

    @cached_property
    def _class_by_name(self) -> dict[str, str]:
        return {plain(c): c for c in self.classes} | dict(self.class_aliases)

    @property
    def all_pairs(self) -> tuple[str, ...]:
        """The paper's pairs; for a data set it does not use, every pair."""
        names = [domain.short for domain in self.domains]
        return self.pairs or tuple(f"{a}/{b}" for a in names for b in names if a != b)

    @property
    def total(self) -> int:
        return sum(domain.total for domain in self.domains)

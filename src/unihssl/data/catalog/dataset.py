"""The description of a benchmark data set: its domains, classes, published counts and origin."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from unihssl.data.source import Source, counted, did_you_mean, first_few
from unihssl.errors import UserError


def plain(name: str) -> str:
    """A name without case, spaces and punctuation: `Real World`, `Real_World` and `RealWorld` are the same."""
    return re.sub("[^a-z0-9]", "", name.lower())


def missing_note(names: Sequence[str], listing: str) -> tuple[str, ...]:
    """A note on images that a file lists and that do not exist; empty if all do."""
    verb = "is" if len(names) == 1 else "are"
    return (f"{counted(len(names), 'image')} of {listing} {verb} not there ({first_few(names, 3)})",) if names else ()


@dataclass(frozen=True)
class CatalogDomain:
    """One domain: its names, and the published number of images of each class."""

    name: str
    short: str
    counts: Mapping[str, int]
    folders: tuple[str, ...] = ()  # names of its folder, the official one first
    also: tuple[str, ...] = ()  # other names for it in a pair
    optional: bool = False  # a copy of the data set may do without it

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def classes_with(self, found: Source) -> int:
        """How many of its classes have an image."""
        return len({str(label) for label in found.labels} & set(self.counts))

    def mostly_missing(self, found: Source | None) -> bool:
        """Whether nothing was found, or half of its classes or more have no image."""
        return found is None or 2 * self.classes_with(found) <= len(self.counts)

    @property
    def known_as(self) -> set[str]:
        return {plain(name) for name in (self.name, self.short, *self.folders, *self.also)}


def domain_of(
    name: str, short: str, classes: Sequence[str], counts: Iterable[int], folders: tuple[str, ...] = (), also: str = ""
) -> CatalogDomain:
    """A domain from its counts in the order of the classes."""
    return CatalogDomain(name, short, dict(zip(classes, counts, strict=True)), folders, (also,) if also else ())


@dataclass(frozen=True)
class Remote:
    """A file that may be downloaded, with its MD5 sum if one was published."""

    url: str
    md5: str = ""

    @property
    def file(self) -> str:
        return self.url.rsplit("/", 1)[1]


@dataclass(frozen=True)
class Dataset:
    """A benchmark data set.

    `find(dataset, domain, root)` lists a domain below a folder: a `Source` named by where the images are, sorted by
    sample names that do not depend on the layout; None if there is nothing.
    """

    name: str
    title: str
    classes: tuple[str, ...]
    domains: tuple[CatalogDomain, ...]
    pairs: tuple[str, ...]  # those of the paper, in its order: labeled/unlabeled
    licence: str
    source: str  # the official page
    archives: tuple[str, ...]  # their official file names
    tree: str  # the official layout
    find: Callable[["Dataset", CatalogDomain, Path], Source | None]
    get: str = ""  # how to get the archives where they may not be downloaded by a program
    downloads: tuple[Remote, ...] = ()
    archive_hints: tuple[str, ...] = ()  # patterns of its archives' names, after `plain`
    class_aliases: Mapping[str, str] = field(default_factory=dict)  # other spellings, after `plain` -> class
    list_order: tuple[str, ...] = ()  # classes by number in list files, if all use one order
    file_prefix: str = ""  # of all image names, if there are no class folders
    caution: str = ""  # what readers of its results must know
    safe_group_by: str = ""  # grouped by this column, results need no caution

    def domain(self, name: str) -> CatalogDomain:
        """The domain of this name: full, short or of its folder, in any case."""
        for domain in self.domains:
            if plain(name) in domain.known_as:
                return domain
        names = [n for d in self.domains for n in (d.name, d.short)]
        known = ", ".join(d.name if d.name == d.short else f"{d.name} ({d.short})" for d in self.domains)
        raise UserError(f"{self.name}: no domain '{name}'; {did_you_mean(name, names)}its domains are {known}")

    def pair(self, text: str) -> tuple[CatalogDomain, CatalogDomain]:
        """The labeled and the unlabeled domain of a pair such as `A/W`."""
        names = text.split("/")
        if len(names) != 2 or not all(names):
            raise UserError(f"'{text}' is not a pair: expected labeled/unlabeled, such as {self.all_pairs[0]}")
        labeled, unlabeled = self.domain(names[0]), self.domain(names[1])
        if labeled is unlabeled:
            raise UserError(f"'{text}': a pair needs two different domains, such as {self.all_pairs[0]}")
        return labeled, unlabeled

    def class_of(self, folder: str) -> str | None:
        """The class that a folder is named after; None if there is none."""
        return self._class_by_name.get(plain(folder))

    @cached_property
    def _class_by_name(self) -> dict[str, str]:
        return {plain(c): c for c in self.classes} | dict(self.class_aliases)

    @property
    def all_pairs(self) -> tuple[str, ...]:
        """The paper's pairs; all pairs of a data set that the paper does not use."""
        names = [domain.short for domain in self.domains]
        return self.pairs or tuple(f"{a}/{b}" for a in names for b in names if a != b)

    @property
    def total(self) -> int:
        return sum(domain.total for domain in self.domains)

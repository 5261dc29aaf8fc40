"""Is a data set there, and all of it? Every class's images are counted and compared with what was published."""

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path

from unihssl.data.catalog.archives import Progress, seems_to_hold, stem, unpack
from unihssl.data.catalog.dataset import CatalogDomain, Dataset, Found, counted, plain
from unihssl.data.catalog.folders import DEPTH, file_names, levels, subfolders
from unihssl.data.catalog.known import looks_like
from unihssl.errors import UserError

Told = Callable[[str], Progress | None]  # what is going on; gives what is told of its progress


@dataclass(frozen=True)
class DomainCheck:
    """What was found of a domain (None: nothing), and what is wrong with it."""

    domain: CatalogDomain
    found: Found | None
    problems: tuple[str, ...]
    in_the_way: Path | None = None  # a folder that has nothing of the data set and keeps an archive from unpacking

    @property
    def unusable(self) -> bool:
        """Whether there is nothing, or so little that it may be another data set."""
        return _poor(self.domain, self.found)

    @property
    def foreign(self) -> bool:
        """Whether there is something, but so little that it may be another data set."""
        return self.unusable and self.found is not None and len(self.found.items) > 0


def quiet(message: str) -> None:
    return None


def check(
    dataset: Dataset, root: Path, domains: Sequence[CatalogDomain] = (), told: Told = quiet
) -> tuple[DomainCheck, ...]:
    """Look for these domains (all, unless some are named) under the root, unpacking archives where one is missing.

    If the root is an archive, nothing but what it unpacks to is looked into.
    """
    root = root.absolute()  # what is found must outlive a change of folder
    wanted = domains or dataset.domains
    unpacked: dict[Path, Path] = {}  # folder: the archive it is of
    if root.is_file():
        archive, root = root, _unpacked(dataset, root, told)
        unpacked[root] = archive
    found = {d.name: dataset.find(dataset, d, root) for d in wanted}
    if any(_poor(d, found[d.name]) for d in wanted):
        archives = _hinted_archives(dataset, root)
        more = {f: path for path in archives if (f := unpack(path, told(f"unpacking {path}"), partial(_fits, dataset)))}
        if more:
            found = {d.name: dataset.find(dataset, d, root) for d in wanted}
        unpacked |= more
    return tuple(_compare(dataset, domain, found[domain.name], root, unpacked) for domain in wanted)


def where(root: Path) -> str:
    """Where it was looked, for a message."""
    return f"in {root} (beside it nothing was looked at)" if root.is_file() else f"under {root}"


def _unpacked(dataset: Dataset, archive: Path, told: Told) -> Path:
    """The folder of an archive given as root."""
    if not stem(archive):
        raise UserError(
            f"{archive}: is neither a folder nor an archive (.tar, .tar.gz, .zip); give the folder it is in"
        )
    folder = unpack(archive, told(f"unpacking {archive}"), partial(_fits, dataset))
    if folder is None:
        raise UserError(f"{archive}: not unpacked, as it holds nothing named like {dataset.title}")
    return folder


def _compare(
    dataset: Dataset, domain: CatalogDomain, found: Found | None, root: Path, unpacked: dict[Path, Path]
) -> DomainCheck:
    """What is wrong with a domain; where nothing of it is there, whether a folder is to blame."""
    said = problems(dataset, domain, found)
    if found is not None and len(found.items):
        return DomainCheck(domain, found, (*_too_few(dataset, domain, found, unpacked), *said))
    folder = _obstacle(dataset, domain, (f for f in unpacked if not _has_any(dataset, f)))
    if folder:
        blame = f"the folder {folder} is in the way of {unpacked[folder].name} and has nothing of {dataset.title}"
        said = [f"{domain.name}: {blame}; move or delete it"]
    elif found is None and (hollow := next(_named_like(domain, root), None)):
        said = [
            f"{domain.name}: not found: {hollow} has no class folders such as {dataset.classes[0]}, and no list file"
        ]
    return DomainCheck(domain, found, tuple(said), folder)


def _too_few(dataset: Dataset, domain: CatalogDomain, found: Found, unpacked: dict[Path, Path]) -> list[str]:
    """A line if the domain seems to be another data set's, or a folder that its archive should be unpacked to again."""
    parts = []
    if domain.mostly_missing(found.labels):
        other = looks_like(dataset, domain, found)
        guess = f"looks like {other.name}" if other is not dataset else "may be another data set, or a part of it"
        here = f"only {domain.classes_with(found.labels)} of {len(domain.counts)} classes have images"
        parts.append(f"{here} in {found.place}, which {guess}")
    if len(found.items) < domain.total and (origin := _origin(dataset, Path(found.place), unpacked)):
        folder, archive = origin
        said = f"{len(found.items):,} of {counted(domain.total, 'image')}, but {archive.name} lies beside {folder}"
        parts.append(f"{said}: if that folder is deleted, it is unpacked again")
    return [f"{domain.name}: {'; '.join(parts)}"] if parts else []


def _origin(dataset: Dataset, place: Path, unpacked: dict[Path, Path]) -> tuple[Path, Path] | None:
    """The folder at or above a place that an archive beside it unpacks to, and that archive."""
    for folder in islice((place, *place.parents), DEPTH + 2):
        if folder in unpacked:
            return folder, unpacked[folder]
        for archive in (folder.parent / name for name in file_names(folder.parent)):
            if stem(archive) and _hinted(dataset, archive) and seems_to_hold(archive, folder):
                return folder, archive
    return None


def _obstacle(dataset: Dataset, domain: CatalogDomain, obstacles: Iterable[Path]) -> Path | None:
    """The folder in this domain's way: one of its name, or of no domain's, as an archive of them all would have."""
    others = {plain(name) for d in dataset.domains if d is not domain for name in d.folders}
    return next((folder for folder in obstacles if plain(folder.name) not in others), None)


def _named_like(domain: CatalogDomain, root: Path) -> Iterator[Path]:
    names = {plain(name) for name in domain.folders}
    folders = (folder for level in levels(root) for base in level for folder in subfolders(base))
    return (folder for folder in folders if plain(folder.name) in names)


def _has_any(dataset: Dataset, folder: Path) -> bool:
    """Whether a folder has class folders of the data set below it, or files named like its images."""
    below = [f for level in levels(folder) for f in level]
    if dataset.file_prefix:
        return any(name.startswith(dataset.file_prefix) for f in below for name in file_names(f))
    return any(dataset.class_of(f.name) for f in below[1:])


def _poor(domain: CatalogDomain, found: Found | None) -> bool:
    return found is None or domain.mostly_missing(found.labels)


def _hinted_archives(dataset: Dataset, root: Path) -> list[Path]:
    """Those under the root that are named like the data set's."""
    return [path for path in _all_archives(root) if _hinted(dataset, path)]


def _all_archives(root: Path) -> list[Path]:
    folders = [folder for level in islice(levels(root), 2) for folder in level]
    paths = [folder / name for folder in folders for name in file_names(folder)]
    return [path for path in paths if stem(path) and path.is_file()]


def _fits(dataset: Dataset, files: Sequence[tuple[str, ...]]) -> bool:
    """Whether an archive, perhaps named by chance as the data set's (`train.tar`), holds its classes or its files."""
    if dataset.file_prefix:
        return any(parts[-1].startswith(dataset.file_prefix) for parts in files)
    folders = {part for parts in files for part in parts[:-1]}
    return len({dataset.class_of(folder) for folder in folders} - {None}) > 1


def _hinted(dataset: Dataset, archive: Path) -> bool:
    return any(fnmatchcase(plain(stem(archive)), hint) for hint in dataset.archive_hints)


def unknown_archives(dataset: Dataset, root: Path) -> list[Path]:
    """Archives that might be it under another name."""
    return [path for path in _all_archives(root) if not _hinted(dataset, path)]


def problems(dataset: Dataset, domain: CatalogDomain, found: Found | None) -> list[str]:
    """What differs from the published data set, one line each; none if it is all there."""
    if found is None:
        named = f": no folder {' or '.join(domain.folders)}, and no list file" if domain.folders else ""
        return [f"{domain.name}: not found{named}"]
    said = [f"{domain.name}: {remark}" for remark in found.remarks]
    if said and len(found.items) == 0:
        return said
    counts = Counter(str(label) for label in found.labels)
    for name in dataset.classes:
        expected, here = domain.counts[name], counts[name]
        if here != expected:
            said.append(
                f"{domain.name}/{name}: expected {counted(expected, 'image')}, found {f'{here:,}' if here else 'none'}"
            )
    for name, number in found.extra.items():
        near = difflib.get_close_matches(name, dataset.classes, n=1)
        hint = f"; is it {near[0]}?" if near else ""
        said.append(f"{domain.name}/{name}: not a class of {dataset.name} ({counted(number, 'image')}){hint}")
    return said


def how_to_get(dataset: Dataset) -> str:
    """The expected tree, the official source and the archives: what to say when nothing is there."""
    tree = "\n".join(f"    {line}" for line in dataset.tree.splitlines())
    kind = "archives" if all(stem(Path(file)) for file in dataset.archives) else "files"
    way = f"unihssl data download {dataset.name}" if dataset.downloads else dataset.get
    return (
        f"{dataset.title}: expected in the folder, in a folder of it, or as the archive\n{tree}\n"
        f"{kind}: {', '.join(dataset.archives)}\nsource: {dataset.source}\nlicence: {dataset.licence}\nget it: {way}"
    )

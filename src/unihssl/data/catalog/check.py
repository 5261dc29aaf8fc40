"""Is a data set there, and all of it? Every class's images are counted and compared with what was published."""

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path

from unihssl.data.catalog.archives import Progress, stem, unpack
from unihssl.data.catalog.dataset import CatalogDomain, Dataset, Found, plain
from unihssl.data.catalog.folders import file_names, levels, subfolders
from unihssl.errors import UserError

Told = Callable[[str], Progress | None]  # what is going on; gives what is told of its progress


@dataclass(frozen=True)
class DomainCheck:
    """What was found of a domain (None: nothing), and what is wrong with it."""

    domain: CatalogDomain
    found: Found | None
    problems: tuple[str, ...]
    in_the_way: Path | None = None  # a folder that has nothing of the data set and keeps an archive from unpacking


def quiet(message: str) -> None:
    return None


def check(
    dataset: Dataset, root: Path, domains: Sequence[CatalogDomain] = (), told: Told = quiet
) -> tuple[DomainCheck, ...]:
    """Look for these domains (all, unless some are named) under the root, unpacking archives where one is missing."""
    root = root.absolute()  # what is found must outlive a change of folder
    root, only = (root.parent, root) if root.is_file() else (root, None)
    wanted = domains or dataset.domains
    found = {d.name: dataset.find(dataset, d, root) for d in wanted}
    obstacles: dict[Path, Path] = {}  # folder: the archive it is in the way of
    if any(_lacking(f) for f in found.values()):
        unpacked: dict[Path, Path] = {}
        for path in _archives(dataset, root, only):
            if folder := unpack(path, told(f"unpacking {path}"), partial(_fits, dataset)):
                unpacked[folder] = path
        if only and not unpacked:
            raise UserError(f"{only}: not unpacked, as it holds nothing named like {dataset.title}")
        if unpacked:
            found = {d.name: dataset.find(dataset, d, root) for d in wanted}
        obstacles = {folder: path for folder, path in unpacked.items() if not _has_any(dataset, folder)}
    return tuple(_compare(dataset, domain, found[domain.name], root, obstacles) for domain in wanted)


def _compare(
    dataset: Dataset, domain: CatalogDomain, found: Found | None, root: Path, obstacles: dict[Path, Path]
) -> DomainCheck:
    """What is wrong with a domain; where nothing of it is there, whether a folder is to blame."""
    said = problems(dataset, domain, found)
    if not _lacking(found):
        return DomainCheck(domain, found, tuple(said))
    folder = _obstacle(dataset, domain, obstacles)
    if folder:
        blame = f"the folder {folder} is in the way of {obstacles[folder].name} and has nothing of {dataset.title}"
        said = [f"{domain.name}: {blame}; move or delete it"]
    elif hollow := next(_named_like(domain, root), None):
        said = [
            f"{domain.name}: not found: {hollow} has no class folders such as {dataset.classes[0]}, and no list file"
        ]
    return DomainCheck(domain, found, tuple(said), folder)


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


def _lacking(found: Found | None) -> bool:
    return found is None or len(found.items) == 0


def _archives(dataset: Dataset, root: Path, only: Path | None) -> list[Path]:
    """The archive given as root, else those beneath it that are named like the data set's."""
    if only:
        if not stem(only):
            raise UserError(f"{only}: is neither a folder nor an archive (.tar, .tar.gz, .zip)")
        return [only]
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
    counts = Counter(str(label) for label in found.labels)
    for name in dataset.classes:
        expected, here = domain.counts[name], counts[name]
        if here != expected:
            said.append(f"{domain.name}/{name}: expected {expected} images, found {here or 'none'}")
    for name, number in found.extra.items():
        near = difflib.get_close_matches(name, dataset.classes, n=1)
        hint = f"; is it {near[0]}?" if near else ""
        said.append(f"{domain.name}/{name}: not a class of {dataset.name} ({number} images){hint}")
    return said


def how_to_get(dataset: Dataset) -> str:
    """The expected tree, the official source and the archives: what to say when nothing is there."""
    tree = "\n".join(f"    {line}" for line in dataset.tree.splitlines())
    way = f"unihssl data download {dataset.name}" if dataset.downloads else dataset.get
    return (
        f"{dataset.title}: expected in the folder, in a folder of it, or as the archive\n{tree}\n"
        f"archives: {', '.join(dataset.archives)}\nsource: {dataset.source}\nlicence: {dataset.licence}\nget it: {way}"
    )

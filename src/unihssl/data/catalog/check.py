"""Is a data set there and complete? Compares the number of images of every class with the published one."""

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path

from unihssl.data.catalog.archives import stem, unpack
from unihssl.data.catalog.dataset import CatalogDomain, Dataset, plain
from unihssl.data.catalog.known import looks_like
from unihssl.data.catalog.layouts import file_names, levels, subfolders
from unihssl.data.decode import Progress
from unihssl.data.source import Source, counted
from unihssl.errors import UserError

StartTask = Callable[[str], Progress | None]  # called with a task's title; returns what is called with (done, total)


@dataclass(frozen=True)
class DomainCheck:
    """What was found of a domain (None: nothing), and how it differs from what was published."""

    domain: CatalogDomain
    found: Source | None
    problems: tuple[str, ...]
    obstacle: Path | None = None  # a folder that keeps an archive from being unpacked, and has nothing of the data set

    @property
    def unusable(self) -> bool:
        """Whether there is nothing, or so little that it may be another data set."""
        return _insufficient(self.domain, self.found)


def check(
    dataset: Dataset,
    root: Path,
    domains: Sequence[CatalogDomain] = (),
    start_task: StartTask = lambda title: None,
) -> tuple[DomainCheck, ...]:
    """Look for these domains (by default all) under the root; archives are unpacked if a domain is missing.

    If the root is an archive, only its contents count.
    """
    root = root.absolute()  # paths must stay valid when the working directory changes
    wanted = domains or dataset.domains
    unpacked: dict[Path, Path] = {}  # folder -> the archive it came from
    if root.is_file():
        archive, root = root, _unpack_root(dataset, root, start_task)
        unpacked[root] = archive
    found = {d.name: dataset.find(dataset, d, root) for d in wanted}
    if any(_insufficient(d, found[d.name]) for d in wanted):
        new = {}
        for archive in (path for path in _archives(root) if _has_usual_name(dataset, path)):
            folder = unpack(archive, start_task(f"unpacking {archive}"), partial(_accept, dataset))
            if folder:
                new[folder] = archive
        if new:
            found = {d.name: dataset.find(dataset, d, root) for d in wanted}
        unpacked |= new
    return tuple(_compare(dataset, domain, found[domain.name], root, unpacked) for domain in wanted)


def where(root: Path) -> str:
    """Where we looked, for a message."""
    return f"in {root} (beside it nothing was looked at)" if root.is_file() else f"under {root}"


def differences(dataset: Dataset, domain: CatalogDomain, found: Source | None) -> list[str]:
    """What differs from the published domain, one line each."""
    if found is None:
        named = f": no folder {' or '.join(domain.folders)}, and no list file" if domain.folders else ""
        return [f"{domain.name}: not found{named}"]
    lines = [f"{domain.name}: {note}" for note in found.notes]
    if lines and len(found) == 0:
        return lines
    counts = Counter(str(label) for label in found.labels)
    for name in dataset.classes:
        expected, number = domain.counts[name], counts[name]
        if number != expected:
            here = f"{number:,}" if number else "none"
            lines.append(f"{domain.name}/{name}: expected {counted(expected, 'image')}, found {here}")
    for name, number in found.other_folders.items():
        near = difflib.get_close_matches(name, dataset.classes, n=1)
        hint = f"; is it {near[0]}?" if near else ""
        lines.append(f"{domain.name}/{name}: not a class of {dataset.name} ({counted(number, 'image')}){hint}")
    return lines


def unknown_archives(dataset: Dataset, root: Path) -> list[Path]:
    """Archives under the root that might be the data set under another name."""
    return [path for path in _archives(root) if not _has_usual_name(dataset, path)]


def how_to_get(dataset: Dataset) -> str:
    """The expected tree, the official source and the archives: to show where nothing was found."""
    tree = "\n".join(f"    {line}" for line in dataset.tree.splitlines())
    kind = "archives" if all(stem(Path(file)) for file in dataset.archives) else "files"
    way = f"unihssl data download {dataset.name}" if dataset.downloads else dataset.get
    return (
        f"{dataset.title}: expected in the folder, in a folder of it, or as the archive\n{tree}\n"
        f"{kind}: {', '.join(dataset.archives)}\nsource: {dataset.source}\nlicence: {dataset.licence}\nget it: {way}"
    )


def _unpack_root(dataset: Dataset, archive: Path, start_task: StartTask) -> Path:
    """The folder of an archive given as root."""
    if not stem(archive):
        raise UserError(
            f"{archive}: is neither a folder nor an archive (.tar, .tar.gz, .zip); give the folder it is in"
        )
    folder = unpack(archive, start_task(f"unpacking {archive}"), partial(_accept, dataset))
    if folder is None:
        raise UserError(f"{archive}: not unpacked, as it holds nothing named like {dataset.title}")
    return folder


def _compare(
    dataset: Dataset, domain: CatalogDomain, found: Source | None, root: Path, unpacked: dict[Path, Path]
) -> DomainCheck:
    """How a domain differs; if there is nothing of it, whether a folder is to blame."""
    problems = differences(dataset, domain, found)
    if found is not None and len(found):
        return DomainCheck(domain, found, (*_too_few(dataset, domain, found, unpacked), *problems))
    obstacle = _obstacle(dataset, domain, (f for f in unpacked if not _has_any(dataset, f)))
    if obstacle:
        blame = f"the folder {obstacle} is in the way of {unpacked[obstacle].name} and has nothing of {dataset.title}"
        problems = [f"{domain.name}: {blame}; move or delete it"]
    elif found is None and (hollow := next(_named_like(domain, root), None)):
        problems = [
            f"{domain.name}: not found: {hollow} has no class folders such as {dataset.classes[0]}, and no list file"
        ]
    return DomainCheck(domain, found, tuple(problems), obstacle)


def _too_few(dataset: Dataset, domain: CatalogDomain, found: Source, unpacked: dict[Path, Path]) -> list[str]:
    """A line if the images may be another data set's, or if unpacking their archive again may bring more."""
    parts = []
    if domain.mostly_missing(found.labels):
        other = looks_like(dataset, domain, found)
        guess = f"looks like {other.name}" if other is not dataset else "may be another data set, or a part of it"
        classes = f"only {domain.classes_with(found.labels)} of {len(domain.counts)} classes have images"
        parts.append(f"{classes} in {found.name}, which {guess}")
    location = Path(found.name)
    folder = next((f for f in (location, *location.parents) if f in unpacked), None)
    if folder and len(found) < domain.total:
        here = f"{len(found):,} of {counted(domain.total, 'image')}, but {unpacked[folder].name} lies beside {folder}"
        parts.append(f"{here}: if that folder is deleted, it is unpacked again")
    return [f"{domain.name}: {'; '.join(parts)}"] if parts else []


def _obstacle(dataset: Dataset, domain: CatalogDomain, folders: Iterable[Path]) -> Path | None:
    """The first of the folders that is not named like another domain: it may stand for this one, or for all."""
    others = {plain(name) for d in dataset.domains if d is not domain for name in d.folders}
    return next((folder for folder in folders if plain(folder.name) not in others), None)


def _named_like(domain: CatalogDomain, root: Path) -> Iterator[Path]:
    """Folders under the root that are named like the domain."""
    names = {plain(name) for name in domain.folders}
    folders = (folder for level in levels(root) for base in level for folder in subfolders(base))
    return (folder for folder in folders if plain(folder.name) in names)


def _has_any(dataset: Dataset, folder: Path) -> bool:
    """Whether a folder has class folders of the data set below it, or files named like its images."""
    below = [f for level in levels(folder) for f in level]
    if dataset.file_prefix:
        return any(name.startswith(dataset.file_prefix) for f in below for name in file_names(f))
    return any(dataset.class_of(f.name) for f in below[1:])


def _insufficient(domain: CatalogDomain, found: Source | None) -> bool:
    return found is None or domain.mostly_missing(found.labels)


def _archives(root: Path) -> list[Path]:
    """All archives in the root and its sub-folders."""
    folders = [folder for level in islice(levels(root), 2) for folder in level]
    paths = [folder / name for folder in folders for name in file_names(folder)]
    return [path for path in paths if stem(path) and path.is_file()]


def _has_usual_name(dataset: Dataset, archive: Path) -> bool:
    return any(fnmatchcase(plain(stem(archive)), hint) for hint in dataset.archive_hints)


def _accept(dataset: Dataset, files: Sequence[tuple[str, ...]]) -> bool:
    """Whether an archive holds classes or files of the data set; a name such as `train.tar` may be a coincidence."""
    if dataset.file_prefix:
        return any(parts[-1].startswith(dataset.file_prefix) for parts in files)
    folders = {part for parts in files for part in parts[:-1]}
    return len({dataset.class_of(folder) for folder in folders} - {None}) > 1

"""Is a data set there and complete? Compares the number of images of every class with the published one."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path

from unihssl.data.catalog.archives import stem, unpack
from unihssl.data.catalog.dataset import CatalogDomain, Dataset, plain
from unihssl.data.catalog.layouts import file_names, levels, subfolders
from unihssl.data.decode import Progress
from unihssl.data.source import Source, counted, nearest
from unihssl.errors import UserError

StartTask = Callable[[str], Progress | None]  # called with a task's title; returns what is called with (done, total)


@dataclass(frozen=True)
class DomainCheck:
    """What was found of a domain (None: nothing), and how it differs from what was published."""

    domain: CatalogDomain
    found: Source | None
    problems: tuple[str, ...]

    @property
    def unusable(self) -> bool:
        """Whether there is nothing, or so little that it may be another data set."""
        return self.domain.mostly_missing(self.found)

    @property
    def may_be_absent(self) -> bool:
        """Whether nothing was found of a domain that is optional."""
        return self.domain.optional and self.found is None


def check(
    dataset: Dataset,
    root: Path,
    domains: Sequence[CatalogDomain] = (),
    start_task: StartTask = lambda title: None,
) -> tuple[DomainCheck, ...]:
    """Find these domains (by default all) under the root. Archives are unpacked if a domain is missing.

    If the root is an archive, only its contents count.
    """
    root = root.absolute()  # paths must stay valid when the working directory changes
    wanted = domains or dataset.domains
    if root.is_file():
        root = _unpack_root(dataset, root, start_task)
    found = [dataset.find(dataset, domain, root) for domain in wanted]
    if any(domain.mostly_missing(source) for domain, source in zip(wanted, found, strict=True)):
        archives = [path for path in _archives(root) if _has_usual_name(dataset, path)]
        unpacked = [_unpack(dataset, archive, start_task) for archive in archives]
        if any(unpacked):
            found = [dataset.find(dataset, domain, root) for domain in wanted]
    return tuple(
        DomainCheck(domain, source, tuple(differences(dataset, domain, source, root)))
        for domain, source in zip(wanted, found, strict=True)
    )


def where(root: Path) -> str:
    """The place that was searched, for a message."""
    return f"in {root} (beside it nothing was looked at)" if root.is_file() else f"under {root}"


def differences(dataset: Dataset, domain: CatalogDomain, found: Source | None, root: Path) -> list[str]:
    """What differs from the published domain, one line each."""
    if found is None:
        return [f"{domain.name}: not found{_why_not_found(dataset, domain, root)}"]
    lines = [f"{domain.name}: {note}" for note in found.notes]
    if lines and len(found) == 0:
        return lines
    if domain.mostly_missing(found):
        classes = f"only {domain.classes_with(found)} of {len(domain.counts)} classes have images"
        lines.insert(0, f"{domain.name}: {classes} in {found.name}, which may be another data set, or a part of this")
    counts = Counter(str(label) for label in found.labels)
    for name in dataset.classes:
        expected, number = domain.counts[name], counts[name]
        if number != expected:
            here = f"{number:,}" if number else "none"
            lines.append(f"{domain.name}/{name}: expected {counted(expected, 'image')}, found {here}")
    for name, number in found.other_folders.items():
        near = nearest(name, dataset.classes)
        hint = f"; is it {near}?" if near else ""
        lines.append(f"{domain.name}/{name}: not a class of {dataset.name} ({counted(number, 'image')}){hint}")
    return lines


def unknown_archives(dataset: Dataset, root: Path) -> list[Path]:
    """Archives under the root that might be the data set under another name."""
    return [path for path in _archives(root) if not _has_usual_name(dataset, path)]


def _why_not_found(dataset: Dataset, domain: CatalogDomain, root: Path) -> str:
    """A reason to add to `not found`: a folder of the right name without classes, or none of that name."""
    if not domain.folders:
        return ""
    names = {plain(name) for name in domain.folders}
    folders = (folder for level in levels(root) for base in level for folder in subfolders(base))
    empty = next((folder for folder in folders if plain(folder.name) in names), None)
    if empty:
        return f": {empty} has no class folders such as {dataset.classes[0]}, and no list file"
    return f": no folder {' or '.join(domain.folders)}, and no list file"


def _unpack(dataset: Dataset, archive: Path, start_task: StartTask) -> Path | None:
    return unpack(archive, start_task(f"unpacking {archive}"), partial(_accept, dataset))


def _unpack_root(dataset: Dataset, archive: Path, start_task: StartTask) -> Path:
    """The folder of an archive given as root."""
    if not stem(archive):
        raise UserError(
            f"{archive}: is neither a folder nor an archive (.tar, .tar.gz, .zip); give the folder it is in"
        )
    folder = _unpack(dataset, archive, start_task)
    if folder is None:
        raise UserError(f"{archive}: not unpacked, as it holds nothing named like {dataset.title}")
    return folder


def _archives(root: Path) -> list[Path]:
    """All archives in the root and its sub-folders."""
    folders = [folder for level in islice(levels(root), 2) for folder in level]
    paths = [folder / name for folder in folders for name in file_names(folder)]
    return [path for path in paths if stem(path) and path.is_file()]


def _has_usual_name(dataset: Dataset, archive: Path) -> bool:
    return any(fnmatchcase(plain(stem(archive)), hint) for hint in dataset.archive_hints)


def _accept(dataset: Dataset, files: Sequence[tuple[str, ...]]) -> bool:
    """Whether an archive holds classes or files of the data set; others may have a name such as `train.tar`, too."""
    if dataset.file_prefix:
        return any(parts[-1].startswith(dataset.file_prefix) for parts in files)
    folders = {part for parts in files for part in parts[:-1]}
    return len({dataset.class_of(folder) for folder in folders} - {None}) > 1

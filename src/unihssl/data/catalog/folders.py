"""Finding a domain as class folders, in any of the layouts that go around."""

import os
from collections.abc import Iterator
from pathlib import Path

from unihssl.data.catalog.dataset import CatalogDomain, Dataset, Found, counted, plain
from unihssl.data.catalog.lists import find_in_lists
from unihssl.data.images import SUFFIXES
from unihssl.data.readers import find_images, some

DEPTH = 2  # the root may be the data set's parent, and an archive may have a wrapping folder


def levels(root: Path) -> Iterator[list[Path]]:
    """Folders that may hold the domains: the root itself, then its sub-folders, then theirs."""
    level = [root] if root.is_dir() else []
    for _ in range(DEPTH + 1):
        yield level
        level = [folder for parent in level for folder in subfolders(parent)]


def subfolders(folder: Path) -> list[Path]:
    """In sorted order; hidden ones, such as an archive half unpacked, are passed over."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(e.name for e in entries if not e.name.startswith((".", "__MACOSX")) and e.is_dir())
    except OSError:
        return []
    return [folder / name for name in names]


def file_names(folder: Path) -> list[str]:
    """What lies in a folder but is none, in sorted order; nothing hidden."""
    try:
        with os.scandir(folder) as entries:
            return sorted(e.name for e in entries if not e.name.startswith(".") and not e.is_dir())
    except OSError:
        return []


def find_domain(dataset: Dataset, domain: CatalogDomain, root: Path) -> Found | None:
    """Class folders if there are any, else a list file; the nearer to the root, the sooner.

    What lacks half of the classes is returned only if nothing better lies deeper: it may be another data set.
    """
    poor = None
    for level in levels(root):
        folders = [root, *(folder for base in level for folder in subfolders(base))]
        found = _class_folders(dataset, domain, folders) or find_in_lists(dataset, domain, level)
        if found and not domain.mostly_missing(found.labels):
            return found
        poor = poor or found
    return poor


def _class_folders(dataset: Dataset, domain: CatalogDomain, folders: list[Path]) -> Found | None:
    """With or without `images/` above the classes. Of several candidates the one with most of the classes is taken."""
    names = {plain(name) for name in domain.folders}
    best, most = None, (0, 0)
    for folder in (f for f in folders if plain(f.name) in names):
        for holder in (folder / "images", folder):
            classes = [dataset.class_of(entry.name) for entry in subfolders(holder)]
            matching = len({c for c in classes if c})
            if matching and (matching, matching - len(classes)) > most:
                best, most = holder, (matching, matching - len(classes))
    return _read(dataset, best) if best else None


def _read(dataset: Dataset, holder: Path) -> Found:
    samples: list[tuple[str, Path, str]] = []
    extra = {}
    for folder in subfolders(holder):
        images, label = find_images(folder), dataset.class_of(folder.name)
        if label is None:
            extra[folder.name] = len(images)
        else:
            start = len(str(folder)) + 1
            samples += [(f"{label}/{str(path)[start:]}", path, label) for path in images]
    loose = [name for name in file_names(holder) if Path(name).suffix.lower() in SUFFIXES]
    lie = "lies" if len(loose) == 1 else "lie"
    remarks = (f"{counted(len(loose), 'image')} {lie} outside any class folder ({some(loose)})",) if loose else ()
    samples.sort()
    names, paths, labels = [s[0] for s in samples], [s[1] for s in samples], [s[2] for s in samples]
    return Found(str(holder), paths, names, labels, extra=extra, remarks=remarks)

"""Finding a domain in the layouts in use: class folders, or a list file with lines of `path number` or `path class`."""

import os
from collections.abc import Iterator
from pathlib import Path

from unihssl.data.catalog.dataset import CatalogDomain, Dataset, missing_note, plain
from unihssl.data.images import find_images, is_image
from unihssl.data.source import Source, counted, first_few
from unihssl.errors import UserError
from unihssl.plain_files import MOST_TABLE, read_bytes

DEPTH = 2  # the root may be the data set's parent, and an archive may have a wrapping folder


def levels(root: Path) -> Iterator[list[Path]]:
    """Folders that may hold the domains: the root itself, then its sub-folders, then theirs."""
    level = [root] if root.is_dir() else []
    for _ in range(DEPTH + 1):
        yield level
        level = [folder for parent in level for folder in subfolders(parent)]


def subfolders(folder: Path) -> list[Path]:
    """The visible folders in a folder, sorted; an archive being unpacked is hidden."""
    return [folder / e.name for e in _visible(folder) if e.is_dir() and not e.name.startswith("__MACOSX")]


def file_names(folder: Path) -> list[str]:
    """The names of the visible files in a folder, sorted."""
    return [e.name for e in _visible(folder) if not e.is_dir()]


def _visible(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted((e for e in entries if not e.name.startswith(".")), key=lambda e: e.name)
    except OSError:
        return []


def find_domain(dataset: Dataset, domain: CatalogDomain, root: Path) -> Source | None:
    """List a domain from its class folders, else from a list file. Places near the root are preferred.

    A candidate without half of the classes may be another data set: it is returned only if there is no better one.
    """
    fallback = None
    for level in levels(root):
        folders = [root, *(folder for base in level for folder in subfolders(base))]
        found = _find_class_folders(dataset, domain, folders)
        if found is None:
            found = _find_list(dataset, domain, level)
        if not domain.mostly_missing(found):
            return found
        fallback = found if fallback is None else fallback
    return fallback


def _find_class_folders(dataset: Dataset, domain: CatalogDomain, folders: list[Path]) -> Source | None:
    """Read the candidate with most classes: a folder of the domain's name, or `images/` in it."""
    names = {plain(name) for name in domain.folders}
    best, most = None, (0, 0)
    for folder in (f for f in folders if plain(f.name) in names):
        for holder in (folder / "images", folder):
            classes = [dataset.class_of(entry.name) for entry in subfolders(holder)]
            matching = len({c for c in classes if c})
            if matching and (matching, matching - len(classes)) > most:
                best, most = holder, (matching, matching - len(classes))
    return _read_class_folders(dataset, best) if best else None


def _read_class_folders(dataset: Dataset, holder: Path) -> Source:
    samples: list[tuple[str, Path, str]] = []
    other_folders = {}
    for folder in subfolders(holder):
        images, label = find_images(folder), dataset.class_of(folder.name)
        if label is None:
            other_folders[folder.name] = len(images)
        else:
            start = len(str(folder)) + 1
            samples += [(f"{label}/{str(path)[start:]}", path, label) for path in images]
    loose = [name for name in file_names(holder) if is_image(name)]
    lie = "lies" if len(loose) == 1 else "lie"
    notes = (f"{counted(len(loose), 'image')} {lie} outside any class folder ({first_few(loose)})",) if loose else ()
    samples.sort()
    names, paths, labels = [s[0] for s in samples], [s[1] for s in samples], [s[2] for s in samples]
    return Source(str(holder), paths, names, labels, notes=notes, other_folders=other_folders)


def _find_list(dataset: Dataset, domain: CatalogDomain, level: list[Path]) -> Source | None:
    """Read `image_list/webcam.txt`, `webcam.txt` or `webcam/image_list.txt` in any folder of this level."""
    names = {plain(name + ending) for name in domain.folders for ending in ("", "_list", "_image_list")}
    inside = {plain(name) for name in domain.folders}
    for base in level:
        for folder in (base / "image_list", base):
            for path in sorted(folder.glob("*.txt")):
                if plain(path.stem) in names:
                    return _read_list(dataset, path, (base, path.parent))
        for path in sorted(base.glob("*/image_list.txt")):
            if plain(path.parent.name) in inside:
                return _read_list(dataset, path, (path.parent, base))
    return None


def _read_list(dataset: Dataset, path: Path, bases: tuple[Path, ...]) -> Source:
    """List the images of a list file, with paths relative to one of `bases`; missing ones are noted."""
    by_label: dict[str, str] = {}
    samples: dict[str, tuple[Path, str]] = {}
    missing = []
    for number, line in enumerate(read_bytes(path, MOST_TABLE).decode(errors="replace").splitlines(), start=1):
        if not line.strip():
            continue
        written, label = [*line.strip().rsplit(maxsplit=1), ""][:2]
        name = _listed_class(dataset, written, label)
        if name is None:
            raise UserError(f"{path}: line {number}: {_expected_line(dataset)}; found: {line.strip()[:80]}")
        if by_label.setdefault(label, name) != name:
            raise UserError(f"{path}: line {number}: label {label} stands for {by_label[label]} and for {name}")
        file = _listed_file(written, bases)
        if file:
            samples[_sample_name(dataset, written, name)] = (file, name)
        else:
            missing.append(written)
    names = sorted(samples)
    items, labels = [samples[n][0] for n in names], [samples[n][1] for n in names]
    return Source(str(path), items, names, labels, notes=missing_note(missing, path.name))


def _expected_line(dataset: Dataset) -> str:
    name = dataset.classes[0]
    ways = f"'images/{name}/1.jpg 0' (a path with the class, and its number) or 'images/1.jpg {name}' (path and class)"
    order = f" or 'images/1.jpg 0' (path and number, {name} being 0)" if dataset.list_order else ""
    return f"expected {ways}{order}"


def _listed_class(dataset: Dataset, written: str, label: str) -> str | None:
    """The class of a line: its label or, for a number, the last folder named like a class, else by the usual order."""
    if not label.isdecimal():
        return dataset.class_of(label)
    for part in reversed(Path(written).parts[:-1]):
        found = dataset.class_of(part)
        if found:
            return found
    return dataset.list_order[int(label)] if int(label) < len(dataset.list_order) else None


def _sample_name(dataset: Dataset, written: str, label: str) -> str:
    """The name that the image would have if it were found in its class folder."""
    parts = Path(written).parts
    folder = next((i for i in range(len(parts) - 2, -1, -1) if dataset.class_of(parts[i])), None)
    return f"{label}/{written}" if folder is None else "/".join((label, *parts[folder + 1 :]))


def _listed_file(written: str, bases: tuple[Path, ...]) -> Path | None:
    """The file of a line; its first folder may be spelled differently (`Real_World` for `Real World`)."""
    for base in bases:
        if (base / written).is_file():
            return base / written
        first, _, rest = written.partition("/")
        for folder in base.iterdir() if rest and base.is_dir() else ():
            if plain(folder.name) == plain(first) and (folder / rest).is_file():
                return folder / rest
    return None

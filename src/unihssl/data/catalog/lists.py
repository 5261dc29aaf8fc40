"""Finding a domain by its list file: lines of `path number` or `path class`."""

from pathlib import Path

from unihssl.data.catalog.dataset import CatalogDomain, Dataset, Found, not_there, plain
from unihssl.errors import UserError


def find_in_lists(dataset: Dataset, domain: CatalogDomain, level: list[Path]) -> Found | None:
    """`image_list/webcam.txt`, `webcam.txt`, or `webcam/image_list.txt`, below any folder of this level."""
    names = {plain(name + ending) for name in domain.folders for ending in ("", "_list", "_image_list")}
    inside = {plain(name) for name in domain.folders}
    for base in level:
        for folder in (base / "image_list", base):
            for path in sorted(folder.glob("*.txt")):
                if plain(path.stem) in names:
                    return _read(dataset, path, (base, path.parent))
        for path in sorted(base.glob("*/image_list.txt")):
            if plain(path.parent.name) in inside:
                return _read(dataset, path, (path.parent, base))
    return None


def _read(dataset: Dataset, path: Path, bases: tuple[Path, ...]) -> Found:
    """The samples a list names; those that are not there are counted, not returned."""
    by_class: dict[str, str] = {}
    samples: dict[str, tuple[Path, str]] = {}
    gone = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        if not line.strip():
            continue
        written, label = [*line.strip().rsplit(maxsplit=1), ""][:2]
        name = _class(dataset, written, label)
        if name is None:
            raise UserError(f"{path}: line {number}: {_expected(dataset)}; found: {line.strip()[:80]}")
        if by_class.setdefault(label, name) != name:
            raise UserError(f"{path}: line {number}: label {label} stands for {by_class[label]} and for {name}")
        place = _place(written, bases)
        if place:
            samples[_name(dataset, written, name)] = (place, name)
        else:
            gone.append(written)
    names = sorted(samples)
    items, labels = [samples[n][0] for n in names], [samples[n][1] for n in names]
    return Found(str(path), items, names, labels, remarks=not_there(gone, path.name))


def _expected(dataset: Dataset) -> str:
    """What a line should look like."""
    name = dataset.classes[0]
    ways = f"'images/{name}/1.jpg 0' (a path with the class, and its number) or 'images/1.jpg {name}' (path and class)"
    order = f" or 'images/1.jpg 0' (path and number, {name} being 0)" if dataset.list_order else ""
    return f"expected {ways}{order}"


def _class(dataset: Dataset, written: str, label: str) -> str | None:
    """The class that the label names; for a number the path's last folder that names one, else the usual order's."""
    if not label.isdecimal():
        return dataset.class_of(label)
    for part in reversed(Path(written).parts[:-1]):
        found = dataset.class_of(part)
        if found:
            return found
    return dataset.list_order[int(label)] if int(label) < len(dataset.list_order) else None


def _name(dataset: Dataset, written: str, label: str) -> str:
    """Class and what follows it: the name the image has when it is found by its folder."""
    parts = Path(written).parts
    folder = next((i for i in range(len(parts) - 2, -1, -1) if dataset.class_of(parts[i])), None)
    return f"{label}/{written}" if folder is None else "/".join((label, *parts[folder + 1 :]))


def _place(written: str, bases: tuple[Path, ...]) -> Path | None:
    """The file, where lists written for another folder name (`Real_World` for `Real World`) are understood too."""
    for base in bases:
        if (base / written).is_file():
            return base / written
        first, _, rest = written.partition("/")
        for folder in base.iterdir() if rest and base.is_dir() else ():
            if plain(folder.name) == plain(first) and (folder / rest).is_file():
                return folder / rest
    return None

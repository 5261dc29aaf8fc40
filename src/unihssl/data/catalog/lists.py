"""Finding a domain by its list file: lines of `path label`."""

from pathlib import Path

from unihssl.data.catalog.dataset import CatalogDomain, Dataset, Found, plain
from unihssl.data.readers import some
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
        written, _, label = line.strip().rpartition(" ")
        if not written or not label.isdigit():
            raise UserError(f"{path}: line {number} is not 'path label': {line[:80]}")
        name = _class(dataset, written, int(label))
        if name is None:
            raise UserError(f"{path}: line {number}: no class of {dataset.name} is in the path {written}")
        if by_class.setdefault(label, name) != name:
            raise UserError(f"{path}: line {number}: label {label} stands for {by_class[label]} and for {name}")
        place = _place(written.strip(), bases)
        if place:
            samples[_name(dataset, written, name)] = (place, name)
        else:
            gone.append(written)
    remarks = (f"{len(gone)} images of {path.name} are not there ({some(gone, 3)})",) if gone else ()
    names = sorted(samples)
    items, labels = [samples[n][0] for n in names], [samples[n][1] for n in names]
    return Found(str(path), items, names, labels, remarks=remarks)


def _class(dataset: Dataset, written: str, label: int) -> str | None:
    """By the path's last folder that names a class; else by the number, where one order of numbers is in use."""
    for part in reversed(Path(written).parts[:-1]):
        found = dataset.class_of(part)
        if found:
            return found
    return dataset.list_order[label] if label < len(dataset.list_order) else None


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

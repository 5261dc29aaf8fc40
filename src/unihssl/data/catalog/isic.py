"""ISIC-2019: photographs of skin lesions. The domains are two of its sources, known by the prefix of `lesion_id`."""

import csv
from collections.abc import Iterator
from pathlib import Path

from unihssl.data.catalog.dataset import CatalogDomain, Dataset, Remote, missing_note
from unihssl.data.catalog.layouts import file_names, levels
from unihssl.data.images import is_image
from unihssl.data.source import Source
from unihssl.errors import UserError

GROUND_TRUTH, METADATA = "ISIC_2019_Training_GroundTruth.csv", "ISIC_2019_Training_Metadata.csv"
IMAGES, PREFIX = "ISIC_2019_Training_Input", "ISIC_"
_CLASSES = ("MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC")
_URL = "https://isic-challenge-data.s3.amazonaws.com/2019/"


def find_domain(dataset: Dataset, domain: CatalogDomain, root: Path) -> Source | None:
    """List the images of one domain, with their lesions; None if there is nothing of the data set."""
    files = _image_files(root)
    tables = {name: _find_file(root, name) for name in (GROUND_TRUTH, METADATA)}
    if not files and not any(tables.values()):
        return None
    missing = [name for name, path in tables.items() if path is None]
    if missing:
        return Source(str(root), [], [], [], notes=(f"{' and '.join(missing)} not found under {root}",))
    lesions = {row["image"]: row["lesion_id"] or "" for row in _rows(tables[METADATA], ("image", "lesion_id"))}
    samples, gone = [], []
    for row in _rows(tables[GROUND_TRUTH], ("image", *dataset.classes)):
        image, lesion = row["image"], lesions.get(row["image"], "")
        if not lesion.startswith(f"{domain.short}_"):
            continue
        label = next((c for c in dataset.classes if _number(row, c, tables[GROUND_TRUTH]) == 1), None)
        if label and image in files:
            samples.append((image, label, lesion))
        elif label:
            gone.append(image)
    samples.sort()
    names, labels, groups = ([s[i] for s in samples] for i in range(3))
    items = [files[name] for name in names]
    folder = items[0].parent if items else root
    notes = missing_note(sorted(gone), GROUND_TRUTH)
    return Source(str(folder), items, names, labels, {"lesion_id": groups}, notes)


def _image_files(root: Path) -> dict[str, Path]:
    """Image name without suffix -> file, from the first folder that holds ISIC images, nearest to the root."""
    for level in levels(root):
        for folder in sorted(level, key=lambda f: f.name != IMAGES):
            images = [name for name in file_names(folder) if name.startswith(PREFIX) and is_image(name)]
            if images:
                return {Path(name).stem: folder / name for name in images}
    return {}


def _find_file(root: Path, name: str) -> Path | None:
    found = (folder / name for level in levels(root) for folder in level if (folder / name).is_file())
    return next(found, None)


def _rows(path: Path | None, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    assert path is not None
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            missing = [c for c in columns if c not in (reader.fieldnames or ())]
            if missing:
                raise UserError(f"{path}: no column {', '.join(missing)}; is it the official file?")
            yield from reader
    except (UnicodeDecodeError, csv.Error, ValueError) as error:
        raise UserError(f"{path}: not a readable CSV file ({error})") from None


def _number(row: dict[str, str], column: str, path: Path | None) -> float:
    try:
        return float(row[column] or 0)
    except ValueError:
        raise UserError(
            f"{path}: row {row['image']}, column {column}: expected 0 or 1, found '{row[column]}'; is it the official "
            "file?"
        ) from None


def _domain(name: str, *counts: int) -> CatalogDomain:
    return CatalogDomain(name, name, dict(zip(_CLASSES, counts, strict=True)))


DATASET = Dataset(
    name="isic-2019",
    title="ISIC-2019",
    classes=_CLASSES,
    domains=(
        _domain("BCN", 2857, 4206, 2809, 737, 1138, 124, 111, 431),
        _domain("HAM", 1113, 6705, 514, 130, 1099, 115, 142, 197),
    ),
    pairs=("BCN/HAM", "HAM/BCN"),
    licence="CC-BY-NC 4.0",
    source="https://challenge.isic-archive.com/data/#2019",
    archives=(f"{IMAGES}.zip", GROUND_TRUTH, METADATA),
    tree=f"{IMAGES}/ISIC_0000000.jpg\n{GROUND_TRUTH}\n{METADATA}",
    find=find_domain,
    file_prefix=PREFIX,
    downloads=(Remote(_URL + GROUND_TRUTH), Remote(_URL + METADATA), Remote(f"{_URL}{IMAGES}.zip")),
    archive_hints=("isic2019", "isic2019traininginput*"),
    caution="split by image, as in the paper, test images share their lesions with training images and accuracy is "
    "too high; group_by=lesion_id keeps a lesion on one side",
    cure="lesion_id",
)

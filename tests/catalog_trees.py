"""Data sets laid out on disk as published, every image a hard link to one tiny file."""

import csv
import io
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from PIL import Image

from unihssl.data.catalog.dataset import Dataset

SHARED = Path(os.environ.get("UNIHSSL_SHARED", Path(__file__).parents[2] / "shared")) / "data"


def tiny(suffix: str = ".jpg") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (120, 30, 60)).save(buffer, {".jpg": "JPEG", ".png": "PNG"}[suffix])
    return buffer.getvalue()


def image_names(count: int, suffix: str = ".jpg") -> Iterator[str]:
    return (f"frame_{number:05d}{suffix}" for number in range(1, count + 1))


def fill(folder: Path, count: int, suffix: str = ".jpg") -> None:
    """A folder of so many images: one file, many names."""
    folder.mkdir(parents=True)
    names = [str(folder / name) for name in image_names(count, suffix)]
    Path(names[0]).write_bytes(tiny(suffix))
    for name in names[1:]:
        os.link(names[0], name)


def lay_out(root: Path, dataset: Dataset, images: str = "", suffix: str = ".jpg", rename=lambda name: name) -> Path:
    """domain/[images/]class/image for every domain; `rename` changes folder names."""
    for domain in dataset.domains:
        for name, count in domain.counts.items():
            fill(root / rename(domain.folders[0]) / images / rename(name), count, suffix)
    return root


def lay_out_lists(root: Path, dataset: Dataset, folder=lambda name: name) -> Path:
    """Images with no folder of their class, and image_list/<domain>.txt that tells it by number."""
    for domain in dataset.domains:
        lines = []
        for label, count in enumerate(domain.counts.values()):
            fill(root / "pool" / domain.name / f"c{label}", count)
            lines += [f"pool/{domain.name}/c{label}/{image} {label}" for image in image_names(count)]
        path = root / "image_list" / f"{folder(domain.folders[0])}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    return root


def thinned(dataset: Dataset, divisor: int) -> Dataset:
    """The same data set with a part of the images of each class."""
    domains = [replace(d, counts={name: -(-n // divisor) for name, n in d.counts.items()}) for d in dataset.domains]
    return replace(dataset, domains=tuple(domains))


def lay_out_real_isic(root: Path) -> Path:
    """The official CSV files, and a tiny image for each of their rows."""
    for table in sorted((SHARED / "isic2019").glob("*.csv")):
        (root / table.name).symlink_to(table)
    with (root / "ISIC_2019_Training_GroundTruth.csv").open() as file:
        images = [line.partition(",")[0] for line in file][1:]
    folder = root / "ISIC_2019_Training_Input"
    fill(folder, 1)
    for image in images:
        os.link(folder / "frame_00001.jpg", folder / f"{image}.jpg")
    return root


def lay_out_isic(root: Path, rows: list[tuple[str, str, str]], classes: tuple[str, ...]) -> Path:
    """Both CSV files and the images, from (image, class, lesion)."""
    folder = root / "ISIC_2019_Training_Input"
    folder.mkdir(parents=True)
    first = folder / f"{rows[0][0]}.jpg"
    first.write_bytes(tiny())
    for image, *_ in rows[1:]:
        os.link(first, folder / f"{image}.jpg")
    with (root / "ISIC_2019_Training_GroundTruth.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["image", *classes, "UNK"])
        table.writerows([image, *(f"{label == c:.1f}" for c in classes), "0.0"] for image, label, _ in rows)
    with (root / "ISIC_2019_Training_Metadata.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["image", "age_approx", "anatom_site_general", "lesion_id", "sex"])
        table.writerows([image, 55, "anterior torso", lesion, "female"] for image, _, lesion in rows)
    return root

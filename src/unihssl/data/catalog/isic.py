"""ISIC-2019: photographs of skin lesions. The domains are two of its sources, known by the prefix of `lesion_id`."""

from pathlib import Path

from unihssl.data.catalog.dataset import CatalogDomain, Dataset, Remote, domain_of, missing_note
from unihssl.data.catalog.layouts import file_names, levels
from unihssl.data.images import is_image
from unihssl.data.source import Source, csv_rows

GROUND_TRUTH, METADATA = "ISIC_2019_Training_GroundTruth.csv", "ISIC_2019_Training_Metadata.csv"
IMAGES, PREFIX = "ISIC_2019_Training_Input", "ISIC_"
_CLASSES = ("MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC")
_URL = "https://isic-challenge-data.s3.amazonaws.com/2019/"


def find_domain(dataset: Dataset, domain: CatalogDomain, root: Path) -> Source | None:
    """List the images of one domain, with their lesions; None if there is nothing of the data set."""
    files = _image_files(root)
    truth, metadata = _find_file(root, GROUND_TRUTH), _find_file(root, METADATA)
    if not files and not truth and not metadata:
        return None
    if not truth or not metadata:
        missing = " and ".join(name for name, path in ((GROUND_TRUTH, truth), (METADATA, metadata)) if not path)
        return Source(str(root), [], [], [], notes=(f"{missing} not found under {root}",))
    lesions = {row["image"]: row["lesion_id"] or "" for row in csv_rows(metadata, ("image", "lesion_id"))}
    samples, missing_images = [], []
    for row in csv_rows(truth, ("image", *dataset.classes)):
        image, lesion = row["image"], lesions.get(row["image"], "")
        label = next((c for c in dataset.classes if row[c] in ("1", "1.0")), None)
        if not label or not lesion.startswith(f"{domain.short}_"):
            continue
        if image in files:
            samples.append((image, label, lesion))
        else:
            missing_images.append(image)
    samples.sort()
    names, labels, groups = ([s[i] for s in samples] for i in range(3))
    items = [files[name] for name in names]
    folder = items[0].parent if items else root
    notes = missing_note(sorted(missing_images), GROUND_TRUTH)
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


DATASET = Dataset(
    name="isic-2019",
    title="ISIC-2019",
    classes=_CLASSES,
    domains=(
        domain_of("BCN", "BCN", _CLASSES, (2857, 4206, 2809, 737, 1138, 124, 111, 431)),
        domain_of("HAM", "HAM", _CLASSES, (1113, 6705, 514, 130, 1099, 115, 142, 197)),
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
    "too high; set group_by to lesion_id to keep a lesion on one side",
    safe_group_by="lesion_id",
)

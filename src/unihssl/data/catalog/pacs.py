"""PACS (Li et al., 2017): photographs, paintings, cartoons and sketches."""

from unihssl.data.catalog.dataset import CatalogDomain, Dataset
from unihssl.data.catalog.layouts import find_domain

_CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")


def _domain(name: str, short: str, *counts: int) -> CatalogDomain:
    return CatalogDomain(name, short, dict(zip(_CLASSES, counts, strict=True)), (name,))


DATASET = Dataset(
    name="pacs",
    title="PACS",
    classes=_CLASSES,
    domains=(
        _domain("photo", "P", 189, 202, 182, 186, 199, 280, 432),
        _domain("art_painting", "A", 379, 255, 285, 184, 201, 295, 449),
        _domain("cartoon", "C", 389, 457, 346, 135, 324, 288, 405),
        _domain("sketch", "S", 772, 740, 753, 608, 816, 80, 160),
    ),
    pairs=(),
    licence="none stated; for research",
    source="https://dali-dl.github.io/project_iccv2017.html",
    archives=("PACS.zip",),
    get="fetch it with a browser from the page",
    tree="photo/<class>/056_0001.jpg\nart_painting/<class>/pic_001.jpg\ncartoon/<class>/...\nsketch/<class>/...",
    find=find_domain,
    archive_hints=("pacs*",),
)

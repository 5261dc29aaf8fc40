"""PACS (Li et al., 2017): photographs, paintings, cartoons and sketches."""

from unihssl.data.catalog.dataset import Dataset, domain_of
from unihssl.data.catalog.layouts import find_domain

_CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")


DATASET = Dataset(
    name="pacs",
    title="PACS",
    classes=_CLASSES,
    domains=(
        domain_of("photo", "P", _CLASSES, (189, 202, 182, 186, 199, 280, 432), ("photo",)),
        domain_of("art_painting", "A", _CLASSES, (379, 255, 285, 184, 201, 295, 449), ("art_painting",)),
        domain_of("cartoon", "C", _CLASSES, (389, 457, 346, 135, 324, 288, 405), ("cartoon",)),
        domain_of("sketch", "S", _CLASSES, (772, 740, 753, 608, 816, 80, 160), ("sketch",)),
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

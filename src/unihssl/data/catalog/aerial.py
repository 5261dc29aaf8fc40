"""Aerial photographs: seven classes that RSSCN7 (Zou et al., 2015) and AID (Xia et al., 2017) share, 150 of each."""

from unihssl.data.catalog.dataset import Dataset, domain_of
from unihssl.data.catalog.layouts import find_domain

_CLASSES = ("Field", "Forest", "Grass", "Industry", "Parking", "Resident", "RiverLake")
_COUNTS = (150,) * len(_CLASSES)


DATASET = Dataset(
    name="aerial",
    title="Aerial (RSSCN7, AID)",
    classes=_CLASSES,
    domains=(
        domain_of("rsscn7", "R", _CLASSES, _COUNTS, ("rsscn7",)),
        domain_of("aid", "I", _CLASSES, _COUNTS, ("aid",)),
    ),
    pairs=(),
    licence="none stated; for research",
    source="https://sites.google.com/site/qinzoucn/documents (RSSCN7), https://captain-whu.github.io/AID (AID)",
    archives=("RSSCN7.zip", "AID.zip"),
    get="fetch both with a browser, and put 150 images of each class into the folders below",
    tree="rsscn7/<class>/000.jpg\naid/<class>/000.jpg",
    find=find_domain,
    archive_hints=("rsscn7*", "aid*"),
    class_aliases={"farmland": "Field", "meadow": "Grass", "industrial": "Industry", "river": "RiverLake"},
)

"""VisDA-2017, classification (Peng et al., 2017): renderings of 3D models, and cut-outs of photographs."""

from unihssl.data.catalog.dataset import Dataset, Remote, domain_of
from unihssl.data.catalog.layouts import find_domain

_NAMES = "aeroplane bicycle bus car horse knife motorcycle person plant skateboard train truck"
_CLASSES = tuple(_NAMES.split())
# The synthetic counts were not compared with the archive; their sum is the published total.
_SYNTHETIC = (14309, 7365, 16640, 12800, 9512, 14240, 17360, 12160, 10371, 11680, 16000, 9960)
_REAL = (3646, 3475, 4690, 10401, 4691, 2075, 5796, 4000, 4549, 2281, 4236, 5548)


DATASET = Dataset(
    name="visda-2017",
    title="VisDA-2017",
    classes=_CLASSES,
    domains=(
        domain_of("synthetic", "S", _CLASSES, _SYNTHETIC, ("train",)),
        domain_of("real", "R", _CLASSES, _REAL, ("validation",)),
    ),
    pairs=("S/R",),
    licence="the challenge's terms: non-commercial research",
    source="https://github.com/VisionLearningGroup/taskcv-2017-public",
    archives=("train.tar", "validation.tar"),
    tree="train/<class>/*.png\nvalidation/<class>/*.jpg",
    find=find_domain,
    downloads=(
        Remote("http://csr.bu.edu/ftp/visda17/clf/train.tar"),
        Remote("http://csr.bu.edu/ftp/visda17/clf/validation.tar"),
    ),
    archive_hints=("train", "validation", "visda*"),
    class_aliases={"airplane": "aeroplane"},
    list_order=_CLASSES,
)

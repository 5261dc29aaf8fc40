"""Office-Caltech-10 (Gong et al., 2012): the ten classes that Office-31 and Caltech-256 share."""

from unihssl.data.catalog.dataset import Dataset, domain_of
from unihssl.data.catalog.layouts import find_domain

_NAMES = "backpack bike calculator headphones keyboard laptop monitor mouse mug projector"
_CLASSES = tuple(_NAMES.split())


DATASET = Dataset(
    name="office-caltech-10",
    title="Office-Caltech-10",
    classes=_CLASSES,
    domains=(
        domain_of("amazon", "A", _CLASSES, (92, 82, 94, 99, 100, 100, 99, 100, 94, 98), ("amazon",)),
        domain_of("caltech10", "C", _CLASSES, (151, 110, 100, 138, 85, 128, 133, 94, 87, 97), ("caltech10", "caltech")),
        domain_of("dslr", "D", _CLASSES, (12, 21, 12, 13, 10, 24, 22, 12, 8, 23), ("dslr",)),
        domain_of("webcam", "W", _CLASSES, (29, 21, 31, 27, 27, 30, 43, 30, 27, 30), ("webcam",)),
    ),
    pairs=(),
    licence="none stated; for research",
    source="https://github.com/LeoGautheron/OfficeCaltechDomainAdaptation",
    archives=("OfficeCaltechDomainAdaptation-master.zip",),
    get="clone the repository, or use its Download ZIP; its images are in domain/class folders",
    tree="amazon/<class>/frame_0001.jpg\ncaltech10/<class>/...\ndslr/<class>/...\nwebcam/<class>/...",
    find=find_domain,
    archive_hints=("officecaltech*",),
    class_aliases={"laptopcomputer": "laptop"},  # as in Office-31
)

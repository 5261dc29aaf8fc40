"""Every data set of the catalog, by name."""

import difflib

from unihssl.data.catalog import aerial, digits, isic, office31, office_caltech, office_home, pacs, visda
from unihssl.data.catalog.dataset import CatalogDomain, Dataset, plain
from unihssl.data.source import Source
from unihssl.errors import UserError

DATASETS: dict[str, Dataset] = {
    module.DATASET.name: module.DATASET
    for module in (office31, office_home, visda, isic, pacs, office_caltech, aerial, digits)
}


def get(name: str) -> Dataset:
    """A data set by name; `office31`, `Office-Home` and `visda` work too."""
    for dataset in DATASETS.values():
        if plain(name) in (plain(dataset.name), plain(dataset.name).removesuffix("2017").removesuffix("2019")):
            return dataset
    near = difflib.get_close_matches(name.lower(), DATASETS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UserError(f"unknown data set '{name}': {hint}there are {', '.join(DATASETS)}")


def looks_like(dataset: Dataset, domain: CatalogDomain, found: Source) -> Dataset:
    """Guess what was found: among data sets with a domain of this name, the one whose classes match best."""
    names = {str(label) for label in found.labels} | set(found.other_folders)
    folders = {plain(name) for name in domain.folders}

    def share(other: Dataset) -> float:
        return len({other.class_of(name) for name in names} - {None}) / len(other.classes)

    others = (d for d in DATASETS.values() if any(folders & set(map(plain, x.folders)) for x in d.domains))
    return max((dataset, *others), key=share)

"""The benchmark data sets: what they hold, whether they are here and whole, and their domains as sources to train on.

>>> from unihssl.data import catalog
>>> labeled, unlabeled = catalog.load("office-31", "A/W", "data/office31")
>>> model = unihssl.fit(labeled, unlabeled)
"""

import difflib
from pathlib import Path

from unihssl.data.catalog import digits, isic, office31, office_caltech, office_home, pacs, visda
from unihssl.data.catalog.check import check, how_to_get
from unihssl.data.catalog.dataset import CatalogDomain, Dataset, plain
from unihssl.data.listed import Listed
from unihssl.data.readers import some
from unihssl.errors import UserError

DATASETS: dict[str, Dataset] = {
    module.DATASET.name: module.DATASET for module in (office31, office_home, visda, isic, pacs, office_caltech, digits)
}
PREFIX = "catalog:"


def get(name: str) -> Dataset:
    """A data set by name; `office31`, `Office-Home` and `visda` do as well."""
    for dataset in DATASETS.values():
        if plain(name) in (plain(dataset.name), plain(dataset.name).removesuffix("2017").removesuffix("2019")):
            return dataset
    near = difflib.get_close_matches(name.lower(), DATASETS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UserError(f"unknown data set '{name}': {hint}there are {', '.join(DATASETS)}")


def load(name: str, pair: str, root: str | Path = "data") -> tuple[Listed, Listed]:
    """The labeled and the unlabeled domain of a pair such as `A/W` or `amazon/webcam`.

    Counts that differ from the published ones are noted in the sources, not refused.
    """
    dataset = get(name)
    labeled, unlabeled = dataset.pair(pair)
    return load_domain(dataset, labeled, Path(root)), load_domain(dataset, unlabeled, Path(root))


def load_domain(dataset: Dataset, domain: CatalogDomain, root: Path) -> Listed:
    (result,) = check(dataset, root, (domain,))
    found = result.found
    if found is None or len(found.items) == 0:
        raise UserError(f"{dataset.name}: {result.problems[0]} under {root}; see: unihssl data check {dataset.name}")
    reference = f"{PREFIX}{dataset.name}/{domain.name}@{root.resolve()}"
    notes: tuple[str, ...] = ()
    if result.problems:
        notes = (f"{dataset.name} is not as published, results may not compare: {some(result.problems, 4)}",)
    return Listed(reference, found.items, found.names, found.labels, found.columns, notes)


def from_reference(reference: str) -> Listed:
    """The source that a run noted as `catalog:NAME/DOMAIN@ROOT`."""
    name, _, rest = reference.removeprefix(PREFIX).partition("/")
    domain, _, root = rest.partition("@")
    dataset = get(name)
    return load_domain(dataset, dataset.domain(domain), Path(root or "data"))


__all__ = ["DATASETS", "Dataset", "check", "from_reference", "get", "how_to_get", "load", "load_domain"]

"""The benchmark data sets: what they hold, whether a copy is complete, and their domains as sources to train on.

>>> from unihssl.data import catalog
>>> labeled, unlabeled = catalog.load("office-31", "A/W", "data/office31")
>>> model = unihssl.fit(labeled, unlabeled)
"""

from dataclasses import replace
from pathlib import Path

from unihssl.data.catalog import aerial, digits, isic, office31, office_caltech, office_home, pacs, visda
from unihssl.data.catalog.check import check, where
from unihssl.data.catalog.dataset import CatalogDomain, Dataset, plain
from unihssl.data.source import PREFIX, Source, did_you_mean, first_few
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
    hint = did_you_mean(name.lower(), DATASETS)
    raise UserError(f"unknown data set '{name}': {hint}there are {', '.join(DATASETS)}")


def load(name: str, pair: str, root: str | Path = "data") -> tuple[Source, Source]:
    """The labeled and the unlabeled domain of a pair such as `A/W` or `amazon/webcam`, from the folder `root`.

    Counts that differ from the published ones become notes of the sources. A domain without half of its classes is
    an error.
    """
    dataset = get(name)
    labeled, unlabeled = dataset.pair(pair)
    return load_domain(dataset, labeled, Path(root)), load_domain(dataset, unlabeled, Path(root))


def load_domain(dataset: Dataset, domain: CatalogDomain, root: Path) -> Source:
    """One domain, named `catalog:NAME/DOMAIN@ROOT`, so that `from_reference` finds it again."""
    (result,) = check(dataset, root, (domain,))
    if result.found is None or result.unusable:
        raise UserError(f"{dataset.name}: {result.problems[0]} {where(root)}; its official source is {dataset.source}")
    notes: tuple[str, ...] = ()
    if result.problems:
        notes = (f"{dataset.name} is not as published, results may not compare: {first_few(result.problems, 4)}",)
    return replace(result.found, name=f"{PREFIX}{dataset.name}/{domain.name}@{root.resolve()}", notes=notes)


def from_reference(reference: str) -> Source:
    """The source that a run recorded as `catalog:NAME/DOMAIN@ROOT`."""
    name, _, rest = reference.removeprefix(PREFIX).partition("/")
    domain, _, root = rest.partition("@")
    dataset = get(name)
    return load_domain(dataset, dataset.domain(domain), Path(root or "data"))


__all__ = ["DATASETS", "Dataset", "check", "from_reference", "get", "load", "load_domain"]

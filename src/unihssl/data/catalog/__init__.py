"""The benchmark data sets: what they hold, whether they are here and whole, and their domains as sources to train on.

>>> from unihssl.data import catalog
>>> labeled, unlabeled = catalog.load("office-31", "A/W", "data/office31")
>>> model = unihssl.fit(labeled, unlabeled)
"""

from pathlib import Path

from unihssl.data.catalog.check import check, how_to_get, where
from unihssl.data.catalog.dataset import CatalogDomain, Dataset
from unihssl.data.catalog.known import DATASETS, get
from unihssl.data.listed import Listed
from unihssl.data.readers import some
from unihssl.errors import UserError

PREFIX = "catalog:"


def load(name: str, pair: str, root: str | Path = "data") -> tuple[Listed, Listed]:
    """The labeled and the unlabeled domain of a pair such as `A/W` or `amazon/webcam`.

    Counts that differ from the published ones are noted in the sources, not refused; a domain that lacks half of
    its classes, or more, is.
    """
    dataset = get(name)
    labeled, unlabeled = dataset.pair(pair)
    return load_domain(dataset, labeled, Path(root)), load_domain(dataset, unlabeled, Path(root))


def load_domain(dataset: Dataset, domain: CatalogDomain, root: Path) -> Listed:
    (result,) = check(dataset, root, (domain,))
    found = result.found
    if found is None or result.unusable:
        raise UserError(
            f"{dataset.name}: {result.problems[0]} {where(root)}; see: unihssl data check {dataset.name} --root {root}"
        )
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

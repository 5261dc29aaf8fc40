"""What is no longer as it was when a model was trained: the data that its run names, and this package."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unihssl.data.cache import Cache, cache_folder
from unihssl.data.decode import content_key, hash_files
from unihssl.data.domain import Domain, labeled_domain, unlabeled_domain
from unihssl.data.readers import is_reference, several
from unihssl.data.store import fill_store
from unihssl.errors import UserError
from unihssl.run_folder import own_version

if TYPE_CHECKING:
    from unihssl.evaluation.model import Model

MOST_BYTES = 2**29  # of image files that are read to compare them, if the cache does not know them


def other_version_note(model: "Model") -> list[str]:
    """A line if another version of this package trained the model."""
    if model.version in ("", own_version()):
        return []
    return [f"this model was trained by unihssl {model.version}, and this is {own_version()}"]


def changed_data_notes(model: "Model") -> list[str]:
    """A line for each domain whose samples changed since; none for data that is elsewhere now, or was arrays."""
    return [
        f"the {role} data of this model changed since it was trained: {getattr(model.settings, role)}"
        for role, key in model.data.items()
        if role in ("labeled", "unlabeled") and _there(getattr(model.settings, role)) and _changed(model, role, key)
    ]


def _there(source: str) -> bool:
    return bool(source) and not is_reference(source) and all(Path(part).exists() for part in several(source))


def _changed(model: "Model", role: str, key: str) -> bool:
    """Whether the samples have another content key than in training."""
    try:
        domain = _domain(model, role)
    except UserError:  # no longer a domain with the model's classes
        return True
    how = model.rendering(role)
    if isinstance(domain.items, np.ndarray):
        return fill_store(domain, how)[1].key != key
    folder = cache_folder(model.settings.cache)
    cache = Cache(folder) if folder else None
    known = cache.known_key(domain.items, how) if cache else None
    if known:
        return known != key
    if sum(path.stat().st_size for path in domain.items if path.is_file()) > MOST_BYTES:
        return cache is not None and cache.has(key)  # it would know these files, were they as they were
    return content_key(hash_files(domain.items), how) != key


def _domain(model: "Model", role: str) -> Domain:
    """The samples, listed as in training."""
    if role == "labeled":
        return labeled_domain(model.settings.labeled, model.settings)
    return unlabeled_domain(model.settings.unlabeled, tuple(model.classes_.tolist()), model.settings)

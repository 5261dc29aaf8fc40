"""What is no longer as it was when a model was trained: the data that its run names, and this package."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unihssl.data.cache import Cache, cache_folder
from unihssl.data.decode import content_key, hash_files
from unihssl.data.domain import Domain, labeled_domain, unlabeled_domain
from unihssl.data.readers import is_reference, several
from unihssl.data.store import fill_store
from unihssl.errors import UserError, printable
from unihssl.run_folder import RunFolder
from unihssl.version import __version__

if TYPE_CHECKING:
    from unihssl.evaluation.model import Model

MOST_BYTES = 2**29  # of image files that are read to compare them, if the cache does not know them
PARTS = ("train", "test", "unused")  # of a run's split


def other_version_note(model: "Model") -> list[str]:
    """A line if another version of this package trained the model."""
    if not model.version or __version__ == model.version:
        return []
    return [printable(f"this model was trained by unihssl {model.version[:40]}, and this is {__version__}")]


def changed_data_notes(model: "Model") -> list[str]:
    """A line for each domain of the model's run that changed since; none if it is elsewhere now, or was arrays."""
    if model.folder is None or not (run := RunFolder(model.folder)).split.exists():
        return []
    return [
        printable(f"the {role} data of this model changed since it was trained: {getattr(model.settings, role)}")
        for role, record in run.read_split().items()
        if role in model.data and _changed(model, role, sum(len(record.get(part, ())) for part in PARTS))
    ]


def _changed(model: "Model", role: str, count: int) -> bool:
    """Whether the samples, `count` in training, have another content key now; not if that cannot be told."""
    source = getattr(model.settings, role, "")
    try:
        if not source or is_reference(source) or not all(Path(part).exists() for part in several(source)):
            return False
        if is_too_large(source, count):
            return False
        return _content(model, _domain(model, role), role) != model.data[role]
    except UserError:  # no longer a domain with the model's classes
        return True
    except (OSError, MemoryError):
        return False


def is_too_large(source: str, count: int) -> bool:
    """Whether far more is there than the `count` samples of a run: one from elsewhere may name any place here."""
    return any(_has_more_than(Path(part), 1000 + 10 * count) for part in several(source))


def _has_more_than(place: Path, most: int) -> bool:
    """Whether a folder, links followed, has more visible entries, or a file more bytes than are read to compare."""
    if place.is_file():
        return place.stat().st_size > MOST_BYTES
    entries = 0
    for _, folders, files in os.walk(place, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        entries += len(folders) + len(files)
        if entries > most:
            return True
    return False


def _content(model: "Model", domain: Domain, role: str) -> str:
    """The content key of the samples."""
    how = model.rendering(role)
    if isinstance(domain.items, np.ndarray):
        return fill_store(domain, how)[1].key
    folder = cache_folder(model.settings.cache)
    cache = Cache(folder) if folder else None
    if cache and (known := cache.known_key(domain.items, how)):
        return known
    if sum(path.stat().st_size for path in domain.items if path.is_file()) <= MOST_BYTES:
        return content_key(hash_files(domain.items), how)
    # Were these files as they were, the cache would know them, if it has what was made of them.
    return "" if cache and cache.has(model.data[role]) else model.data[role]


def _domain(model: "Model", role: str) -> Domain:
    """The samples, listed as in training."""
    if role == "labeled":
        return labeled_domain(model.settings.labeled, model.settings)
    return unlabeled_domain(model.settings.unlabeled, tuple(model.classes_.tolist()), model.settings)

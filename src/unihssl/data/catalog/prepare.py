"""Decoding a domain into the cache before it is needed."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unihssl.data.cache import Cache
from unihssl.data.catalog.dataset import CatalogDomain, Dataset
from unihssl.data.decode import Progress
from unihssl.data.source import Source
from unihssl.errors import UserError


@dataclass(frozen=True)
class Prepared:
    """Number of decoded images, whether they were decoded now, and why some are unreadable, by sample name."""

    images: int
    new: bool
    unreadable: dict[str, str]


def prepare(
    dataset: Dataset,
    domain: CatalogDomain,
    source: Source,
    side: int,
    cache: Path,
    progress: Progress,
    waiting: Progress | None = None,
) -> Prepared:
    """Decode the domain's images at (side, side) into the cache folder. Arrays (digits) need no decoding."""
    if isinstance(source.items, np.ndarray):
        return Prepared(len(source), False, {})
    try:
        decoded = Cache(cache).decoded(source.items, (side, side), progress, waiting)
    except OSError as error:
        raise UserError(
            f"{cache}: cannot keep {domain.name} of {dataset.name} ({len(source) * side * side * 3:,} bytes): "
            f"{error.strerror or error}; choose another cache folder, here or with the environment variable "
            "UNIHSSL_CACHE"
        ) from None
    unreadable = {source.names[row]: why for row, why in decoded.unreadable.items()}
    return Prepared(len(decoded.pixels), not decoded.found, unreadable)

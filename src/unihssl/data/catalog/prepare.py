"""Decoding a domain once, into the cache that training looks in."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from unihssl.data.cache import JOURNAL, Cache
from unihssl.data.catalog.dataset import CatalogDomain, Dataset, Found
from unihssl.data.decode import Progress
from unihssl.data.journal import Journal
from unihssl.data.signature import files_signature, rows_signature
from unihssl.errors import UserError


@dataclass(frozen=True)
class Prepared:
    """Number of images in the store, whether they were decoded now, and what could not be read, by name."""

    images: int
    new: bool
    unreadable: dict[str, str]


def decoded_before(found: Found, side: int, cache: Path) -> int:
    """How many of the domain's images a call that was stopped has decoded, so that the next need not."""
    building, size, files = Cache(cache).building, (side, side), found.items
    if isinstance(files, np.ndarray) or not any(building.glob(f"*/{JOURNAL}")):
        return 0

    stamp = partial(rows_signature, files, size)
    journal = Journal(building / files_signature(files, size) / JOURNAL, stamp, sync=lambda: None)
    return sum(map(len, journal.read()))


def prepare(
    dataset: Dataset,
    domain: CatalogDomain,
    found: Found,
    side: int,
    cache: Path,
    progress: Progress,
    waiting: Progress | None = None,
) -> Prepared:
    """The domain's images, side x side, in the cache. Arrays (digits) need no decoding and are left as they are."""
    if isinstance(found.items, np.ndarray):
        return Prepared(len(found.items), False, {})
    try:
        decoded = Cache(cache).decoded(found.items, (side, side), progress, waiting)
    except OSError as error:
        size = len(found.items) * side * side * 3
        raise UserError(
            f"{cache}: cannot keep {domain.name} of {dataset.name} ({size:,} bytes): {error.strerror or error}; "
            "choose another folder with --cache or the environment variable UNIHSSL_CACHE"
        ) from None
    unreadable = {found.names[row]: why for row, why in decoded.unreadable.items()}
    return Prepared(len(decoded.pixels), not decoded.found, unreadable)

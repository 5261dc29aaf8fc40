"""Which of the 256 grey levels decoded images use, and a warning where most levels are lost."""

import numpy as np
import torch

from unihssl.data.domain import Domain, spread_rows
from unihssl.data.intensity import GREYS, TAIL, few_levels
from unihssl.data.store import Store
from unihssl.data.survey import array_kind

SAMPLED = 500  # images, spread over a domain, that its grey levels come from
PLAIN = "8 bits"
SIDE = 64  # of larger images every second pixel, or every third, ... counts, so that about as many are left
BATCH = 16  # of them at once: each value is counted as eight bytes


def level_counts(store: Store, rows: np.ndarray) -> np.ndarray:
    """How many values of some of these images, in all channels, have each grey level: (256,)."""
    some = torch.from_numpy(rows[spread_rows(len(rows), SAMPLED)])
    step = max(min(store.samples.shape[1:3]) // SIDE, 1)  # counting every value would take seconds
    parts = (store.take(part)[:, ::step, ::step].numpy() for part in torch.split(some, BATCH))
    return np.asarray(np.sum([np.bincount(part.reshape(-1), minlength=GREYS) for part in parts], axis=0))


def grey_range(counts: np.ndarray) -> tuple[int, int]:
    """The darkest and the lightest level, the outer 0.1% at either end left out."""
    low, high = np.searchsorted(counts.cumsum() / counts.sum(), [TAIL, 1 - TAIL])
    return int(low), int(high)


def plain_notes(domain: Domain, store: Store, rows: np.ndarray) -> list[str]:
    """A warning for each source whose images, which no window was decided for, share less than half of the levels.

    Levels between the darkest and the lightest count as used: drawings in black and white lose nothing.
    """
    if store.samples.dim() != 4:
        return []
    kind = _kind(domain)
    sources = np.full(len(domain), domain.name) if domain.sources is None else domain.sources
    notes = []
    for source in sorted(set(sources[rows].tolist())):
        low, high = grey_range(level_counts(store, rows[sources[rows] == source]))
        notes += few_levels(high - low + 1, f"{source} ({kind})", can_rescale=kind != PLAIN)
    return notes


def _kind(domain: Domain) -> str:
    """How the samples are stored: of arrays of more than 8 bits, for which `intensity` may be chosen, their type."""
    items = domain.items
    return array_kind(items) if isinstance(items, np.ndarray) and items.dtype.itemsize > 1 else PLAIN

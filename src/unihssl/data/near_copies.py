"""Images that look almost the same: saved again, resized, a little brighter. Found by a small perceptual hash."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from unihssl.data.decode import Progress
from unihssl.data.store import Store

BITS = 64
MOST_BITS = 5  # that two hashes may differ in
LEAST_CORRELATION = 0.98  # of two thumbnails
THUMBNAIL = 16  # pixels a side
CHUNK = 512


class Looks(NamedTuple):
    """What N images look like."""

    hashes: Tensor  # (N, 64) of +1 and -1
    thumbnails: Tensor  # (N, 256), each of mean 0 and norm 1
    flat: Tensor  # (N,) bool: one colour all over


def looks(store: Store) -> Looks:
    """The looks of all images of a store. The hash is dHash: is each of 8x9 cells lighter than its neighbour?"""
    store.check()
    parts = [_looks(store.samples[start : start + CHUNK]) for start in range(0, len(store), CHUNK)]
    return Looks(*(torch.cat(part) for part in zip(*parts, strict=True)))


def _looks(images: Tensor) -> Looks:
    grey = images.float().mean(3).unsqueeze(1)
    cells = F.adaptive_avg_pool2d(grey, (8, 9)).squeeze(1)
    small = F.adaptive_avg_pool2d(grey, THUMBNAIL).flatten(1)
    pixels = images.flatten(1, 2)
    flat = (pixels.amax(1) == pixels.amin(1)).all(1)
    hashes = torch.where(cells[:, :, 1:] > cells[:, :, :-1], 1.0, -1.0).flatten(1)
    return Looks(hashes, F.normalize(small - small.mean(1, keepdim=True)), flat)


def near_copies(domains: Sequence[Looks], progress: Progress | None = None) -> Tensor:
    """All pairs that look almost the same, (P, 2): rows counted through all domains, the smaller first."""
    hashes, thumbnails, flat = (torch.cat(part) for part in zip(*domains, strict=True))
    rows = torch.where(~flat)[0]
    hashes, thumbnails = hashes[rows], thumbnails[rows]
    found = [rows.new_empty(0, 2)]
    for start in range(0, len(rows), CHUNK):
        part = slice(start, start + CHUNK)
        agreement = hashes[part] @ hashes[start:].T  # BITS less twice the bits that differ
        alike = (agreement >= BITS - 2 * MOST_BITS) & (thumbnails[part] @ thumbnails[start:].T >= LEAST_CORRELATION)
        found.append(rows[alike.triu(1).nonzero() + start])
        if progress:
            progress(min(start + CHUNK, len(rows)), len(rows))
    return torch.cat(found)

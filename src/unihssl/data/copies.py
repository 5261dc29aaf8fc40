"""Byte-identical samples: a test image that also trains would be counted as if it were new."""

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unihssl.data.domain import Domain
from unihssl.data.split import Split
from unihssl.plain_files import MOST_IMAGE, read_bytes


def drop_trained_copies(found: Sequence[Sequence[bytes]], splits: Sequence[Split]) -> list[Split]:
    """Take out of the test parts what a byte-identical copy of trains, in either domain; `found` by `contents`."""
    trained = {content[row] for content, split in zip(found, splits, strict=True) for row in split.train}
    return [_without(trained, *pair) for pair in zip(found, splits, strict=True)]


def in_both(labeled: Sequence[bytes], unlabeled: Sequence[bytes]) -> int:
    """How many unlabeled samples have a byte-identical copy among the labeled ones."""
    known = set(labeled)
    return sum(content in known for content in unlabeled)


def _without(trained: set[bytes], content: Sequence[bytes], split: Split) -> Split:
    is_copy = np.array([content[row] in trained for row in split.test], dtype=bool)
    return Split(split.train, split.test[~is_copy], split.test[is_copy])


def contents(domains: Sequence[Domain]) -> list[list[bytes]]:
    """For every sample what is equal for identical ones only; files are read only if another has their size."""
    sizes = Counter(size for domain in domains for size in _file_sizes(domain))
    return [_content(domain, sizes) for domain in domains]


def _content(domain: Domain, sizes: Counter[int]) -> list[bytes]:
    if isinstance(domain.items, np.ndarray):
        return [_digest(row.tobytes()) for row in domain.items]
    files = zip(domain.items, _file_sizes(domain), strict=True)
    return [_digest(read_bytes(Path(p), MOST_IMAGE)) if sizes[size] > 1 else os.fsencode(p) for p, size in files]


def _file_sizes(domain: Domain) -> list[int]:
    return [] if isinstance(domain.items, np.ndarray) else [Path(path).stat().st_size for path in domain.items]


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()

"""Byte-identical samples: a test image that also trains would be counted as if it were new."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unihssl.data.domain import Domain
from unihssl.data.split import Split


def untrained(domains: Sequence[Domain], splits: Sequence[Split]) -> list[Split]:
    """The splits without test samples of which a byte-identical copy trains, in either domain."""
    contents = _contents(domains)
    trained = {content[row] for content, split in zip(contents, splits, strict=True) for row in split.train}

    def new(content: list[bytes], split: Split) -> Split:
        return Split(split.train, np.array([row for row in split.test if content[row] not in trained], dtype=np.int64))

    return [new(content, split) for content, split in zip(contents, splits, strict=True)]


def _contents(domains: Sequence[Domain]) -> list[list[bytes]]:
    """For every sample what is equal for identical ones only; files are read only if another has their size."""
    sizes = Counter(size for domain in domains for size in _file_sizes(domain))

    def content(domain: Domain) -> list[bytes]:
        if isinstance(domain.items, np.ndarray):
            return [_digest(row.tobytes()) for row in domain.items]
        files = zip(domain.items, _file_sizes(domain), strict=True)
        return [_digest(Path(p).read_bytes()) if sizes[size] > 1 else str(p).encode() for p, size in files]

    return [content(domain) for domain in domains]


def _file_sizes(domain: Domain) -> list[int]:
    return [] if isinstance(domain.items, np.ndarray) else [Path(path).stat().st_size for path in domain.items]


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()

"""Samples named one by one: what a source is when it is neither a folder nor a file of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Listed:
    """A domain held in memory: image files or an array, with a name and a class for each sample.

    `name` is what a run notes as its source, so it should be readable again. `columns` are further properties of
    the samples (a lesion, a patient) for group_by to choose from; an empty value is a group of its own.
    """

    name: str
    items: Sequence[Path] | np.ndarray
    names: Sequence[str]
    labels: Sequence[str | int | None]
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

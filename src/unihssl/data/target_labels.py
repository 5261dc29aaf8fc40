"""Labels of the unlabeled domain that may be trained on: a CSV, the source's own column, or given in Python."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unihssl.config import COLUMN
from unihssl.data.domain import UNKNOWN, Domain
from unihssl.data.label_file import LabelFile, class_numbers, labeled_rows, read_label_file
from unihssl.data.readers import is_reference, known_label, several
from unihssl.errors import Setting, UserError

IN_MEMORY = "given in Python"  # what a run records of labels without a file


def with_target_labels(domain: Domain, given: Any) -> Domain:
    """The unlabeled domain with the classes of the samples whose labels may be trained on.

    `given` is a CSV (`path,label`), `column` for the labels in the source itself, a mapping from name, path or row
    number to label, or labels (N,) with None or -1 for samples without one.

    >>> with_target_labels(domain, {"0017.png": "benign"}).target_labels.max()
    0
    """
    if isinstance(given, str) and given == COLUMN:
        return replace(domain, target_labels=_own_labels(domain))
    file = read_label_file(Path(given), domain.classes) if isinstance(given, str | Path) else _listed(given, domain)
    rows, classes = labeled_rows(file, domain)
    labels = np.full(len(domain), UNKNOWN)
    labels[rows] = classes
    differs = np.flatnonzero(domain.known & (labels != UNKNOWN) & (labels != domain.labels))
    if len(differs):
        row = differs[0]
        raise UserError(
            f"{file.path}: {domain.names[row]} is labeled {domain.classes[labels[row]]}, but its class in "
            f"{domain.name} is {domain.classes[domain.labels[row]]}; correct one, or ignore the latter with "
            f"{Setting('unlabeled_layout', 'flat')}"
        )
    return replace(domain, target_labels=labels)


def _own_labels(domain: Domain) -> np.ndarray:
    """The labels that the source itself has; class folders would label everything, which nobody means."""
    if any(is_reference(part) or Path(part).is_dir() for part in several(domain.name)):
        raise UserError(f"{domain.name}: {Setting('target_labels', COLUMN)} needs a CSV or arrays, not a folder")
    if not domain.known.any():
        raise UserError(f"{domain.name}: {Setting('target_labels', COLUMN)}, but no label is filled in")
    return domain.labels


def _listed(given: Any, domain: Domain) -> LabelFile:
    """Labels given in Python, as if read from a file."""
    if not isinstance(given, Mapping):
        array = np.asarray(given, dtype=object)
        if array.shape != (len(domain),):
            expected = f"one label, None or -1 for each of the {len(domain)} unlabeled samples, or a mapping"
            raise UserError(f"target_labels have shape {array.shape}; expected {expected}")
        given = dict(enumerate(array.tolist()))
    listed = [(_name(image, domain), known_label(value)) for image, value in given.items()]
    listed = [(name, label) for name, label in listed if label is not None]
    if not listed:
        raise UserError("target_labels: no sample has a label")
    names, labels = zip(*listed, strict=True)
    where = "target_labels"  # for messages
    return LabelFile(Path(where), list(names), class_numbers(labels, domain.classes, where), has_gaps=False)


def _name(image: Any, domain: Domain) -> str:
    """A name or path as it is; the name of a row number."""
    is_row = isinstance(image, int | np.integer) and 0 <= image < len(domain)
    return domain.names[image] if is_row else str(image)

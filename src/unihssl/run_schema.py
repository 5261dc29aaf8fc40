"""What the files of a run must hold: checked when they are read, so that no reader meets half of one later."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unihssl.errors import UserError

MODEL_FORMAT = 1
ROLES = ("labeled", "unlabeled")


def check_model(content: Mapping[str, Any], file: Path) -> None:
    """Refuse a description of a model that lacks something, or has something of another type."""
    if "format" in content and content["format"] != MODEL_FORMAT:
        found = str(content["format"])[:20]
        raise UserError(f"{file.parent}: model format {found} is not one this version reads; install a newer version")
    classes, size = content.get("classes"), content.get("stored_size")
    for name, right in {
        "format": "format" in content,
        "method": isinstance(content.get("method"), str),
        "params": isinstance(content.get("params"), dict),
        "architecture": isinstance(content.get("architecture"), dict),
        "classes": _are_labels(classes) and len({str(c) for c in classes or ()}) == len(classes or ()) > 0,
        "stored_size": isinstance(size, list) and len(size) == 2 and all(_is_count(side) for side in size),
        "windows": _are_dicts(content.get("windows", {})),
        "data": _are_texts(content.get("data", {})),
        "version": isinstance(content.get("version", ""), str),
        "result": isinstance(content.get("result", {}), dict),
        "settings": isinstance(content.get("settings", {}), dict),
    }.items():
        if not right:
            raise _wrong(file, "the description of a model", name, name in content)


def check_split(content: Mapping[str, Any], file: Path) -> None:
    """Refuse a split that does not name source, training and test samples of both domains."""
    for role in ROLES:
        part = content.get(role)
        if not isinstance(part, dict):
            raise _wrong(file, "the split of a run", role, role in content)
        for name, right in {
            "source": isinstance(part.get("source"), str),
            "train": _are_names(part.get("train")),
            "test": _are_names(part.get("test")),
            "unused": _are_names(part.get("unused", [])),
            "target_labels": isinstance(part.get("target_labels", {}), dict),
        }.items():
            if not right:
                raise _wrong(file, "the split of a run", f"{role}.{name}", name in part)


def check_audit(content: Mapping[str, Any], file: Path) -> None:
    """Refuse the answers of an audit that lack something which predictions or a report are made from."""
    sample: Any = content.get("sample")
    sample = sample if isinstance(sample, dict) else {}
    lengths = {len(sample[name]) for name in ("label", "predicted", "confidence") if isinstance(sample.get(name), list)}
    none = {name for name, value in content.items() if value is None}
    for name, right in {
        "n": _is_count(content.get("n")),
        "accuracy": _is_share(content.get("accuracy")),
        "class_shares": _are_shares(content.get("class_shares")),
        "class_accuracy": _are_shares(content.get("class_accuracy")),
        "temperature": _are_numbers([content.get("temperature")], above=0),
        "labeled_temperature": "labeled_temperature" in none
        or _are_numbers([content.get("labeled_temperature")], above=0),
        "max_risk": _are_numbers([content.get("max_risk")], above=0),
        "threshold": "threshold" in none or _are_numbers([content.get("threshold")]),
        "sample": _are_labels(sample.get("label")) and _are_labels(sample.get("predicted")) and len(lengths) == 1,
        "confidences": _are_numbers(sample.get("confidence")) and _are_names(sample.get("path", [])),
        "reference": _are_numbers(content.get("reference")) and len(content["reference"]) > 0,
    }.items():
        if not right:
            problem = f"its {name} {'are' if name.endswith('s') else 'is'} not what it should be"
            raise UserError(f"{file}: not the answers of an audit: {problem}; delete it, and audit again")


def _wrong(file: Path, what: str, name: str, there: bool) -> UserError:
    problem = f"its {name} is not what it should be" if there else f"it has no {name}"
    return UserError(f"{file}: not {what}: {problem}; use an undamaged copy, or train again")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2**16


def _are_numbers(value: Any, above: float = -math.inf) -> bool:
    real = isinstance(value, list) and all(isinstance(item, int | float) for item in value)
    return real and all(above < item < math.inf for item in value)


def _is_share(value: Any) -> bool:
    return isinstance(value, dict) and _are_numbers([value.get(name) for name in ("value", "low", "high", "n")])


def _are_shares(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_share, value.values()))


def _are_labels(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str | int | float) for item in value)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _are_dicts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, dict) for item in value.values())


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())

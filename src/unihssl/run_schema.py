"""What the files of a run must hold: checked when they are read, so that no reader meets half of one later."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unihssl.errors import UserError
from unihssl.shapes import Each, Maybe, misfit

MODEL_FORMAT = 1
ROLES = ("labeled", "unlabeled")

SHARE = {"value": float, "low": float, "high": float, "n": int}
PART = {"n": int, "accuracy": float, "class_mean_accuracy?": float, "macro_f1?": float, "class_accuracy?": Each(float)}
PART |= {"accuracy_by_rule?": Each(float), "confusion?": Each(Each(int))}
TOLD = {"labeled": {"value": float}, "unlabeled": {"value": float}, "mean": float, "held_out": bool}
SHARES = {"predicted": Each(float), "labels": Each(float), "distance": float}
CHECK = {"n": int, "domain_told": Maybe(TOLD), "confidence": {"unlabeled": float, "labeled?": Maybe(float)}}
CHECK |= {"class_shares": SHARES, "view_agreement": Maybe(float), "rule_agreement": Each(float)}
CHECK |= {"trusted": Maybe({"first": float, "most": float, "last": float})}
RESULT = {"pooled?": PART, "labeled?": PART, "unlabeled?": PART, "sources?": Each(PART), "rule?": str}
RESULT |= {"domain_accuracy?": float, "oracle_routing_accuracy?": float, "unlabeled_training?": {"accuracy?": float}}
RESULT |= {"warnings?": [str], "notes?": [str], "sampling?": Maybe(str), "unlabeled_check?": Maybe(CHECK)}
ENVIRONMENT = {"command?": [str], "packages?": Each(str), "data?": Each(str), "asked?": dict, "row?": str}
ENVIRONMENT |= {"threads?": int, "gpu?": Maybe(str), "commit?": Maybe(str)}
SAMPLE = {"label": [str], "predicted": [str], "confidence": [float], "path?": [str]}
AUDIT = {"n": int, "accuracy": SHARE, "class_accuracy": Each(SHARE), "class_shares": Each(SHARE), "sample": SAMPLE}
AUDIT |= {"temperature": float, "labeled_temperature": Maybe(float), "max_risk": float, "threshold": Maybe(float)}
AUDIT |= {"reference": [float]}


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


def check_result(content: Mapping[str, Any], file: Path) -> None:
    """Refuse test results in which something is of another type."""
    if wrong := misfit(content, RESULT):
        raise _wrong(file, "the results of a run", wrong, there=True)


def check_environment(content: Mapping[str, Any], file: Path) -> None:
    """Refuse a description of command and machine in which something is of another type."""
    if wrong := misfit(content, ENVIRONMENT):
        raise _wrong(file, "the environment of a run", wrong, there=True)


def check_audit(content: Mapping[str, Any], file: Path) -> None:
    """Refuse the answers of an audit that lack something which predictions or a report are made from."""
    wrong = misfit(content, AUDIT)
    if not wrong:
        sizes = {len(content["sample"][name]) for name in ("label", "predicted", "confidence")}
        positive = all(content[name] is None or content[name] > 0 for name in ("temperature", "labeled_temperature"))
        wrong = "sample" if len(sizes) > 1 else "" if positive else "temperature"
        wrong = wrong or ("" if content["reference"] and 0 < content["max_risk"] < 1 else "reference or max_risk")
    if wrong:
        problem = f"its {wrong} is not what it should be"
        raise UserError(f"{file}: not the answers of an audit: {problem}; delete it, and audit again")


def _wrong(file: Path, what: str, name: str, there: bool) -> UserError:
    problem = f"its {name} is not what it should be" if there else f"it has no {name}"
    return UserError(f"{file}: not {what}: {problem}; use an undamaged copy, or train again")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2**16


def _are_labels(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str | int | float) for item in value)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _are_dicts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, dict) for item in value.values())


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())

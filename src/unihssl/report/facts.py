"""What a run's folder says, without its model and its data."""

import contextlib
import hashlib
import json
import shlex
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from unihssl import methods
from unihssl.config import Settings, knob_fields
from unihssl.data.source import FILES, SEPARATOR, short_name
from unihssl.errors import UserError
from unihssl.evaluation.metrics import PARTS
from unihssl.experiments.paper import FLOOR
from unihssl.experiments.results import row_name, saved_settings
from unihssl.methods.recipe import all_knobs, has_preset, resolve
from unihssl.run_folder import RunFolder

SAME_TASK = [
    *("labeled", "unlabeled", "target_labels", "seed", "backbone", "weights", "test_fraction", "split", "group_by"),
    *("label_shift", "image_size", "input_size", "train"),
]
MOST_NEIGHBOURS = 500  # folders beside a run that are looked at
ROLES = {"labeled": "A", "unlabeled": "B"}  # what the report calls the domains


@dataclass(frozen=True)
class RunFacts:
    """A finished run, as its files describe it."""

    folder: RunFolder
    settings: dict[str, Any]
    result: dict[str, Any]

    @classmethod
    def read(cls, run: str | Path) -> "RunFacts":
        folder = RunFolder(run)
        if not folder.path.is_dir():
            raise UserError(f"{folder.path}: no such run directory")
        settings = saved_settings(folder)  # refuses what is no run
        if not folder.is_finished:
            raise UserError(f"{folder.path}: this run has not finished, so there is nothing to report yet")
        return cls(folder, settings, folder.read_result())

    @cached_property
    def environment(self) -> dict[str, Any]:
        return self.folder.read_environment()

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        return self.folder.read_metrics()

    @cached_property
    def split(self) -> dict[str, Any]:
        return self.folder.read_split() if self.folder.split.exists() else {}

    @cached_property
    def audit(self) -> dict[str, Any] | None:
        return self.folder.read_audit()

    @cached_property
    def check(self) -> dict[str, Any] | None:
        """The label-free check; runs of earlier versions have none."""
        return self.result.get("unlabeled_check")

    @property
    def method(self) -> str:
        return row_name(self.settings, self.environment)

    @property
    def classes(self) -> list[str]:
        """Class names in the model's order, or as far as the result names them."""
        if self.check:
            return list(self.check["class_shares"]["labels"])
        if self.folder.model.exists():
            return [str(name) for name in self.folder.read_model().get("classes", ())]
        return sorted({name for part in PARTS for name in self.result.get(part, {}).get("class_accuracy", ())})

    def domain(self, role: str) -> str:
        """The name of a domain: its folder's, or its file's with the folder that holds it; of several, all."""
        sources = str(self.settings.get(role, "")).split(SEPARATOR)
        files = {s: "/".join(Path(s).parts[-2:]) for s in sources if Path(s).suffix.lower() in FILES}
        return " + ".join(files.get(s, short_name(s)) or role for s in sources)

    @property
    def confusions(self) -> dict[str, dict[str, dict[str, int]]]:
        """Counts by true and predicted class of each domain; an audit stands in where nothing of B was held out."""
        found = {role: self.result[role]["confusion"] for role in ROLES if "confusion" in self.result.get(role, {})}
        if self.audit and not self.result.get("unlabeled"):
            sample = self.audit["sample"]
            pairs = list(zip(sample["label"], sample["predicted"], strict=True))
            names = dict.fromkeys([*self.classes, *sample["label"]])
            table = {name: dict(Counter(predicted for label, predicted in pairs if label == name)) for name in names}
            found["unlabeled"] = {name: row for name, row in table.items() if row}
        return found

    @property
    def target_labels(self) -> int:
        """How many samples of the unlabeled domain trained with their labels."""
        return len(self.split.get("unlabeled", {}).get("target_labels", ()))

    @property
    def command(self) -> str:
        words = [str(word) for word in self.environment.get("command", ())]
        return shlex.join([Path(words[0]).name, *words[1:]]) if words else ""

    def fingerprint(self, role: str) -> str:
        """Of the samples themselves; of their names and parts where an earlier version did not save it."""
        saved = self.environment.get("data", {}).get(role)
        if saved:
            return str(saved)[:16]
        names = json.dumps({part: self.split.get(role, {}).get(part, []) for part in ("train", "test")})
        return f"{hashlib.sha256(names.encode()).hexdigest()[:16]} (of names)"

    def changed_settings(self) -> list[tuple[str, str, str, str]]:
        """Name, value, default and meaning of the settings that this method, preset and backbone do not bring along.

        What follows from a setting before it, such as a length from another, is no change.
        """
        method, preset = (str(self.settings.get(name, "")) for name in ("method", "preset"))
        if method not in methods.available():
            return []
        asked = {"method": method, "preset": preset if has_preset(method, preset) else ""}
        asked["backbone"] = self.settings.get("backbone", Settings.backbone)
        defaults = all_knobs(*resolve(asked))
        helps = {name: spec.metadata.get("help", "") for name, (spec, _) in _fields(method).items()}
        found = []
        for name, value in self.settings.items():
            if name in ("labeled", "unlabeled") or value == defaults.get(name, value):
                continue
            found.append((name, str(value), str(defaults[name]), helps[name]))
            with contextlib.suppress(UserError):  # a value that this version does not take
                asked, defaults = asked | {name: value}, all_knobs(*resolve(asked | {name: value}))
        return found


def baseline_beside(facts: RunFacts) -> RunFacts | None:
    """A finished run of Supervised on the same data and seed in a folder beside this one; None if there is none."""
    if facts.settings.get("method") == FLOOR:
        return None
    beside = sorted(facts.folder.path.resolve().parent.iterdir())[:MOST_NEIGHBOURS]
    for path in beside:
        other = RunFolder(path)
        if not (path.is_dir() and other.is_run and other.is_finished):
            continue
        with contextlib.suppress(UserError):  # a damaged one is no concern of this run
            settings = saved_settings(other)
            same = all(settings.get(name) == facts.settings.get(name) for name in SAME_TASK)
            if same and settings.get("method") == FLOOR:
                return RunFacts.read(path)
    return None


def _fields(method: str) -> dict[str, Any]:
    return knob_fields(Settings, methods.get(method).Params)

"""How a data set is experimented on: its pairs, backbone and knobs, where nothing else is asked for."""

import difflib
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from unihssl import methods
from unihssl.api import resolve
from unihssl.config import Settings, knob_fields
from unihssl.data import catalog
from unihssl.data.catalog.dataset import Dataset
from unihssl.data.listed import Listed
from unihssl.errors import UserError
from unihssl.experiments import schedules
from unihssl.experiments.paper import METHOD, METHODS, UNIHSSL
from unihssl.experiments.runner import LoadPair, Role, Run
from unihssl.methods.presets import has_preset, preset_for

# The paper trains a ResNet-101 on VisDA and a ResNet-50, the default, elsewhere. Digits must not be mirrored.
KNOBS: Mapping[str, Mapping[str, Any]] = {
    "visda-2017": {"backbone": "resnet101"},
    "digits": {"backbone": "small_cnn", "flip": False},
}
PAIRS = {"digits": ("mnist/uci",)}  # those that need no file
SCHEDULE = {"digits": "recipe"}
WITH_PRESETS = typing.get_args(typing.get_type_hints(Settings)["dataset"])


def _likeness(name: str, method: str) -> float:
    """Of a name to the method's knob that is most like it."""
    known = knob_fields(Settings, methods.get(method).Params)
    return max(difflib.SequenceMatcher(None, name, knob).ratio() for knob in known)


def load_pair(dataset: str, root: Path, pair: str) -> tuple[Listed, Listed]:
    return catalog.load(dataset, pair, root)


@dataclass(frozen=True)
class Protocol:
    """A data set at a place, and what the user asked for."""

    dataset: Dataset
    root: Path = Path("data")
    preset: str = ""  # of experiments.schedules
    asked: Mapping[str, Any] = field(default_factory=dict)

    @property
    def loader(self) -> LoadPair:
        return partial(load_pair, self.dataset.name, self.root.resolve())

    def pairs(self, wish: str = "") -> list[str]:
        """`paper`, `all` or a list with commas, each pair by its usual name; by default the paper's, else all."""
        default = PAIRS.get(self.dataset.name) or self.dataset.all_pairs
        if wish == "paper" and not self.dataset.pairs:
            raise UserError(f"{self.dataset.name}: the paper has no pairs of it; --pairs all, or a list")
        domains = self.dataset.domains
        every = [f"{a.short}/{b.short}" for a in domains for b in domains if a is not b]
        named = {"": default, "paper": default, "all": every}.get(wish) or wish.split(",")
        return list(dict.fromkeys(self._usual_name(pair.strip()) for pair in named))

    def methods(self, wish: str = "") -> list[str]:
        """`paper`, `all` or a list with commas; by default the paper's eight and our own on its data sets, else all.

        `mcc:original` is a method with another preset than its default.
        """
        every = (*methods.available(), UNIHSSL)
        default = (*METHODS, METHOD) if self.dataset.pairs else every
        names = {"": default, "paper": METHODS, "all": every}.get(wish) or wish.split(",")
        for name in names:
            method, _, preset = name.strip().partition(":")
            preset_for(methods.get(method).name, preset)
        return list(dict.fromkeys(name.strip() for name in names))

    def run(self, pair: str, method: str, seed: int, role: Role, **extra: Any) -> Run:
        """A run with this protocol's knobs; `extra` is what makes it this cell of the grid."""
        return Run(pair, self.knobs(method) | extra | {"seed": seed}, dataset=self.dataset.name, roles=(role,))

    def knobs(self, row: str) -> dict[str, Any]:
        """Of a method, or of a method and its preset; what was asked for and it does not know is for others."""
        name = self.dataset.name
        method, _, preset = row.partition(":")
        known = knob_fields(Settings, methods.get(method).Params)
        own = {"dataset": name} if name in WITH_PRESETS else {}
        asked = {k: v for k, v in self.asked.items() if k in known}
        if preset or not has_preset(method, str(asked.get("preset", ""))):
            asked["preset"] = preset
        base = {"tensorboard": False, **own, **KNOBS.get(name, {}), **asked, "method": method}
        schedule = schedules.get(self.preset or SCHEDULE.get(name, "paper"))
        length = {k: v for k, v in schedule.knobs_on(name).items() if k in known}
        if schedule.keep_steps and resolve(base)[0].steps:
            length.pop("epochs", None)  # to ask for epochs would drop the preset's steps
        return length | base

    def check_asked(self, rows: Sequence[str]) -> None:
        """Refuse settings that none of these methods knows, and those that options are for."""
        preset = str(self.asked.get("preset", ""))
        names = [row.partition(":")[0] for row in rows]
        if not any(has_preset(name, preset) for name in names):
            preset_for(names[0], preset)  # which says what there is
        options = dict.fromkeys(("labeled", "unlabeled"), "--pairs")
        options |= {"seed": "--seeds", "method": "unihssl benchmark --methods"}
        for name in self.asked:
            if name in options:
                raise UserError(f"--set {name}: a grid goes through several; use {options[name]}")
            if not any(name in knob_fields(Settings, methods.get(m).Params) for m in names):
                others = [m.name for m in methods.available().values() if name in knob_fields(m.Params)]
                if others:
                    raise UserError(f"--set {name}: a knob of {', '.join(others)}; none of these methods has it")
                nearest = max(names, key=partial(_likeness, name))
                resolve({"method": nearest, name: self.asked[name]})  # says what was meant

    def cautions(self) -> list[str]:
        """What must be known before results are believed."""
        cured = self.dataset.cure and self.asked.get("group_by") == self.dataset.cure
        return [f"{self.dataset.name}: {self.dataset.caution}"] if self.dataset.caution and not cured else []

    def check(self, pairs: Sequence[str]) -> list[str]:
        """Look for the domains of these pairs; what is not there is refused, what differs is told."""
        domains = {d.name: d for pair in pairs for d in self.dataset.pair(pair)}
        found = [catalog.load_domain(self.dataset, d, self.root) for d in domains.values()]
        return [note for listed in found for note in listed.notes]

    def _usual_name(self, pair: str) -> str:
        labeled, unlabeled = self.dataset.pair(pair)
        if self.dataset.name in PAIRS:
            return f"{labeled.name}/{unlabeled.name}"
        return f"{labeled.short}/{unlabeled.short}"

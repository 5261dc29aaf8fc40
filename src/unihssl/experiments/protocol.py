"""The experimental protocol of a data set: pairs, backbone and knobs, unless the user asks for others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from unihssl import methods
from unihssl.config import Settings, knob_fields, parse
from unihssl.data import catalog
from unihssl.data.catalog.dataset import Dataset
from unihssl.errors import Setting, UserError
from unihssl.experiments import schedules
from unihssl.experiments.paper import METHOD, METHODS, UNIHSSL
from unihssl.experiments.results import Role
from unihssl.experiments.runner import LoadPair, Run
from unihssl.methods.recipe import DATASETS, has_preset, methods_with, preset_name, resolve

# The paper trains a ResNet-101 on VisDA and a ResNet-50, the default, elsewhere. Digits must not be mirrored.
KNOBS: Mapping[str, Mapping[str, Any]] = {
    "visda-2017": {"backbone": "resnet101"},
    "digits": {"backbone": "small_cnn", "flip": False},
}
PAIRS = {"digits": ("mnist/uci",)}  # the pair that needs no download
SCHEDULE = {"digits": "recipe"}  # of other data sets `paper`
ELSEWHERE = {"labeled": "pairs", "unlabeled": "pairs", "seed": "seeds", "method": "methods"}  # knob -> its option


@dataclass(frozen=True)
class Protocol:
    """A data set at a place, how long to train on it, and the knobs that the user asked for.

    >>> protocol = Protocol(catalog.get("pacs"), Path("data/pacs"), schedule="fast", asked={"lr": 0.001})
    >>> protocol.pairs()[0], protocol.knobs("mcc")["max_steps"]
    ('P/A', 500)
    """

    dataset: Dataset
    root: Path = Path("data")
    schedule: str = ""  # of experiments.schedules; empty: the data set's default
    asked: Mapping[str, Any] = field(default_factory=dict)

    @property
    def loader(self) -> LoadPair:
        """Loads a pair by name; can be sent to other processes."""
        return partial(catalog.load, self.dataset.name, root=self.root.resolve())

    def pairs(self, requested: str = "") -> list[str]:
        """`paper`, `all` or a list such as `A/W,D/A`; by default the paper's, else all.

        Pairs come back by their usual names, each once.
        """
        default = PAIRS.get(self.dataset.name) or self.dataset.all_pairs
        if requested == "paper" and not self.dataset.pairs:
            every = Setting("pairs", "all")
            raise UserError(f"{self.dataset.name}: the paper has no pairs of it; use {every} or a list")
        domains = self.dataset.domains
        every_pair = [f"{a.short}/{b.short}" for a in domains for b in domains if a is not b]
        named = {"": default, "paper": default, "all": every_pair}.get(requested) or requested.split(",")
        return list(dict.fromkeys(self._usual_name(pair.strip()) for pair in named))

    def methods(self, requested: str = "") -> list[str]:
        """`paper`, `all` or a list such as `mcc,mcc:original`, where `mcc:original` names a method and its preset.

        By default the paper's eight and ours on the paper's data sets, else all.
        """
        every = (*methods.available(), UNIHSSL)
        default = (*METHODS, METHOD) if self.dataset.pairs else every
        names = {"": default, "paper": METHODS, "all": every}.get(requested) or requested.split(",")
        for name in names:
            method, _, preset = name.strip().partition(":")
            preset_name(method, preset)
        return list(dict.fromkeys(name.strip() for name in names))

    def run(self, pair: str, row: str, seed: int, role: Role, **extra: Any) -> Run:
        """A run of this protocol; `extra` are the knobs that make it this cell of the grid."""
        return Run(pair, self.knobs(row) | extra | {"seed": seed}, dataset=self.dataset.name, roles=(role,))

    def knobs(self, row: str) -> dict[str, Any]:
        """The knobs to train a row (`method` or `method:preset`) with. The method gets the asked ones that it has."""
        name = self.dataset.name
        method, _, preset = row.partition(":")
        known = knob_fields(Settings, methods.get(method).Params)
        dataset = {"dataset": name} if name in DATASETS else {}
        asked = {knob: value for knob, value in self.asked.items() if knob in known}
        if preset or ("preset" in asked and not has_preset(method, str(asked["preset"]))):
            asked["preset"] = preset
        base = {"tensorboard": False, **dataset, **KNOBS.get(name, {}), **asked, "method": method}
        schedule = self.schedule or SCHEDULE.get(name, "paper")
        length = {knob: value for knob, value in schedules.get(schedule, name).items() if knob in known}
        if schedule in schedules.KEEP_STEPS and resolve(base)[0].steps:
            length.pop("epochs", None)  # asking for epochs would drop the preset's steps
        return length | base

    def check_asked(self, rows: Sequence[str]) -> None:
        """Refuse knobs that none of these rows' methods has, and those that a grid goes through."""
        names = [row.partition(":")[0] for row in rows]
        preset = str(self.asked.get("preset", ""))
        if not any(has_preset(name, preset) for name in names):
            preset_name(names[0], preset)  # raises, naming those that it has
        params = [methods.get(name).Params for name in names]
        for knob in self.asked:
            if knob in ELSEWHERE:
                option = Setting(ELSEWHERE[knob])
                raise UserError(f"{knob} cannot be set: a grid goes through several; use {option}")
            if knob not in knob_fields(Settings, *params):
                if owners := methods_with(knob):
                    raise UserError(f"{knob} is a knob of {', '.join(owners)}; none of these methods has it")
                parse({knob: self.asked[knob]}, (Settings, *params))  # raises, naming the nearest knob

    def cautions(self) -> list[str]:
        """Known flaws of the data set that the asked knobs do not avoid."""
        is_safe = self.dataset.safe_group_by and self.asked.get("group_by") == self.dataset.safe_group_by
        return [f"{self.dataset.name}: {self.dataset.caution}"] if self.dataset.caution and not is_safe else []

    def check(self, pairs: Sequence[str]) -> list[str]:
        """Refuse missing domains of these pairs; return notes on those that differ from the published ones."""
        domains = {d.name: d for pair in pairs for d in self.dataset.pair(pair)}
        found = [catalog.load_domain(self.dataset, d, self.root) for d in domains.values()]
        return [note for listed in found for note in listed.notes]

    def _usual_name(self, pair: str) -> str:
        labeled, unlabeled = self.dataset.pair(pair)
        if self.dataset.name in PAIRS:
            return f"{labeled.name}/{unlabeled.name}"
        return f"{labeled.short}/{unlabeled.short}"

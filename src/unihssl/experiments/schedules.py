"""How long the runs of an experiment train: `--preset` of benchmark, ablation and sensitivity, as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unihssl.errors import UserError
from unihssl.methods.presets import PRESETS


@dataclass(frozen=True)
class Schedule:
    """Knobs of length; a method takes those it has. `keep_steps`: one whose own preset counts steps keeps that."""

    knobs: Mapping[str, Any] = field(default_factory=dict)
    on: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # other knobs on some data sets
    keep_steps: bool = False

    def knobs_on(self, dataset: str) -> dict[str, Any]:
        return {**self.knobs, **self.on.get(dataset, {})}


SCHEDULES: Mapping[str, Schedule] = {
    # The paper's 10 + 100 epochs. Its baselines followed their own papers, so theirs train as their presets say.
    "paper": Schedule({"pretrain_epochs": 10, "epochs": 100, "sup_epochs": 100, "router_epochs": 10}, keep_steps=True),
    # The cap ends a stage first where the larger domain has some hundred images or more. How it was found, and what
    # it was compared with: results/README.md.
    "fast": Schedule(
        {"pretrain_epochs": 10, "epochs": 20, "sup_epochs": 20, "router_epochs": 3, "max_steps": 500},
        on={"office-caltech-10": {"max_steps": 300}},
    ),
    # What the backbone's recipe says: short for small_cnn and mlp.
    "recipe": Schedule(),
}


def get(name: str) -> Schedule:
    if name in SCHEDULES:
        return SCHEDULES[name]
    own = [f"{method}:{name}" for method in PRESETS.get(name, ())]
    hint = f"; that is one of a method's own: --methods {own[0]}, or --set preset={name}" if own else ""
    raise UserError(f"unknown preset '{name}': there are {', '.join(SCHEDULES)}{hint}")

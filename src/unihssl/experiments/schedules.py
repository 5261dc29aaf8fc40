"""How long the runs of an experiment train: the schedules that `--schedule` names, as data."""

from collections.abc import Mapping
from typing import Any

from unihssl import methods
from unihssl.errors import Setting, UserError

# A method takes the knobs that it has.
SCHEDULES: Mapping[str, Mapping[str, Any]] = {
    "paper": {"pretrain_epochs": 10, "epochs": 100, "sup_epochs": 100, "router_epochs": 10},
    # The cap ends a stage before its epochs where the larger domain has more than some hundred images.
    # How it was chosen: results/history.md.
    "fast": {"pretrain_epochs": 10, "epochs": 20, "sup_epochs": 20, "router_epochs": 3, "max_steps": 500},
    # As long as the recipe says: the defaults, the method's preset, and what the backbone needs.
    "recipe": {},
}
ON_DATASETS = {("fast", "office-caltech-10"): {"max_steps": 300}}
# Methods whose presets count steps keep them here, because the paper's baselines followed their own papers.
KEEP_STEPS = {"paper"}
LENGTHS = {"steps", *(knob for knobs in SCHEDULES.values() for knob in knobs)}  # all knobs of length


def get(name: str, dataset: str = "") -> dict[str, Any]:
    """The knobs of a schedule on a data set."""
    if name in SCHEDULES:
        return {**SCHEDULES[name], **ON_DATASETS.get((name, dataset), {})}
    problem = f"unknown schedule '{name}': there are {', '.join(SCHEDULES)}"
    for method in methods.available().values():
        if name in method.presets:
            raise UserError(f"{problem}; '{name}' is a preset of {method.name} ({Setting('preset', name)})")
    raise UserError(problem)

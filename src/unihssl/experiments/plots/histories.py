"""The metrics of several runs, put together: which runs are repetitions of one another, and their means."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unihssl.errors import UserError
from unihssl.training.log import read_metrics
from unihssl.training.run_directory import FREE_TO_CHANGE, read_config

Row = dict[str, Any]

# What stands in a row of metrics.jsonl and is no term of the loss.
PLACE = frozenset({"stage", "epoch", "step", "global_step", "lr", "images_per_second", "loss"})
STATS = frozenset({"belief", "unlabeled_half"})
STAT_ENDINGS = ("_rate", "_accuracy", "_agreement")


class Curve(NamedTuple):
    """A metric in one stage: mean and sample standard deviation over the runs, at the steps that all of them have."""

    steps: np.ndarray
    mean: np.ndarray
    std: np.ndarray


def histories(run_dirs: Sequence[Path], names: Sequence[str] = ()) -> dict[str, list[list[Row]]]:
    """Rows of metrics of each run, by the names given to them.

    Without names it is by method; a method with several settings is named with those that differ.
    """
    if not run_dirs:
        raise UserError("there is no run to plot; name one run directory or more")
    configs = [{"method": name} for name in names] or [read_config(run) for run in run_dirs]
    groups: dict[tuple[tuple[str, str], ...], list[list[Row]]] = {}
    for run, config in zip(run_dirs, configs, strict=True):
        rows = read_metrics(run)
        if not rows:
            raise UserError(f"{run}: there are no metrics here (metrics.jsonl is missing or empty); train it first")
        groups.setdefault(_identity(config), []).append(rows)
    known = [dict(identity) for identity in groups]
    return {_name(config, known): runs for config, runs in zip(known, groups.values(), strict=True)}


def curves(runs: Sequence[Sequence[Row]], metric: str) -> list[Curve]:
    """One for each stage that has the metric: lines must not join what different stages measure."""
    found = []
    for stage in dict.fromkeys(row["stage"] for rows in runs for row in rows if metric in row):
        values = [{r["global_step"]: r[metric] for r in rows if r["stage"] == stage and metric in r} for rows in runs]
        values = [v for v in values if v]
        steps = sorted(set.intersection(*map(set, values)))
        if not steps:
            raise UserError(f"stage {stage}: these runs logged no step in common; plot them apart")
        table = np.array([[v[step] for step in steps] for v in values], dtype=np.float64)
        std = table.std(0, ddof=1) if len(table) > 1 else np.zeros(len(steps))
        found.append(Curve(np.array(steps), table.mean(0), std))
    return found


def loss_terms(runs: Sequence[Sequence[Row]]) -> list[str]:
    """Names of the loss terms, in the order of the log."""
    names = dict.fromkeys(name for rows in runs for row in rows for name in row)
    return [n for n in names if n not in PLACE | STATS and not n.endswith(STAT_ENDINGS)]


def stage_starts(runs: Sequence[Sequence[Row]]) -> dict[str, int]:
    """The step after which each stage begins."""
    starts: dict[str, int] = {}
    for row in (row for rows in runs for row in rows):
        starts.setdefault(row["stage"], row["global_step"] - row["step"])
    return starts


def _identity(config: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """All that makes two runs different apart from chance and from where they ran."""
    ignored = (FREE_TO_CHANGE - {"labeled", "unlabeled"}) | {"seed"}
    return tuple((name, str(value)) for name, value in config.items() if name not in ignored)


def _name(config: dict[str, str], configs: Sequence[dict[str, str]]) -> str:
    rivals = [other for other in configs if other["method"] == config["method"]]
    differing = [name for name in config if len({other.get(name) for other in rivals}) > 1]
    return ", ".join([config["method"], *(f"{name}={config[name]}" for name in differing)])

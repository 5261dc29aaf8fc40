"""All methods on all pairs of a data set, over seeds."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from unihssl import methods
from unihssl.data import digits
from unihssl.errors import UserError
from unihssl.experiments.grid import Run, run_grid
from unihssl.experiments.launchers import Launcher

PARTS = ("pooled", "labeled", "unlabeled")
DIGIT_KNOBS = {"backbone": "small_cnn", "flip": False, "tensorboard": False}


def load_digits_pair(pair: str) -> tuple[Any, Any]:
    """`mnist/uci`: the first labeled, the second unlabeled."""
    names = pair.split("/")
    if len(names) != 2 or not set(names) <= set(digits.DOMAINS):
        raise UserError(f"unknown pair '{pair}': expected labeled/unlabeled out of {', '.join(digits.DOMAINS)}")
    return digits.load_domain(names[0]), digits.load_domain(names[1])


def benchmark_runs(pairs: Sequence[str], names: Sequence[str], seeds: int, knobs: dict[str, Any]) -> list[Run]:
    for pair in pairs:
        load_digits_pair(pair)
    return [
        Run(pair, DIGIT_KNOBS | knobs | {"method": methods.get(name).name, "seed": seed})
        for seed in range(seeds)
        for pair in pairs
        for name in names
    ]


def run_benchmark(runs: Sequence[Run], out: Path, launcher: Launcher) -> Iterator[Run]:
    return run_grid(runs, load_digits_pair, out, launcher)


def summarise(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A row for each pair and method: mean and standard deviation of its accuracies, in percent, over seeds."""
    rows = []
    cells = dict.fromkeys((run.pair, run.knobs["method"]) for run in runs)
    for pair, method in cells:
        mine = [r for r in runs if (r.pair, r.knobs["method"]) == (pair, method) and r.result]
        row: dict[str, Any] = {"pair": pair, "method": method, "seeds": len(mine)}
        for part in PARTS:
            values = [100 * r.result[part]["accuracy"] for r in mine]
            row[part] = mean(values) if values else None
            row[f"{part}_std"] = stdev(values) if len(values) > 1 else None
        for extra in ("domain_accuracy", "oracle_routing_accuracy"):
            values = [100 * r.result[extra] for r in mine if extra in r.result]
            row[extra] = mean(values) if values else None
        rows.append(row)
    return rows


COLUMNS = ("method", "seeds", "pooled", "labeled", "unlabeled", "domain", "oracle")


def cells(row: dict[str, Any]) -> list[str]:
    """A row as text, under COLUMNS."""
    accuracy = [_cell(row[part], row[f"{part}_std"]) for part in PARTS]
    extras = [_cell(row[extra]) for extra in ("domain_accuracy", "oracle_routing_accuracy")]
    return [row["method"], str(row["seeds"]), *accuracy, *extras]


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """A table for each pair, in Markdown."""
    text = ""
    for pair in dict.fromkeys(row["pair"] for row in rows):
        lines = [COLUMNS, ["---"] * len(COLUMNS), *(cells(row) for row in rows if row["pair"] == pair)]
        text += f"**{pair}**\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"
    return text


def _cell(value: float | None, deviation: float | None = None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" + (f" ± {deviation:.1f}" if deviation is not None else "")

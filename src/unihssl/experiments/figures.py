"""The figures of an experiment, drawn from its finished runs and put beside its tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unihssl.experiments.paper import AVERAGE, UNIHSSL
from unihssl.experiments.plots import learning_curves, sensitivity_curve
from unihssl.experiments.results import BENCHMARK, SENSITIVITY, Record
from unihssl.experiments.tables import by_pair, groups, place

PAPER_VALUES = {"lambda_pa": 0.01, "lambda_pl": 1.0, "lambda_mixup": 1.0, "beta": 0.8}


def draw_figures(records: Sequence[Record], out: Path) -> list[Path]:
    """A curve for every knob that was varied; for other experiments how the rows of each pair learnt.

    Rows that log neither a mask rate nor how many pseudo-labels are right are left out.
    """
    if records and records[0].experiment == SENSITIVITY:
        return [path for of_knob in groups(records) for path in _draw_knob(of_knob, out)]
    mine = sorted((r for r in records if r.last), key=lambda r: place(r.label))
    pairs = dict.fromkeys(r.pair for r in mine)
    return [path for pair in pairs for path in _draw_learning([r for r in mine if r.pair == pair], out)]


def knob_points(records: Sequence[Record]) -> dict[Any, list[float]]:
    """For each value of a group's knob the pooled accuracy (0..1) of each seed, the mean over all pairs.

    A value has no point where no seed has all pairs, nor where its runs were set differently otherwise.
    """
    columns = by_pair(records, "accuracy")
    averages = columns[AVERAGE] if AVERAGE in columns else next(iter(columns.values()))
    labels: dict[Any, dict[str, None]] = {}
    for r in records:
        labels.setdefault(r.settings[r.knob], {})[r.label] = None
    points = {value: averages.get(next(iter(rows)), {}) for value, rows in labels.items() if len(rows) == 1}
    return {value: [found / 100 for found in by_seed.values()] for value, by_seed in points.items() if by_seed}


def _draw_learning(records: Sequence[Record], out: Path) -> tuple[Path, ...]:
    kind = "learning" if records[0].experiment == BENCHMARK else records[0].experiment
    stem = f"{kind}-{records[0].pair.replace('/', '-')}"
    return learning_curves([r.folder for r in records], out / stem, names=[r.label for r in records])


def _draw_knob(records: Sequence[Record], out: Path) -> tuple[Path, ...]:
    points = knob_points(records)
    if not points:
        return ()
    knob, recipe = records[0].knob, records[0].recipe
    pairs = list(dict.fromkeys(r.pair for r in records))
    title = f"{records[0].dataset}, {pairs[0] if len(pairs) == 1 else f'mean of {len(pairs)} pairs'}"
    if recipe == UNIHSSL:
        stem, paper_value = f"sensitivity-{knob}", PAPER_VALUES.get(knob)
    else:
        stem, paper_value, title = f"sensitivity-{recipe.replace(':', '-')}-{knob}", None, f"{recipe}: {title}"
    return sensitivity_curve(points, out / stem, knob=knob, paper_value=paper_value, title=title)

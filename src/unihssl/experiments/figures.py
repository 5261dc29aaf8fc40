"""The figures of an experiment, drawn from its finished runs and put beside its tables."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from unihssl.config import Settings, knob_fields
from unihssl.experiments.grids import METHOD, SENSITIVITY
from unihssl.experiments.plots import learning_curves, sensitivity_curve
from unihssl.experiments.results import Record
from unihssl.methods import get


def draw_figures(records: Sequence[Record], out: Path) -> list[Path]:
    """A curve for every knob that was varied; for other experiments how Uni-HSSL learnt on each pair."""
    if records and records[0].experiment == SENSITIVITY:
        return [path for knob in _knobs(records) for path in _draw_knob(records, knob, out)]
    mine = [r for r in records if r.variant == METHOD]
    pairs = dict.fromkeys(r.pair for r in mine)
    return [
        path
        for pair in pairs
        for path in learning_curves(
            [r.folder for r in mine if r.pair == pair], out / f"learning-{pair.replace('/', '-')}"
        )
    ]


def knob_points(records: Sequence[Record], knob: str) -> dict[Any, list[float]]:
    """For each value the pooled accuracy (0..1) of each seed, the mean over all pairs."""
    points: dict[Any, list[float]] = {}
    mine = [r for r in records if r.variant.startswith(f"{knob}=")]
    for value in dict.fromkeys(r.settings[knob] for r in mine):
        of_value = [r for r in mine if r.settings[knob] == value]
        for seed in sorted({r.seed for r in of_value}):
            found = [v for r in of_value if r.seed == seed and (v := r.value("accuracy")) is not None]
            if found:
                points.setdefault(value, []).append(fmean(found) / 100)
    return points


def _draw_knob(records: Sequence[Record], knob: str, out: Path) -> tuple[Path, ...]:
    method = str(records[0].settings.get("method", METHOD))
    default = knob_fields(Settings, get(method).Params)[knob][0].default
    pairs = sorted({r.pair for r in records})
    title = f"{records[0].dataset}, {pairs[0] if len(pairs) == 1 else f'mean of {len(pairs)} pairs'}"
    points = knob_points(records, knob)
    return sensitivity_curve(points, out / f"sensitivity-{knob}", knob=knob, default=default, title=title)


def _knobs(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(r.variant.partition("=")[0] for r in records))

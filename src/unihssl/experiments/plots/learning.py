"""Losses, mask rate and accuracy of pseudo-labels while training goes on, from the metrics of runs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unihssl.experiments.plots.canvas import COLOURS, COLUMN, GREY, percent_axis, write_figure
from unihssl.experiments.plots.histories import Curve, Row, curves, histories, loss_terms, stage_starts
from unihssl.experiments.plots.select_runs import described

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHARES = {"mask_rate": "samples trusted,\nmask rate", "oracle_pseudo_accuracy": "pseudo-labels right,\noracle"}
Runs = list[list[Row]]
Look = dict[str, Any]  # of a line: colour, and what it is drawn with


def learning_curves(run_dirs: Sequence[str | Path], out: str | Path, *, names: Sequence[str] = ()) -> tuple[Path, Path]:
    """Curves against the step; runs that differ in their seed alone become a mean and a band of ± one deviation.

    With `names`, one for each run, it is runs of the same name that do. One method is shown with all terms of its
    loss, several with their total losses. Vertical lines mark where a stage begins. `oracle` says that labels of the
    unlabeled domain were looked at, for this curve alone.
    """
    folders = [Path(run) for run in run_dirs]
    groups = histories(folders, names)
    shares = [name for name in SHARES if any(curves(runs, name) for runs in groups.values())]
    heights = [1.7, *[1.0 for _ in shares]]

    def draw(figure: "Figure") -> None:
        axes = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0].tolist()
        _draw_losses(axes[0], groups)
        for axis, name in zip(axes[1:], shares, strict=True):
            for look, runs in zip(_looks(), groups.values(), strict=False):
                draw_curves(axis, curves(runs, name), look, scale=100)
            percent_axis(axis, SHARES[name])
            axis.set_ylim(0, 100)
        _mark_stages(axes, groups)
        axes[-1].set_xlabel("training step")
        axes[-1].set_xlim(left=0)
        repeats = sorted({len(runs) for runs in groups.values()})
        band = f"; mean ± std of {' to '.join(map(str, repeats))} runs" if repeats[-1] > 1 else ""
        title = f"{', '.join(groups) if len(groups) == 1 else 'training'}{band}"
        figure.suptitle("\n".join(filter(None, [title, described(folders)])), fontsize=8)

    named = math.ceil(len(groups) / _columns(groups))  # rows of the legend
    return write_figure(out, COLUMN, 0.4 + 0.17 * max(named, 1) + 1.25 * sum(heights), draw)


def _draw_losses(axis: "Axes", groups: Mapping[str, Runs]) -> None:
    lines: list[tuple[str, Look, list[Curve]]] = []
    if len(groups) == 1:
        (runs,) = groups.values()
        terms = loss_terms(runs)
        lines.append(("total", {"color": "black"}, curves(runs, "loss")))
        if len(terms) > 1:
            lines += [(t, look, curves(runs, t)) for t, look in zip(terms, _looks(), strict=False)]
    else:
        rows = zip(groups.items(), _looks(), strict=False)
        lines = [(name, look, curves(runs, "loss")) for (name, runs), look in rows]
    for name, look, mine in lines:
        draw_curves(axis, mine, look, name=name)
    values = np.concatenate([curve.mean for _, _, mine in lines for curve in mine])
    positive = values[values > 0]
    wide = len(positive) and positive.max() > 20 * positive.min() and (values >= 0).all()
    if wide:  # a loss of zero falls off the bottom
        axis.set_yscale("log")
        axis.set_ylim(max(positive.min() / 1.5, positive.max() / 1e5), positive.max() * 1.5)
    what = "loss (terms unweighted)" if len(groups) == 1 and len(lines) > 1 else "loss"
    axis.set_ylabel(f"{what}\nlog scale" if wide else what)
    axis.grid(axis="y", linewidth=0.4, alpha=0.4)
    if len(lines) > 1:
        spread = {"columnspacing": 1.2, "handlelength": 1.8}
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.06), ncols=_columns([n for n, _, _ in lines]), **spread)


def _columns(names: Iterable[str]) -> int:
    """Of a legend, so that it is no wider than the figure."""
    return max(1, min(3, 50 // max(len(name) + 6 for name in names)))


def draw_curves(
    axis: "Axes", stages: Iterable[Curve], look: Look, *, scale: float = 1, name: str | None = None
) -> None:
    for number, curve in enumerate(stages):
        mean, std = scale * curve.mean, scale * curve.std
        marker = "o" if len(mean) == 1 else ""  # a line through one point cannot be seen
        axis.plot(curve.steps, mean, marker=marker, markersize=3, label=None if number else name, **look)
        if std.any():
            axis.fill_between(curve.steps, mean - std, mean + std, color=look["color"], alpha=0.2, linewidth=0)


def _mark_stages(axes: Sequence["Axes"], groups: Mapping[str, Runs]) -> None:
    """A line where each stage begins, named above the first panel; in the method's colour where methods differ."""
    starts = [stage_starts(runs) for runs in groups.values()]
    if all(mine == starts[0] for mine in starts):
        marks = [(step, stage, GREY) for stage, step in starts[0].items() if len(starts[0]) > 1]
        sides = ["left"]
    else:
        coloured = zip(_looks(), starts, strict=False)
        marks = sorted((step, stage, look["color"]) for look, mine in coloured for stage, step in mine.items() if step)
        sides = ["right", "left"]  # lines close to one another are named on either side
    for number, (step, stage, colour) in enumerate(marks):
        for axis in axes if step else []:
            axis.axvline(step, color=colour, linewidth=0.8, linestyle=":")
        look: Look = {"fontsize": 6.5, "color": colour, "va": "bottom", "ha": sides[number % len(sides)]}
        axes[0].text(step, 1.01, f" {stage} ", transform=axes[0].get_xaxis_transform(), **look)


def _looks() -> list[Look]:
    """Of lines, none like another: where the colours are used up, they begin again dashed, then dotted."""
    lines = ("solid", "dashed", "dotted", "dashdot")
    return [{"color": colour, "linestyle": line} for line in lines for colour in COLOURS] * 3

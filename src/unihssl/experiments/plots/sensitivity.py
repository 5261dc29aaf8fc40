"""Accuracy against the values of one knob."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from unihssl.errors import UserError
from unihssl.experiments.plots.canvas import COLOURS, COLUMN, percent_axis, write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DECADES = 20  # values that span more than this factor get a logarithmic axis


def sensitivity_curve(
    points: Mapping[Any, Sequence[float]],
    out: str | Path,
    *,
    knob: str,
    paper_value: float | None = None,
    title: str = "",
) -> tuple[Path, Path]:
    """Draw the pooled accuracy, mean ± std over seeds, at each value of a knob. Returns the PNG and the SVG.

    `points` maps a value to the accuracies (0..1) of its seeds. `paper_value` is marked. Values that are
    not numbers stand side by side.

    >>> sensitivity_curve({0.01: [0.88, 0.86], 1.0: [0.70, 0.66]}, "plots/lambda_pa", knob="lambda_pa")
    """
    summary = {value: in_percent(accuracies) for value, accuracies in points.items() if len(accuracies)}
    if not summary:
        raise UserError(f"{knob}: no accuracy to plot; did every run fail?")
    axis_of = knob_axis(list(summary))
    ordered = [(axis_of.position[value], *summary[value]) for value in axis_of.position]
    at, means, deviations = (list(column) for column in zip(*ordered, strict=True))

    def draw(figure: "Figure") -> None:
        axis = figure.add_subplot()
        style: dict[str, Any] = {"color": COLOURS[0], "marker": "o", "markersize": 4, "capsize": 2.5}
        style["linestyle"] = "none" if axis_of.scale == "names" else "-"
        label = "mean ± std over seeds" if any(deviations) else "accuracy"
        axis.errorbar(at, means, deviations, label=label, **style)
        paper_label = f"the paper's value, {_short(paper_value)}"
        if paper_value in axis_of.position:
            place = axis_of.position[paper_value]
            ring: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": COLOURS[2], "markersize": 9}
            axis.plot(place, summary[paper_value][0], "o", label=paper_label, **ring)
        elif paper_value is not None:
            axis.axvline(paper_value, color=COLOURS[2], linestyle=":", label=paper_label)
        _scale(axis, axis_of, knob)
        percent_axis(axis, "pooled accuracy")
        axis.set_title(title)
        figure.legend(loc="outside lower center", ncols=2)

    return write_figure(out, COLUMN, 2.6, draw)


def in_percent(accuracies: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation in percent; the deviation of a single seed is 0."""
    values = [100 * float(a) for a in accuracies]
    return mean(values), stdev(values) if len(values) > 1 else 0.0


class KnobAxis(NamedTuple):
    """Value -> position in order, and the scale: `linear`, `log`, `log and 0`, or `names`."""

    position: dict[Any, float]
    scale: str
    smallest: float = 0.0  # above zero


def knob_axis(values: Sequence[Any]) -> KnobAxis:
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return KnobAxis({value: float(i) for i, value in enumerate(values)}, "names")
    position = {value: float(value) for value in sorted(values)}
    positive = [value for value in position.values() if value > 0]
    if min(position.values()) < 0 or not positive or max(positive) < DECADES * min(positive):
        return KnobAxis(position, "linear")
    return KnobAxis(position, "log" if len(positive) == len(position) else "log and 0", min(positive))


def _scale(axis: "Axes", of: KnobAxis, knob: str) -> None:
    if of.scale == "log":
        axis.set_xscale("log")
    elif of.scale == "log and 0":
        axis.set_xscale("symlog", linthresh=of.smallest, linscale=0.6)
    elif of.scale == "names":
        axis.margins(x=0.2)
    axis.set_xlabel(f"{knob} (log scale)" if of.scale.startswith("log") else knob)
    axis.set_xticks(list(of.position.values()), [_short(value) for value in of.position])
    axis.set_xticks([], minor=True)
    if len(of.position) > 8:
        axis.tick_params(axis="x", rotation=45)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)

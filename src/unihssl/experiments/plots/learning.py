"""Losses, mask rate and pseudo-label accuracy during training, from the metrics of runs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unihssl.config import changes_result
from unihssl.errors import UserError
from unihssl.experiments.plots.canvas import COLOURS, COLUMN, GREY, percent_axis, write_figure
from unihssl.experiments.plots.select_runs import described
from unihssl.experiments.results import saved_settings
from unihssl.run_folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHARES = {"stats/mask_rate": "samples trusted,\nmask rate"}
SHARES["stats/oracle_pseudo_accuracy"] = "pseudo-labels right,\noracle"
GROUPS = ("terms", "weighted", "stats")
Row = dict[str, Any]  # of a run's metrics
Runs = Sequence[Sequence[Row]]
Style = dict[str, Any]  # how a line is drawn: matplotlib's keywords


class Curve(NamedTuple):
    """A metric in one stage: mean and sample standard deviation over runs, at the steps that all of them logged."""

    steps: np.ndarray
    mean: np.ndarray
    std: np.ndarray


def learning_curves(run_dirs: Sequence[str | Path], out: str | Path, *, names: Sequence[str] = ()) -> tuple[Path, Path]:
    """Draw losses, mask rate and pseudo-label accuracy against the step. Returns the PNG and the SVG.

    >>> learning_curves(["runs/seed0", "runs/seed1"], "plots/learning")
    (PosixPath('plots/learning.png'), PosixPath('plots/learning.svg'))

    Runs that differ in their seed alone become a mean and a band of ± one standard deviation; with `names`, one for
    each run, those of one name do. One method is shown with all terms of its loss, several with their total losses.
    Vertical lines mark where a stage begins, if all runs have the same stages.
    """
    folders = [Path(run) for run in run_dirs]
    groups = histories(folders, names)
    shares = [name for name in SHARES if any(curves(runs, name) for runs in groups.values())]
    heights = [1.7, *[1.0 for _ in shares]]

    def draw(figure: "Figure") -> None:
        axes = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0].tolist()
        _draw_losses(axes[0], groups)
        for axis, name in zip(axes[1:], shares, strict=True):
            for style, runs in zip(_line_styles(), groups.values(), strict=False):
                draw_curves(axis, curves(runs, name), style, scale=100)
            percent_axis(axis, SHARES[name])
            axis.set_ylim(0, 100)
        _mark_stages(axes, groups)
        axes[-1].set_xlabel("training step")
        axes[-1].set_xlim(left=0)
        repeats = sorted({len(runs) for runs in groups.values()})
        band = f"; mean ± std of {' to '.join(map(str, repeats))} runs" if repeats[-1] > 1 else ""
        title = f"{', '.join(groups) if len(groups) == 1 else 'training'}{band}"
        figure.suptitle("\n".join(filter(None, [title, described(folders)])), fontsize=8)

    legend_rows = math.ceil(len(groups) / _columns(groups))
    return write_figure(out, COLUMN, 0.4 + 0.17 * max(legend_rows, 1) + 1.25 * sum(heights), draw)


def histories(run_dirs: Sequence[Path], names: Sequence[str] = ()) -> dict[str, list[list[Row]]]:
    """Name -> the metrics of its runs. The name is the given one, or the method with the settings that differ."""
    if not run_dirs:
        raise UserError("there is no run to plot; name one run directory or more")
    folders = [RunFolder(run) for run in run_dirs]
    configs = [{"method": name} for name in names] or [_identity(saved_settings(folder)) for folder in folders]
    groups: dict[tuple[tuple[str, str], ...], list[list[Row]]] = {}
    for folder, config in zip(folders, configs, strict=True):
        rows = folder.read_metrics()
        if not rows:
            raise UserError(f"{folder.path}: no metrics ({folder.metrics.name} is missing or empty); train it first")
        groups.setdefault(tuple(config.items()), []).append(rows)
    known = [dict(identity) for identity in groups]
    return {_name(config, known): runs for config, runs in zip(known, groups.values(), strict=True)}


def _identity(settings: dict[str, Any]) -> dict[str, str]:
    """What tells two runs apart, but for chance and the machine: data and settings that change the result."""
    data = ("labeled", "unlabeled")
    return {k: str(v) for k, v in settings.items() if (changes_result(k) or k in data) and k != "seed"}


def _name(config: dict[str, str], configs: Sequence[dict[str, str]]) -> str:
    same_method = [other for other in configs if other.get("method") == config.get("method")]
    differing = [name for name in config if len({other.get(name) for other in same_method}) > 1]
    return ", ".join([config.get("method", "?"), *(f"{name}={config[name]}" for name in differing)])


def curves(runs: Runs, metric: str) -> list[Curve]:
    """A curve for each stage that logged the metric: `loss`, `terms/NAME`, `weighted/NAME` or `stats/NAME`."""
    values: dict[str, list[dict[int, float]]] = {}  # stage -> for each run, step -> value
    for rows in runs:
        by_stage: dict[str, dict[int, float]] = {}
        for row in rows:
            logged = {f"{group}/{name}": v for group in GROUPS for name, v in row.get(group, {}).items()}
            value = row.get("loss") if metric == "loss" else logged.get(metric)
            if value is not None:
                by_stage.setdefault(row["stage"], {})[row["global_step"]] = value
        for stage, by_step in by_stage.items():
            values.setdefault(stage, []).append(by_step)
    found = []
    for stage, repeats in values.items():
        steps = sorted(set.intersection(*map(set, repeats)))
        if not steps:
            raise UserError(f"stage {stage}: these runs logged no step in common; plot them apart")
        table = np.array([[by_step[step] for step in steps] for by_step in repeats], dtype=np.float64)
        std = table.std(0, ddof=1) if len(table) > 1 else np.zeros(len(steps))
        found.append(Curve(np.array(steps), table.mean(0), std))
    return found


def loss_terms(runs: Runs) -> list[str]:
    """Names of the loss terms, in the order of the log."""
    return list(dict.fromkeys(name for rows in runs for row in rows for name in row["terms"]))


def term_group(runs: Runs) -> str:
    """`weighted` if every row has its terms as they count in the loss; runs of 0.1.0 have only `terms`."""
    return "weighted" if all("weighted" in row for rows in runs for row in rows) else "terms"


def stage_starts(runs: Runs) -> dict[str, int]:
    """Stage -> the step after which it begins."""
    starts: dict[str, int] = {}
    for row in (row for rows in runs for row in rows):
        starts.setdefault(row["stage"], row["global_step"] - row["step"])
    return starts


def _draw_losses(axis: "Axes", groups: Mapping[str, Runs]) -> None:
    lines: list[tuple[str, Style, list[Curve]]] = []
    if len(groups) == 1:
        (runs,) = groups.values()
        terms = loss_terms(runs)
        lines.append(("total", {"color": "black"}, curves(runs, "loss")))
        if len(terms) > 1:
            group = term_group(runs)
            lines += [(t, style, curves(runs, f"{group}/{t}")) for t, style in zip(terms, _line_styles(), strict=False)]
    else:
        rows = zip(groups.items(), _line_styles(), strict=False)
        lines = [(name, style, curves(runs, "loss")) for (name, runs), style in rows]
    for name, style, stages in lines:
        draw_curves(axis, stages, style, name=name)
    values = np.concatenate([curve.mean for _, _, stages in lines for curve in stages])
    positive = values[values > 0]
    wide = len(positive) and positive.max() > 20 * positive.min() and (values >= 0).all()
    if wide:  # losses of zero are not shown
        axis.set_yscale("log")
        axis.set_ylim(max(positive.min() / 1.5, positive.max() / 1e5), positive.max() * 1.5)
        axis.yaxis.set_major_formatter("{x:g}")  # powers would need the formulas that figures go without
        axis.yaxis.set_minor_formatter("")
    unweighted = len(groups) == 1 and len(lines) > 1 and term_group(*groups.values()) == "terms"
    what = "loss (terms unweighted)" if unweighted else "loss"
    axis.set_ylabel(f"{what}\nlog scale" if wide else what)
    axis.grid(axis="y", linewidth=0.4, alpha=0.4)
    if len(lines) > 1:
        spread = {"columnspacing": 1.2, "handlelength": 1.8}
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.06), ncols=_columns([n for n, _, _ in lines]), **spread)


def _columns(names: Iterable[str]) -> int:
    """The number of columns with which a legend is no wider than the figure."""
    return max(1, min(3, 50 // max(len(name) + 6 for name in names)))


def draw_curves(
    axis: "Axes", stages: Iterable[Curve], style: Style, *, scale: float = 1, name: str | None = None
) -> None:
    for number, curve in enumerate(stages):
        mean, std = scale * curve.mean, scale * curve.std
        marker = "o" if len(mean) == 1 else ""  # a line through one point is invisible
        axis.plot(curve.steps, mean, marker=marker, markersize=3, label=None if number else name, **style)
        if std.any():
            axis.fill_between(curve.steps, mean - std, mean + std, color=style["color"], alpha=0.2, linewidth=0)


def _mark_stages(axes: Sequence["Axes"], groups: Mapping[str, Runs]) -> None:
    """A line where each stage begins, named above the first panel, if all groups have the same stages."""
    starts, *others = (stage_starts(runs) for runs in groups.values())
    if len(starts) == 1 or any(stages != starts for stages in others):
        return
    for stage, step in starts.items():
        for axis in axes if step else []:
            axis.axvline(step, color=GREY, linewidth=0.8, linestyle=":")
        style: Style = {"fontsize": 6.5, "color": GREY, "va": "bottom", "ha": "left"}
        axes[0].text(step, 1.01, f" {stage} ", transform=axes[0].get_xaxis_transform(), **style)


def _line_styles() -> list[Style]:
    """Distinct styles of lines: all colours solid, then dashed, then dotted."""
    lines = ("solid", "dashed", "dotted", "dashdot")
    return [{"color": colour, "linestyle": line} for line in lines for colour in COLOURS] * 3

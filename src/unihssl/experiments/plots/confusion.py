"""Confusion matrices of each domain."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unihssl.errors import UserError
from unihssl.evaluation.metrics import PARTS
from unihssl.experiments.plots.canvas import PAGE, write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

MOST_NUMBERS = 15  # with more classes numbers are too small to read: the worst confusions are listed instead
LISTED = 5


def confusion_matrices(result: Mapping[str, Any], out: str | Path, *, title: str = "") -> tuple[Path, Path]:
    """Draw a matrix for each domain, side by side; rows add up to 100%. Returns the PNG and the SVG.

    >>> confusion_matrices(unihssl.evaluate("runs/first"), "plots/confusion")

    `result` is what `evaluate` returns, `result.json` holds, or a model has as its `result`.
    """
    names, measured = count_confusions(result)
    if not measured:
        raise UserError("there are no test images of known class to draw a confusion matrix of")
    side = max(PAGE / 2, 0.085 * len(names) + 0.8)

    def draw(figure: "Figure") -> None:
        axes = figure.subplots(1, len(measured), squeeze=False)[0]
        for axis, (domain, counts) in zip(axes, measured.items(), strict=True):
            image = _draw_matrix(axis, normalise_rows(counts), names)
            accuracy = 100 * np.trace(counts) / counts.sum()
            axis.set_title(f"{domain} domain: {accuracy:.1f}% of {counts.sum():,} right")
            axis.set_xlabel("predicted class")
            if axis is axes[0]:
                axis.set_ylabel("true class (a row adds up to 100%)")
            else:
                axis.set_yticklabels([])
            if len(names) > MOST_NUMBERS:
                worst = "\n".join(
                    f"{names[true]} → {names[predicted]}: {count} ({share:.0f}%)"
                    for true, predicted, count, share in top_confusions(counts, LISTED)
                )
                axis.set_xlabel(f"predicted class\n\nmost frequent confusions\n{worst or 'none'}")
        if len(names) > MOST_NUMBERS:
            figure.colorbar(image, ax=list(axes), shrink=0.5, label="share of the true class (%)")
        figure.suptitle(title, fontsize=9)

    return write_figure(out, side * len(measured), side, draw)


def count_confusions(result: Mapping[str, Any]) -> tuple[list[str], dict[str, np.ndarray]]:
    """Class names, and for each domain the counts (C, C) of samples by true class (row) and predicted class."""
    tables = {domain: table for domain in PARTS if (table := result.get(domain, {}).get("confusion"))}
    rows = [row for table in tables.values() for row in table.values()]
    names = list(dict.fromkeys([*(true for table in tables.values() for true in table), *(n for r in rows for n in r)]))
    counts = {
        domain: np.array([[table.get(true, {}).get(predicted, 0) for predicted in names] for true in names])
        for domain, table in tables.items()
    }
    return names, counts


def normalise_rows(counts: np.ndarray) -> np.ndarray:
    """In percent of the true class; NaN for a class without samples."""
    totals = counts.sum(1, keepdims=True)
    return np.asarray(np.divide(100.0 * counts, totals, out=np.full(counts.shape, np.nan), where=totals > 0))


def top_confusions(counts: np.ndarray, most: int) -> list[tuple[int, int, int, float]]:
    """The most frequent mistakes: true class, predicted class, how many, and their percentage of the true class."""
    share = normalise_rows(counts)
    wrong = [(int(t), int(g)) for t, g in np.argwhere(counts > 0) if t != g]
    wrong.sort(key=lambda cell: (-counts[cell], -share[cell], cell))
    return [(t, g, int(counts[t, g]), float(share[t, g])) for t, g in wrong[:most]]


def _draw_matrix(axis: "Axes", share: np.ndarray, names: Sequence[str]) -> "AxesImage":
    image = axis.imshow(share, cmap="Blues", vmin=0, vmax=100)
    few = len(names) <= MOST_NUMBERS
    size = 7 if few else max(3.5, 7 - 0.06 * len(names))
    turned = 90 if max(map(len, names)) > 2 else 0
    axis.set_xticks(range(len(names)), names, rotation=turned, fontsize=size)
    axis.set_yticks(range(len(names)), names, fontsize=size)
    axis.tick_params(length=0, pad=2)
    axis.spines[:].set_visible(False)
    for row, column in np.argwhere(share >= 0.5) if few else []:
        value = share[row, column]
        colour = "white" if value > 60 else "black"
        axis.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize=6.5, color=colour)
    return image

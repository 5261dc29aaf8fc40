"""Maps of both domains' features, before and after training."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unihssl.errors import UserError
from unihssl.experiments.plots.canvas import GREY, PAGE, class_colours, write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_POINTS = 1500  # more would hide one another
MOST_NAMED = 20  # classes in the legend
DOMAINS = {0: ("labeled domain", "o"), 1: ("unlabeled domain", "x")}


def feature_map(
    before: np.ndarray,
    after: np.ndarray,
    domain: np.ndarray,
    label: np.ndarray,
    out: str | Path,
    *,
    class_names: Sequence[object] = (),
    titles: tuple[str, str] = ("before training", "after training"),
    seed: int = 0,
    most: int = MOST_POINTS,
) -> tuple[Path, Path]:
    """Draw two t-SNE maps of the same samples. Colour is the class, marker the domain. Returns the PNG and the SVG.

    `before` (N, D) and `after` (N, D') are features, `domain` (N,) is 0 (labeled) or 1 (unlabeled), `label` (N,) an
    index into `class_names`, or -1 where the class is not known (drawn in grey). At most `most` samples are drawn,
    evenly from classes and domains.
    """
    before, after, domain, label = map(np.asarray, (before, after, domain, label))
    lengths = [len(x) for x in (before, after, domain, label)]
    if len(set(lengths)) != 1:
        raise UserError(f"features, domains and labels must be of the same samples; got {lengths} of them")
    rows = balanced_subsample(label * 2 + domain, most, seed)
    if len(rows) < 4:
        raise UserError(f"a feature map needs 4 samples or more, and there are {len(rows)}")
    names = [str(name) for name in class_names] or [str(i) for i in range(int(label.max()) + 1)]
    places = [embed(features[rows], seed) for features in (before, after)]

    def draw(figure: "Figure") -> None:
        for number, (title, at) in enumerate(zip(titles, places, strict=True)):
            axis = figure.add_subplot(1, 2, number + 1)
            _scatter(axis, at, domain[rows], label[rows], len(names))
            axis.set_title(title)
        _legend(figure, names)

    return write_figure(out, PAGE, 4.1, draw)


def balanced_subsample(group: np.ndarray, most: int, seed: int) -> np.ndarray:
    """At most `most` row numbers, sorted: all rows of small groups, and equally many random rows of larger ones."""
    found, counts = np.unique(group, return_counts=True)
    if len(group) <= most:
        return np.arange(len(group))
    each = max(n for n in range(most + 1) if n <= 1 or np.minimum(counts, n).sum() <= most)
    rng = np.random.default_rng(seed)
    rows = np.concatenate([rng.permutation(np.flatnonzero(group == g))[:each] for g in found])
    return np.sort(rows if len(rows) <= most else rng.permutation(rows)[:most])  # more groups than `most`


def embed(features: np.ndarray, seed: int) -> np.ndarray:
    """Positions (N, 2) by t-SNE after a PCA to 50 dimensions; on one thread, so that sums keep their order."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    features = np.ascontiguousarray(features, dtype=np.float32)
    if not np.isfinite(features).all():
        raise UserError("some features are not finite: has the training diverged?")
    if np.ptp(features, axis=0).max() <= 1e-6 * np.abs(features).max():  # scikit-learn divides by their deviation
        raise UserError("all features are the same: the network has collapsed, and there is no map to draw")
    with threadpool_limits(1):
        if min(features.shape) > 50:
            features = PCA(50, random_state=seed).fit_transform(features)
        perplexity = min(30.0, (len(features) - 1) / 3)
        at: Any = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(features)
    return np.asarray(at, dtype=np.float64).round(2)


def _scatter(axis: "Axes", at: np.ndarray, domain: np.ndarray, label: np.ndarray, classes: int) -> None:
    colours = class_colours(classes)
    for number, (_, marker) in DOMAINS.items():
        for c, colour in enumerate([GREY, *colours], start=-1):
            chosen = (domain == number) & (label == c)
            x, y = at[chosen].T
            axis.scatter(x, y, s=9, color=colour, marker=marker, linewidths=0.7 if marker == "x" else 0)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_aspect("equal", "datalim")
    axis.set_xlabel("t-SNE 1 (no unit)")
    axis.set_ylabel("t-SNE 2 (no unit)")
    axis.spines[:].set_visible(True)


def _legend(figure: "Figure", names: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    def mark(name: str, marker: str, colour: Any) -> Line2D:
        return Line2D([], [], linestyle="", marker=marker, markersize=4, color=colour, label=name)

    marks = [mark(name, marker, GREY) for name, marker in DOMAINS.values()]
    if len(names) <= MOST_NAMED:
        marks += [mark(name, "s", colour) for name, colour in zip(names, class_colours(len(names)), strict=True)]
    else:
        marks.append(mark(f"{len(names)} classes, {names[0]} (dark) to {names[-1]} (light)", "s", "none"))
    figure.legend(handles=marks, loc="outside lower center", ncols=6, columnspacing=1.2, handletextpad=0.2)

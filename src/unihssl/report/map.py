"""The map of both domains' features, with some of the images."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from unihssl.data.domain import spread_rows
from unihssl.errors import UserError
from unihssl.experiments.plots.features import embed
from unihssl.report.charts import COLOURS, Figure, colour, svg
from unihssl.report.markup import tag
from unihssl.report.pictures import data_uri
from unihssl.report.seen import Seen

WIDTH, HEIGHT, EDGE = 920.0, 560.0, 26.0
THUMB, MOST_THUMBS = 34.0, 12  # their side, and how many of each domain and kind
THUMBS = {"far": 2.1, "near": 1.15}  # least distance, in sides; on a narrow page the far ones are shown, larger
FEWEST_POINTS = 8
MOST_POINTS = 250  # of each domain: t-SNE takes seconds for more


def feature_map(seen: Mapping[str, Seen], images: bool) -> Figure | None:
    """t-SNE of the features of both domains, with some `images`; None where there is nothing to draw."""
    parts = {role: s for role, s in seen.items() if s.features is not None}
    rows = {role: spread_rows(len(s.names), MOST_POINTS) for role, s in parts.items()}
    total = sum(map(len, rows.values()))
    if total < FEWEST_POINTS:
        return None
    try:
        features = [s.features[rows[role]] for role, s in parts.items() if s.features is not None]
        at = _fit(embed(np.concatenate(features), seed=0))
    except UserError:  # all features are the same
        return None
    places = dict(zip(parts, np.split(at, np.cumsum([len(r) for r in rows.values()])[:-1]), strict=True))
    drawn: list[Markup] = []
    taken: list[np.ndarray] = []
    for role, s in parts.items():
        drawn += _points(s, rows[role], places[role], role)
    for kind in THUMBS if images else ():
        for role, s in parts.items():
            drawn += _thumbnails(s, rows[role], places[role], role, taken, kind)
    b = parts.get("unlabeled")
    colours = "Colour is the true class" if b is None or b.known else "Colour is A's true class and B's predicted one"
    text = f"t-SNE of what the classifier sees, {total} samples. {colours}. Near points look alike to the model; "
    text += "distances between far groups mean little."
    names = [str(name) for name in next(iter(parts.values())).model.classes_]
    return Figure(svg(*drawn, width=WIDTH, height=HEIGHT), "Features of both domains", text, _legend(names), wide=True)


def _legend(names: Sequence[str]) -> list[tuple[str, str, str]]:
    domains = [("A, labeled", "var(--ink)", "dot"), ("B, unlabeled", "var(--ink)", "cross")]
    few = len(names) <= COLOURS
    return [*domains, *((name, colour(i, len(names)), "square") for i, name in enumerate(names) if few)]


def _points(seen: Seen, rows: np.ndarray, at: np.ndarray, role: str) -> list[Markup]:
    return [_dot(float(x), float(y), stroke, role) for (x, y), stroke in zip(at, _colours(seen, rows), strict=True)]


def _thumbnails(
    seen: Seen, rows: np.ndarray, at: np.ndarray, role: str, taken: list[np.ndarray], kind: str
) -> Iterator[Markup]:
    """Images framed by their class's colour, B's with a dashed line; none covers one of those taken before."""
    shown, colours = _spread(at, THUMB * THUMBS[kind], taken), _colours(seen, rows)
    for row, pixels in zip(shown, seen.pixels(rows[shown]) if len(shown) else (), strict=True):
        x, y = (float(v) - THUMB / 2 for v in at[row])
        frame: dict[str, Any] = {"x": x, "y": y, "width": THUMB, "height": THUMB}
        image = tag("image", href=data_uri(pixels, 48), preserveAspectRatio="xMidYMid slice", **frame)
        dashes = ";stroke-dasharray:4 2" if role == "unlabeled" else ""
        yield tag("g", image, tag("rect", **frame, style=f"stroke:{colours[row]}{dashes}"), class_=f"thumb {kind}")


def _colours(seen: Seen, rows: np.ndarray) -> list[str]:
    """Of the true class where it is known, else of the predicted one."""
    classes = (seen.labels if seen.known else seen.predicted)[rows]
    return [colour(int(c), seen.probabilities.shape[1]) for c in classes]


def _dot(x: float, y: float, fill: str, role: str) -> Markup:
    if role == "labeled":
        return tag("circle", cx=float(x), cy=float(y), r=3.6, style=f"fill:{fill}", class_="dot")
    r = 3.4
    path = f"M{x - r:.1f} {y - r:.1f}l{2 * r} {2 * r}M{x - r:.1f} {y + r:.1f}l{2 * r} {-2 * r}"
    return tag("path", d=path, style=f"stroke:{fill}", class_="cross")


def _fit(at: np.ndarray) -> np.ndarray:
    """Positions (N, 2) stretched to the drawing."""
    low, span = at.min(0), np.maximum(np.ptp(at, axis=0), 1e-9)
    return np.asarray(EDGE + (at - low) / span * (np.array([WIDTH, HEIGHT]) - 2 * EDGE))


def _spread(at: np.ndarray, distance: float, taken: list[np.ndarray]) -> np.ndarray:
    """Rows whose thumbnails lie apart from all others, as far as there is room; adds their places to those taken."""
    chosen: list[int] = []
    for row in np.random.default_rng(0).permutation(len(at)):
        if len(chosen) < MOST_THUMBS and all(np.abs(at[row] - other).max() > distance for other in taken):
            chosen.append(int(row))
            taken.append(at[row])
    return np.array(chosen, dtype=np.int64)

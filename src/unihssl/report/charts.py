"""Charts as inline SVG, coloured by the page's CSS variables so that they follow its light or dark theme."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from markupsafe import Markup

from unihssl.report.markup import join, percent, tag

WIDTH, HEIGHT = 460.0, 250.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 20.0, 18.0, 38.0
LETTER = 7.0  # about the width of one
BAR, THICKEST, GAP = 9.0, 28.0, 8.0  # least and largest height of a bar; height between groups of them
COLOURS = 10  # that the style sheet defines


@dataclass(frozen=True)
class Line:
    """A curve, in pieces that are not connected; `colour` is a CSS colour."""

    name: str
    pieces: Sequence[tuple[np.ndarray, np.ndarray]]
    colour: str
    dashed: bool = False
    sizes: Sequence[float] = ()  # radius of a dot at each point; none is drawn without


@dataclass(frozen=True)
class Figure:
    """A drawing, what it shows, and its legend: (name, colour, shape)."""

    svg: Markup
    title: str
    caption: str = ""
    legend: Sequence[tuple[str, str, str]] = ()
    wide: bool = False


@dataclass(frozen=True)
class Frame:
    """Maps data to places in the drawing, and draws the axes."""

    x: tuple[float, float]
    y: tuple[float, float]
    marks: Sequence[tuple[float, str]] = field(default_factory=tuple)  # vertical lines with names

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / ((self.x[1] - self.x[0]) or 1)
        up = (y - self.y[0]) / ((self.y[1] - self.y[0]) or 1)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    def axes(self, x_label: str, *, shares: tuple[bool, bool]) -> Markup:
        """Grid, numbers and names; `shares` says which of x and y are shares, shown in percent."""
        parts = []
        for value in ticks(*self.y):
            _, y = self.at(self.x[0], value)
            parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
            parts.append(tag("text", number(value, shares[1]), x=LEFT - 6, y=y + 4, text_anchor="end"))
        for value in ticks(*self.x):
            x, _ = self.at(value, self.y[0])
            parts.append(tag("text", number(value, shares[0]), x=x, y=HEIGHT - BOTTOM + 16, text_anchor="middle"))
        middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
        parts.append(tag("text", x_label, x=middle, y=HEIGHT - 5, text_anchor="middle", class_="label"))
        free = 0.0  # where the next name may begin
        for value, name in self.marks:
            x, _ = self.at(value, self.y[0])
            parts.append(tag("line", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM, class_="mark"))
            parts.append(tag("text", name, x=max(x + 3, free), y=TOP - 5, class_="label"))
            free = max(x + 3, free) + LETTER * (len(name) + 1)
        return join(parts)


def line_chart(
    lines: Sequence[Line],
    x_label: str,
    *,
    y: tuple[float, float] | None = None,
    shares: tuple[bool, bool] = (False, False),
    marks: Sequence[tuple[float, str]] = (),
    diagonal: bool = False,
) -> Markup:
    """Curves over a common axis; y begins at 0 unless a range is given."""
    xs = np.concatenate([x for line in lines for x, _ in line.pieces])
    ys = np.concatenate([values for line in lines for _, values in line.pieces])
    top = float(ys.max()) if len(ys) and ys.max() > 0 else 1.0
    right = float(xs.max()) if len(xs) and xs.max() > 0 else 1.0
    frame = Frame((0.0, 1.0 if shares[0] else right), y or (min(0.0, float(ys.min())), 1.05 * top), marks=marks)
    parts = [frame.axes(x_label, shares=shares)]
    if diagonal:
        (x1, y1), (x2, y2) = frame.at(0, 0), frame.at(1, 1)
        parts.append(tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="mark"))
    for line in lines:
        for piece in line.pieces:
            parts.append(_curve(frame, *piece, line))
    return svg(*parts)


def area_chart(
    steps: np.ndarray, shares: np.ndarray, colours: Sequence[str], x_label: str, marks: Sequence[tuple[float, str]]
) -> Markup:
    """Shares (T, C) that add up to 1 at each of T steps, stacked."""
    frame = Frame((0.0, float(steps[-1])), (0.0, 1.0), marks=marks)
    edges = np.concatenate([np.zeros((len(steps), 1)), shares.cumsum(1)], axis=1)
    parts = []
    for c, colour in enumerate(colours):
        upper = [frame.at(x, y) for x, y in zip(steps, edges[:, c + 1], strict=True)]
        lower = [frame.at(x, y) for x, y in zip(steps, edges[:, c], strict=True)]
        parts.append(tag("polygon", points=_points([*upper, *lower[::-1]]), style=f"fill:{colour}", class_="area"))
    return svg(*parts, frame.axes(x_label, shares=(False, True)))


def bar_chart(
    names: Sequence[str],
    bars: Sequence[tuple[str, Sequence[float | None]]],
    most: float | None = None,
    height: float = HEIGHT,
) -> Markup:
    """For each name a group of horizontal bars of shares, up to `most`; `bars` are (colour, values or None).

    They are as thick as fills the `height`, within reason.
    """
    thick = min(max(((height - 26) / max(len(names), 1) - GAP) / len(bars), BAR), THICKEST)
    row, left = thick * len(bars), 116.0
    height = len(names) * (row + GAP) + 26
    if most is None:
        most = max([v for _, values in bars for v in values if v is not None] + [0.05])
        step = ticks(0.0, most)[1]
        most = step * float(np.ceil(most / step - 1e-9))
    short, parts = shorten(names, 16), []
    for value in ticks(0.0, most):
        x = left + value / most * (WIDTH - left - 46)
        parts.append(tag("line", x1=x, x2=x, y1=4.0, y2=height - 20, class_="grid"))
        parts.append(tag("text", number(value, True), x=x, y=height - 6, text_anchor="middle"))
    for i, name in enumerate(names):
        top = 6 + i * (row + GAP)
        parts.append(tag("text", short[name], tag("title", name), x=left - 8, y=top + row / 2 + 4, text_anchor="end"))
        for k, (colour, values) in enumerate(bars):
            share = values[i]
            if share is not None:
                wide = max(share / most * (WIDTH - left - 46), 0.5)
                size = {"x": left, "y": top + thick * k, "width": wide, "height": thick - 1}
                parts.append(tag("rect", **size, rx=1.5, style=f"fill:{colour}"))
    return svg(*parts, height=height)


def matrix(counts: np.ndarray, names: Sequence[str], numbers: bool) -> Markup:
    """Counts (C, C) of true classes (rows) and predicted ones (columns), shaded by their share of the row."""
    room = 12.0 + 7.4 * min(max((len(n) for n in names), default=1), 14)  # a wide font's letters
    cell = (WIDTH - room - 4) / len(names)
    top, height = room, room + cell * len(names) + 4
    gap, shortened = min(1.0, cell / 10), shorten(names, 14)
    parts = [tag("rect", x=room, y=top, width=cell * len(names), height=cell * len(names), class_="cell")]
    for i, name in enumerate(names):
        at = (i + 0.5) * cell
        if cell >= 9:
            short = shortened[name]
            parts.append(tag("text", short, tag("title", name), x=room - 6, y=top + at + 4, text_anchor="end"))
            turned = f"translate({room + at + 4:.1f} {top - 6:.1f}) rotate({-90 if len(short) > 2 else 0})"
            anchor = "start" if len(short) > 2 else "middle"
            parts.append(tag("text", short, tag("title", name), transform=turned, text_anchor=anchor))
    totals = counts.sum(1)
    for i, j in np.argwhere(counts):
        share = counts[i, j] / totals[i]
        x, y = room + j * cell, top + i * cell
        kind = "right" if i == j else "wrong"
        what = f"{names[i]} predicted as {names[j]}: {counts[i, j]} of {totals[i]}"
        size = {"x": x + gap / 2, "y": y + gap / 2, "width": cell - gap, "height": cell - gap}
        parts.append(tag("rect", tag("title", what), **size, class_=kind, fill_opacity=0.12 + 0.88 * share))
        if numbers:
            light = "on" if share > 0.55 else "count"
            middle = {"x": x + cell / 2, "y": y + cell / 2 + 4}
            parts.append(tag("text", str(counts[i, j]), **middle, text_anchor="middle", class_=light))
    return svg(*parts, height=height)


def svg(*parts: object, width: float = WIDTH, height: float = HEIGHT) -> Markup:
    return tag("svg", *parts, viewBox=f"0 0 {width:g} {height:g}", role="img", xmlns="http://www.w3.org/2000/svg")


def colour(number: int, count: int) -> str:
    """The CSS colour of one of `count` classes: ten distinct ones, or, for more, hues around the circle."""
    return f"var(--c{number})" if count <= COLOURS else f"hsl({360 * number / count:.0f} 55% 50%)"


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers from low to high, at most so many.

    >>> ticks(0, 1290)
    [0.0, 500.0, 1000.0]
    """
    span = (high - low) or 1.0
    power = 10.0 ** np.floor(np.log10(span / most))
    step = next(power * k for k in (1, 2, 5, 10, 20) if span / (power * k) <= most)
    return [float(round(k * step, 10)) for k in range(int(np.ceil(low / step - 1e-9)), int(high / step + 1e-9) + 1)]


def number(value: float, share: bool) -> str:
    return percent(value, 0) if share else f"{value:,.6g}"


def shorten(names: Iterable[str], most: int) -> dict[str, str]:
    """Each name cut to `most` characters: in the middle, or, where that makes names alike, before they differ.

    >>> shorten(["carcinoma type one", "carcinoma type two", "benign"], 12)
    {'carcinoma type one': 'carci…pe one', 'carcinoma type two': 'carci…pe two', 'benign': 'benign'}
    """
    tail = most // 2
    short = {
        name: name if len(name) <= most else f"{name[: most - 1 - tail]}…{name[len(name) - tail :]}" for name in names
    }
    for text, count in Counter(short.values()).items():
        if count > 1 and most > 2:
            alike = [name for name in short if short[name] == text]
            letters = enumerate(zip(*alike, strict=False))
            start = next((i for i, those in letters if len(set(those)) > 1), min(map(len, alike)))
            rests = shorten([name[start:] for name in alike], most - 1)
            short |= {name: f"…{rests[name[start:]]}" for name in alike}
    return short


def _curve(frame: Frame, x: np.ndarray, y: np.ndarray, line: Line) -> Markup:
    at = [frame.at(float(a), float(b)) for a, b in zip(x, y, strict=True)]
    sizes = line.sizes or ([3.2] if len(at) == 1 else [])
    style = f"stroke:{line.colour}" + (";stroke-dasharray:5 4" if line.dashed else "")
    drawn = tag("polyline", points=_points(at), style=style, class_="line thin" if line.sizes else "line")
    dots = (
        tag("circle", cx=cx, cy=cy, r=r, style=f"fill:{line.colour}") for (cx, cy), r in zip(at, sizes, strict=False)
    )
    return join([drawn, *dots])


def _points(at: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in at)

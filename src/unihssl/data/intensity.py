"""From images of more than 8 bits to 256 grey levels: one window for a domain, decided from its training images.

A window is what becomes black and what becomes white. It belongs to a domain and to a kind of storage (`PNG uint16`,
`DICOM CT`), never to one image: else a dark image and a bright one would look the same. RGB shares one window; of other
images each channel has its own, as channels may be in different units.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from unihssl.config import fixed_window
from unihssl.data.source import counted
from unihssl.data.values import Values, float_type
from unihssl.errors import Setting, UserError

GREYS = 256
POINTS = 1000  # quantiles kept of an image
TAIL = 0.001  # share of the values, at either end, that `auto` may clip if they would take most of the levels
PERCENTILE_TAIL = 0.005  # what `percentile` clips at either end
MARGIN = 0.25  # of the range that training images had, by which a new image may exceed it
LARGEST = 1_000_000  # values of an image that its quantiles come from


@dataclass(frozen=True)
class Window:
    """What becomes black and white, for all channels or for each; and the range of most training values."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    seen: tuple[float, float]

    def __str__(self) -> str:
        return ", ".join(f"{low:g} to {high:g}" for low, high in zip(self.low, self.high, strict=True))


Windows = Mapping[str, Window]  # by kind of storage


@dataclass(frozen=True)
class Measured:
    """The values of deep images: `quantiles` (N, channels or 1, 2 + POINTS) from least to largest."""

    kinds: np.ndarray  # (N,) text
    quantiles: np.ndarray
    limits: np.ndarray  # (N, 2), of the format
    windows: np.ndarray  # (N, 2), as the file says; NaN if it does not
    plain: int = 0  # how many images of 8 bits the domain has beside them

    def keep(self, chosen: np.ndarray) -> "Measured":
        return Measured(
            self.kinds[chosen], self.quantiles[chosen], self.limits[chosen], self.windows[chosen], self.plain
        )


def measure(values: Values, channels: int) -> np.ndarray:
    """Least, POINTS middle quantiles and largest of an image, (channels or 1, 2 + POINTS)."""
    pixels = values.pixels
    planes = [pixels[..., c] for c in range(values.channels)] if by_channel(channels) else [pixels]
    return np.stack([_quantiles(plane) for plane in planes])


def by_channel(channels: int) -> bool:
    """Whether each channel has its own window: grey and RGB share one."""
    return channels not in (1, 3)


def _quantiles(plane: np.ndarray) -> np.ndarray:
    finite = plane[np.isfinite(plane)] if plane.dtype.kind == "f" else plane.reshape(-1)
    if not len(finite):
        raise ValueError("it holds no finite value")
    some = finite[:: -(-len(finite) // LARGEST)]
    middle = np.quantile(some, (np.arange(POINTS) + 0.5) / POINTS)
    return np.concatenate([[finite.min()], middle, [finite.max()]]).astype(float_type(plane))


def decide_windows(
    measured: Measured, rule: str, name: str, sources: np.ndarray | None = None
) -> tuple[dict[str, Window], list[str]]:
    """A window for each kind of storage from the training images of a domain, and notes that say so.

    `sources` (N,) are the names of those that the domain is made of, if there are several.
    """
    windows, notes, blank = {}, [], {}
    sources = np.full(len(measured.kinds), name) if sources is None else sources
    for kind in sorted(set(measured.kinds.tolist())):
        images = measured.keep(measured.kinds == kind)
        window, how = _decide(images, rule)
        windows[kind] = window
        if found := _blank(images, window, rule):
            if not fixed_window(rule):
                windows[kind] = _decide(images, "full")[0]  # for other images than these
            blank[kind] = found
            notes.append(f"{name}: warning: {len(images.kinds)} of the training images ({kind}) {found[0]}")
            continue
        notes.append(
            f"{name}: {counted(len(images.kinds), 'image')} of more than 8 bits ({kind}): {window} become the 256 grey "
            f"levels ({how})"
        )
        for source in sorted(set(sources[measured.kinds == kind].tolist())):
            part = measured.keep((measured.kinds == kind) & (sources == source))
            notes += _level_notes(part, window, f"{source} ({kind})")
    if blank and blank.keys() == windows.keys() and not measured.plain:
        kind, (why, way) = next(iter(blank.items()))
        raise UserError(f"{name}: all training images ({kind}) {why}: nothing can be learnt from them; {way}")
    return windows, notes


def _blank(images: Measured, window: Window, rule: str) -> tuple[str, str] | None:
    """Why all images are of one grey level, and the way out; None if they are not."""
    low, high = float(images.quantiles.min()), float(images.quantiles.max())
    if low == high:
        return f"hold the one value {low:g}", "export them again"
    levels = [np.unique(_grey(images.quantiles[:, c, [0, -1]], *ends)) for c, ends in enumerate(_ends(window))]
    if max(map(len, levels)) > 1:
        return None
    made = f"{Setting('intensity', rule)} makes {window.low[0]:g} black and {window.high[0]:g} white"
    why = f"become one grey level, as {made}, and their values are {low:g} to {high:g}"
    return why, f"choose another {Setting('intensity')}"


def _decide(images: Measured, rule: str) -> tuple[Window, str]:
    fixed, quantiles = fixed_window(rule), images.quantiles
    middle = [channel.reshape(-1) for channel in quantiles[:, :, 1:-1].swapaxes(0, 1)]  # of all images, by channel
    whole = [(float(q[:, 0].min()), float(q[:, -1].max())) for q in quantiles.swapaxes(0, 1)]
    if fixed:
        ranges, how = [fixed] * len(middle), rule
    elif rule == "full":
        ranges, how = _full(images, whole), "full: the range of the format"
    elif rule == "percentile":
        ranges = [_tails(values, PERCENTILE_TAIL) for values in middle]
        how = f"percentile: {100 * PERCENTILE_TAIL:g}% are clipped at either end"
    elif np.isfinite(images.windows).all():
        ranges, how = [_pair(np.median(images.windows, axis=0))] * len(middle), "auto: the median of the files' windows"
    else:
        ranges, how = [_rounded(*ends) for ends in whole], "auto: the range of their values"
        clipped = [_rounded(*_tails(values, TAIL)) for values in middle]
        if any(2 * (b - a) < high - low for (a, b), (low, high) in zip(clipped, ranges, strict=True)):
            ranges, how = clipped, f"auto: without the outer {100 * TAIL:g}% at either end, which took most levels"
    seen = float(quantiles[:, :, 1].min()), float(quantiles[:, :, -2].max())
    low, high = zip(*((a, b if b > a else a + 1) for a, b in ranges), strict=True)  # a flat channel is black
    return Window(low, high, seen), how


def _full(images: Measured, whole: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The range of the format; floats have none, unless all are in 0..1."""
    low, high = float(images.limits[:, 0].min()), float(images.limits[:, 1].max())
    return [(low, high) if low <= a and b <= high else (a, b) for a, b in whole]


def _tails(values: np.ndarray, tail: float) -> tuple[float, float]:
    return _pair(np.quantile(values, [tail, 1 - tail]))


def _pair(ends: np.ndarray) -> tuple[float, float]:
    return float(ends[0]), float(ends[1])


def _rounded(low: float, high: float) -> tuple[float, float]:
    """Wider by up to two sixteenths, so that the splits of other seeds mostly give the same window, and one cache."""
    if high <= low:
        return low, high
    step = 2.0 ** (math.floor(math.log2(high - low)) - 4)
    return math.floor(low / step) * step, math.ceil(high / step) * step


def _level_notes(images: Measured, window: Window, name: str) -> list[str]:
    """A warning if most values share less than half of the grey levels, and one if images are flat."""
    notes: list[str] = []
    used = min(_levels(images.quantiles[:, c, 1:-1], *ends) for c, ends in enumerate(_ends(window)))
    notes += few_levels(used, name)
    flat = int((images.quantiles[:, :, 0].min(1) == images.quantiles[:, :, -1].max(1)).sum())
    if flat:
        notes.append(f"{name}: warning: {flat} training images hold one value only (all black?)")
    return notes


def few_levels(used: int, name: str, *, can_rescale: bool = True) -> list[str]:
    """A warning if that is less than half of the grey levels; `can_rescale`: whether another window would help."""
    if 2 * used >= GREYS:
        return []
    way = "export the images with more depth" + f", or choose another {Setting('intensity')}" * can_rescale
    return [f"{name}: warning: almost all values share {used} of the {GREYS} grey levels: {way}"]


def _ends(window: Window) -> Iterable[tuple[float, float]]:
    return zip(window.low, window.high, strict=True)


def _levels(values: np.ndarray, low: float, high: float) -> int:
    """Grey levels from the darkest to the lightest value, the outer 0.1% left out; no more than there are integers.

    Where there are enough values to tell, only those levels count that some value has: not all between a dark scan and
    the white mark on it.
    """
    first, last = np.clip(_tails(values.reshape(-1), TAIL), low, high)
    whole = bool((values == np.rint(values)).all())
    levels = 1 + round((GREYS - 1) * float(last - first) / (high - low))
    if values.size >= 8 * GREYS:
        levels = min(levels, len(np.unique(_grey(np.clip(values, first, last), low, high))))
    return min(levels, int(last - first) + 1) if whole else levels


def _grey(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """The grey level of each value."""
    return np.asarray(np.rint((GREYS - 1) * (np.clip(values, low, high) - low) / (high - low)))


def window_for(values: Values, candidates: Sequence[Window]) -> Window:
    """The window of one domain; of two, the narrower one if the image's values are about as those seen with it.

    An image does not say which domain it is of. Most often the way it is stored does; here both store it alike.
    """
    narrow, wide = sorted([candidates[0], candidates[-1]], key=lambda window: window.seen[1] - window.seen[0])
    if narrow == wide:
        return narrow
    low, high = _tails(measure(values, 3)[:, 1:-1].reshape(-1), TAIL)
    margin = MARGIN * (narrow.seen[1] - narrow.seen[0])
    return narrow if narrow.seen[0] - margin <= low and high <= narrow.seen[1] + margin else wide


def saved_windows(windows: Windows) -> dict[str, Any]:
    return {kind: asdict(window) for kind, window in windows.items()}


def loaded_windows(saved: Mapping[str, Any]) -> dict[str, Window]:
    """What `saved_windows` gave, read back from JSON; ValueError, KeyError or TypeError if it is something else."""
    return {
        kind: Window(tuple(map(float, w["low"])), tuple(map(float, w["high"])), _pair(np.array(w["seen"], dtype=float)))
        for kind, w in saved.items()
    }


def float_kinds(kinds: Iterable[str]) -> list[str]:
    """Those of float arrays, of any precision."""
    return [kind for kind in kinds if kind.startswith("array float")]


def candidates(domains: Sequence[Mapping[str, Window]]) -> dict[str, tuple[Window, ...]]:
    """The windows of each kind of storage, of the domains that an image may be from."""
    kinds = sorted({kind for windows in domains for kind in windows})
    return {kind: tuple(windows[kind] for windows in domains if kind in windows) for kind in kinds}

"""The look of every figure and how it is written: the same bytes on each call, whatever the user's matplotlibrc."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unihssl.errors import UserError
from unihssl.files import atomic, make_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.5, 7.0  # inches: the widths of one column and of two
GREY = "#666666"
# Petroff's ten colours, distinct for people with any colour vision (arXiv 2107.02270).
COLOURS: tuple[str, ...] = ("#3f90da", "#ffa90e", "#bd1f01", "#832db6", "#94a4a2")
COLOURS += ("#a96b59", "#e76300", "#92dadd", "#717581", "#b9ac70")
STYLE: dict[str, Any] = {"font.size": 8, "axes.titlesize": 8, "axes.labelsize": 8, "legend.fontsize": 7}
STYLE |= {"xtick.labelsize": 7, "ytick.labelsize": 7, "legend.frameon": False, "lines.linewidth": 1.3}
STYLE |= {"axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6}
STYLE["text.parse_math"] = False  # a $ in the name of a class is a $
STYLE["svg.fonttype"] = "none"  # text stays text, which can be searched
STYLE["svg.hashsalt"] = "unihssl"  # the same ids on each call


def require_matplotlib() -> None:
    """Refuse to work without matplotlib; also called before long computations."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UserError("plots need matplotlib: pip install 'unihssl[plots]'") from None


def write_figure(out: str | Path, width: float, height: float, draw: Callable[["Figure"], None]) -> tuple[Path, Path]:
    """Draw on an empty figure of this size (inches) and write `out`.png and `out`.svg, replacing old ones.

    Neither pyplot nor the user's backend and settings are touched.
    """
    require_matplotlib()
    from matplotlib import style
    from matplotlib.figure import Figure

    stem = Path(out)
    if stem.suffix in (".png", ".svg"):
        stem = stem.with_suffix("")
    make_folder(stem.parent)
    png, svg = (stem.with_name(stem.name + suffix) for suffix in (".png", ".svg"))
    with style.context(["default", STYLE]):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        _settle(figure)
        common: dict[str, Any] = {"bbox_inches": "tight", "pad_inches": 0.03}
        with atomic(png) as path:
            figure.savefig(path, format="png", dpi=200, metadata={"Software": None}, **common)
        with atomic(svg) as path:
            figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None}, **common)
    return png, svg


def _settle(figure: "Figure") -> None:
    """Fix the layout, rounded: the solver's last digits differ from call to call, and so would the file."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(value, 4) for value in axes.get_position(original=True).bounds)
        axes.set_position((left, bottom, width, height))


def class_colours(count: int) -> list[Any]:
    """A colour for each class: ten distinct ones, or, for more classes, shades from dark to light."""
    if count <= len(COLOURS):
        return list(COLOURS[:count])
    from matplotlib import colormaps

    return [colormaps["viridis"](i / (count - 1)) for i in range(count)]


def percent_axis(axis: "Axes", label: str) -> None:
    """Set up the y axis for values in percent."""
    axis.set_ylabel(f"{label} (%)")
    axis.grid(axis="y", linewidth=0.4, alpha=0.4)

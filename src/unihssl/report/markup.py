"""HTML and SVG elements, with every text and attribute escaped."""

from markupsafe import Markup, escape

Value = str | float | None


def tag(name: str, *content: object, **attributes: Value) -> Markup:
    """An element. `_` in an attribute's name stands for `-`; one that is None is left out.

    >>> tag("text", "a < b", x=1.5, text_anchor="end")
    Markup('<text x="1.5" text-anchor="end">a &lt; b</text>')
    """
    written = "".join(
        f' {key.strip("_").replace("_", "-")}="{escape(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{join(content)}</{name}>")


def join(parts: object) -> Markup:
    """Elements and texts one after the other; texts are escaped."""
    return Markup("").join(escape(part) for part in parts)  # type: ignore[attr-defined]


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}%"


def _plain(value: Value) -> str:
    return f"{round(value, 2):g}" if isinstance(value, float) else str(value)

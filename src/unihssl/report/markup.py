"""HTML and SVG elements, with every text and attribute escaped."""

import re
import shlex

from markupsafe import Markup, escape

Value = str | float | None
CODE = re.compile(r"(`[^`]+`|--set [\w=+-]+|--[a-z][\w-]*)")


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


def with_code(text: str) -> Markup:
    """A text whose parts in backticks, and options, are code.

    >>> with_code("`none`, or a < b, or --set epochs=6")
    Markup('<code>none</code>, or a &lt; b, or <code>--set epochs=6</code>')
    """
    parts = CODE.split(text)  # every other one is code
    return join(tag("code", part.strip("`")) if i % 2 else part for i, part in enumerate(parts))


def command_lines(command: str) -> Markup:
    """A command of a shell with an option on each line; the page breaks a word only where it is longer than a line.

    >>> command_lines("unihssl report runs/first --no-images")
    Markup('<span>unihssl</span> <span>report</span> <span>runs/first \\\\</span>\\n  <span>--no-images</span>')
    """
    try:
        given = shlex.split(command)
    except ValueError:  # a part of one, cut at a line break in a file's name
        return escape(command)
    lines: list[list[str]] = [[]]
    for word in given:
        if word.startswith("--") and lines[-1]:
            lines.append([])
        lines[-1].append(word)
    ends = [" \\"] * (len(lines) - 1) + [""]
    words = ([*map(shlex.quote, line[:-1]), shlex.quote(line[-1]) + end] for line, end in zip(lines, ends, strict=True))
    return Markup("\n  ").join(Markup(" ").join(tag("span", word) for word in line) for line in words)


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}%"


def _plain(value: Value) -> str:
    return f"{round(value, 2):g}" if isinstance(value, float) else str(value)

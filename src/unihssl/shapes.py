"""Shapes of JSON content, compared before anything is read from it."""

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Maybe:
    """None, or of this shape."""

    shape: Any


@dataclass(frozen=True)
class Each:
    """A table of any names, each with a value of this shape."""

    shape: Any


def misfit(value: Any, shape: Any, place: str = "") -> str:
    """The first place where a value is not of a shape, such as `labeled.accuracy`; empty if it fits.

    A shape is a type, a list of one shape, a table of names and shapes, or one of the above. A name that ends in ? may
    be absent; names that the table does not have may be there. float means any finite number.

    >>> misfit({"n": 3, "names": ["a", 1]}, {"n": int, "names": [str], "more?": float})
    'names'
    """
    here = place or "content"
    if isinstance(shape, Maybe):
        return "" if value is None else misfit(value, shape.shape, place)
    if isinstance(shape, list):
        return "" if isinstance(value, list) and not any(misfit(item, shape[0]) for item in value) else here
    if not isinstance(shape, dict | Each):
        return "" if _is(value, shape) else here
    if not isinstance(value, dict):
        return here
    table = dict.fromkeys(value, shape.shape) if isinstance(shape, Each) else shape
    for name, inner in table.items():
        key = name if isinstance(shape, Each) else name.removesuffix("?")
        within = f"{place}.{key}" if place else key
        wrong = misfit(value[key], inner, within) if key in value else within * (key == name)
        if wrong:
            return wrong
    return ""


def _is(value: Any, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, kind)

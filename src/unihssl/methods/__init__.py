"""Training methods: every `Method` in this package, and those other packages offer as entry points."""

import difflib
import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points

from unihssl.errors import UserError
from unihssl.methods.base import Method

__all__ = ["Method", "available", "get"]


@cache
def available() -> dict[str, type[Method]]:
    """Every method by name. A file in this folder is enough; packages add theirs as `unihssl.methods` entries."""
    modules = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
    found = [value for module in modules for value in vars(module).values()]
    found += [entry.load() for entry in entry_points(group="unihssl.methods")]
    methods = [f for f in found if isinstance(f, type) and issubclass(f, Method) and "name" in vars(f)]
    return {method.name: method for method in sorted(methods, key=lambda m: m.name)}


def get(name: str) -> type[Method]:
    methods = available()
    if name not in methods:
        near = difflib.get_close_matches(name, methods, n=1, cutoff=0.4)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise UserError(f"unknown method '{name}'{hint} (there are: {', '.join(methods)})")
    return methods[name]

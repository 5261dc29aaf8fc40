"""Training methods: every `Method` in this package, and those other packages offer as entry points."""

import difflib
import importlib
import pkgutil
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from unihssl.errors import UserError
from unihssl.methods.base import Method

__all__ = ["Method", "available", "get"]


@cache
def available() -> dict[str, type[Method[Any]]]:
    """Every method by name. A file in this folder is enough; packages add theirs as `unihssl.methods` entries."""
    modules = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
    found = [value for module in modules for value in vars(module).values()]
    found += [_load(entry) for entry in entry_points(group="unihssl.methods")]
    methods: dict[str, type[Method[Any]]] = {}
    for method in found:
        named = isinstance(method, type) and issubclass(method, Method) and "name" in vars(method)
        if named and methods.setdefault(method.name, method) is not method:
            raise UserError(f"two methods are called '{method.name}': {methods[method.name]} and {method}")
    return dict(sorted(methods.items()))


def _load(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:  # somebody else's package may fail in any way
        raise UserError(
            f"the method '{entry.name}' of another package ({entry.value}) fails to load: {error}"
        ) from None


def get(name: str) -> type[Method[Any]]:
    methods = available()
    if name not in methods:
        near = difflib.get_close_matches(name, methods, n=1, cutoff=0.4)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise UserError(f"unknown method '{name}'{hint} (there are: {', '.join(methods)})")
    return methods[name]

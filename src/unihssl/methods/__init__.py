"""Training methods: every `Method` in this package, and those other packages offer as entry points."""

import difflib
import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from unihssl.errors import UserError
from unihssl.methods.base import Method

__all__ = ["Method", "available", "get"]


@cache
def available() -> dict[str, type[Method[Any]]]:
    """Every method by name. A file in this folder is enough; packages add theirs as `unihssl.methods` entries."""
    modules = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
    found = [value for module in modules for value in vars(module).values()]
    found += _from_packages()[0]
    methods: dict[str, type[Method[Any]]] = {}
    for method in found:
        named = isinstance(method, type) and issubclass(method, Method) and "name" in vars(method)
        if named and methods.setdefault(method.name, method) is not method:
            raise UserError(f"two methods are called '{method.name}': {methods[method.name]} and {method}")
    return dict(sorted(methods.items()))


def _from_packages() -> tuple[list[Any], dict[str, str]]:
    """Methods of other packages, and by name why some fail to load: only who asks for one of these need know."""
    found, failures = [], {}
    for entry in entry_points(group="unihssl.methods"):
        try:
            found.append(entry.load())
        except Exception as error:  # another package may fail in any way
            failures[entry.name] = (
                f"the method '{entry.name}' of another package ({entry.value}) fails to load: {error}"
            )
    return found, failures


def get(name: str) -> type[Method[Any]]:
    """The method of this name; unknown names are refused."""
    methods = available()
    if name not in methods:
        if name in _from_packages()[1]:
            raise UserError(_from_packages()[1][name])
        near = difflib.get_close_matches(name, methods, n=1, cutoff=0.4)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise UserError(f"unknown method '{name}'{hint} (there are: {', '.join(methods)})")
    return methods[name]

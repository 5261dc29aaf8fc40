"""The public Python API for autodoc, from `unihssl.__all__`."""

import inspect
from typing import Any

import unihssl

SETTINGS = "Settings, with their defaults"  # begins the list of all settings at the end of `fit`'s docstring


def markdown() -> str:
    """A section for each public name."""
    names = [name for name in unihssl.__all__ if name != "__version__"]
    first = ["fit", "load", "Model"]
    order = sorted(names, key=lambda name: first.index(name) if name in first else len(first))
    return "\n".join(_section(name) for name in order)


def _section(name: str) -> str:
    found = getattr(unihssl, name)
    kind = "class" if inspect.isclass(found) else "function"
    members = "   :members:\n" if kind == "class" and not issubclass(found, Exception) else ""
    return f"## {name}\n\n```{{eval-rst}}\n.. auto{kind}:: unihssl.{name}\n{members}```\n"


def shorten(_app: Any, _kind: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Sphinx's event: settings have a page of their own."""
    for number, line in enumerate(lines):
        if line.startswith(SETTINGS):
            lines[number:] = ["Every setting is an argument by its name; the page of settings has them all."]
            return


def skip(_app: Any, _kind: str, name: str, _object: Any, _skipped: bool, _options: Any) -> bool | None:
    """Sphinx's event: leave out what scikit-learn adds to every estimator (`set_fit_request`)."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def signature(_app: Any, _kind: str, name: str, *_: Any) -> tuple[str, str] | None:
    """Sphinx's event: a `Model` comes from `fit` or `load`; how it is put together is not public."""
    return ("", "") if name == "unihssl.Model" else None

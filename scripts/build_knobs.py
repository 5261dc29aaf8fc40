"""Write src/unihssl/knobs.py: the arguments of `fit` as a TypedDict, so that editors complete and check them.

Run it after a setting was added: python scripts/build_knobs.py
"""

import typing
from pathlib import Path
from typing import Any, Literal

from unihssl import methods
from unihssl.config import Settings, knob_fields

FILE = Path(__file__).parents[1] / "src" / "unihssl" / "knobs.py"
HEAD = '''"""The settings that `unihssl.fit` takes by name. Written by scripts/build_knobs.py; do not edit."""

from typing import Literal, TypedDict


class Knobs(TypedDict, total=False):
    """Settings of every run, then those of single methods; `unihssl methods NAME` explains them."""

'''
NOT_KNOBS = ("labeled", "unlabeled", "target_labels")  # arguments of `fit` itself


def source() -> str:
    """The text of the module."""
    kinds: dict[str, list[str]] = {}
    built_in = [m for m in methods.available().values() if m.__module__.startswith("unihssl.")]
    for cls in (Settings, *(method.Params for method in built_in)):
        for name, (_, kind) in knob_fields(cls).items():
            spelled = _spelled(kind)
            if name not in NOT_KNOBS and spelled not in kinds.setdefault(name, []):
                kinds[name].append(spelled)
    return HEAD + "".join(f"    {name}: {' | '.join(found)}\n" for name, found in kinds.items())


def _spelled(kind: Any) -> str:
    if typing.get_origin(kind) is Literal:
        values = ", ".join(f'"{value}"' for value in typing.get_args(kind))
        return f"Literal[{values}]"
    return str(kind.__name__)


if __name__ == "__main__":
    FILE.write_text(source(), encoding="utf-8")

"""The exceptions a user is meant to read.

A message names settings inline, `UserError(f"choose another {Setting('out')}")`, and each front end spells them its own
way: Python as arguments (`out`, `epochs=5`), the command line as options (`--out`, `--set epochs=5`).
"""

import ast
import re
from collections.abc import Callable
from typing import NamedTuple

_MARKED = re.compile("\x02(\\w+)=(.*?)\x03", re.DOTALL)


# What a terminal obeys or hides: control characters but for tab and line end, and marks that turn text around.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
NOT_TEXT = re.compile(f"{CONTROL.pattern}|[\ud800-\udfff]")  # also what stands for bytes that are not UTF-8


def printable(text: str) -> str:
    """The text with what no terminal should see escaped: `\\x1b` for an escape."""
    return NOT_TEXT.sub(lambda found: ascii(found[0])[1:-1], text)


class Setting(NamedTuple):
    """A setting, alone or with the value that it should have. In a message it is marked, to be spelled later."""

    name: str
    value: str | float | bool | None = None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value!r}"

    def __format__(self, spec: str) -> str:
        return f"\x02{self.name}={self.value!r}\x03"


def resume_call(folder: object) -> Setting:
    """The call that resumes the run in a folder, to be spelled like a setting."""
    return Setting("resume_call", str(folder))


Spell = Callable[[Setting], str]


def python_spelling(setting: Setting) -> str:
    return f"fit(..., out={setting.value!r}, resume=True)" if setting.name == "resume_call" else str(setting)


def worded(message: str, spell: Spell = python_spelling) -> str:
    """The message, with every setting in it spelled by `spell`."""
    return printable(_MARKED.sub(lambda mark: spell(Setting(mark[1], ast.literal_eval(mark[2]))), message))


class _Worded:
    def __str__(self) -> str:
        return self.worded(python_spelling)

    def worded(self, spell: Spell) -> str:
        return worded(super().__str__(), spell)


class UserError(_Worded, ValueError):
    """Bad input, or a run that cannot continue: names what is wrong and the way out. One line, exit code 1."""


class RunInterruptedError(_Worded, Exception):
    """The run was asked to stop and has saved its progress. One line, exit code 130."""


def full_memory(error: BaseException) -> str | None:
    """Whose memory an error says is full, `GPU` or `machine`; None if it says nothing of the kind.

    >>> full_memory(MemoryError())
    'machine'
    """
    if type(error).__name__ == "OutOfMemoryError":  # torch's, which is not imported for this
        return "GPU"
    host = isinstance(error, MemoryError) or "can't allocate memory" in str(error)  # the latter: torch on the CPU
    return "machine" if host else None

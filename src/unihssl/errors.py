"""The exceptions a user is meant to read."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Setting(NamedTuple):
    """A setting that an error names, so that each front end can spell it its own way: `Setting("epochs", 5)`."""

    name: str
    value: object = None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value!r}"


class Resume(NamedTuple):
    """How to resume the run in a folder."""

    folder: Path

    def __str__(self) -> str:
        return f"fit(..., out={str(self.folder)!r}, resume=True)"


Part = str | Setting | Resume


class _WordedError(Exception):
    """A message in parts. `str()` spells settings as Python arguments; the command line spells them as options."""

    def __init__(self, *parts: Part) -> None:
        super().__init__(*parts)

    def __str__(self) -> str:
        return self.worded(str)

    def worded(self, spell: Callable[[Setting | Resume], str]) -> str:
        """The message, with every setting spelled by `spell`."""
        return "".join(part if isinstance(part, str) else spell(part) for part in self.args)


class UserError(_WordedError):
    """Bad input, or a run that cannot continue: names what is wrong and the way out. One line, exit code 1."""


class RunInterruptedError(_WordedError):
    """The run was asked to stop and has saved its progress. One line, exit code 130."""

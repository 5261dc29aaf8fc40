"""What a person sees while a run trains: a live bar in a terminal, a line now and then elsewhere."""

import time
from collections.abc import Callable
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from unihssl.errors import Spell, python_spelling, worded

QUIET_SECONDS = 10.0  # between two lines where there is no terminal
SHOWN = 7  # readings: the loss, its terms, then statistics


class Display:
    """Progress of decoding and training, on stderr so that stdout carries results alone."""

    def __init__(self, quiet: bool = False, spell: Spell = python_spelling) -> None:
        """`spell` is how messages spell settings: as Python arguments, unless the command line says otherwise."""
        self.spell = spell
        self.console = Console(stderr=True, quiet=quiet, highlight=False)
        self.silent = False
        self._live = self.console.is_terminal and not quiet
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[values]}", table_column=Column(ratio=1, no_wrap=True)),  # what room is left
            console=self.console,
            expand=True,
            disable=not self._live,
        )
        self._task = self._bar.add_task("", total=None, values="", visible=False)
        self._name, self._total, self._last_line = "", 0, 0.0

    def __enter__(self) -> "Display":
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def silence(self) -> None:
        """Print nothing from here on: another process reports for the run."""
        self._bar.stop()
        self.silent = self.console.quiet = True

    def note(self, message: str) -> None:
        self.console.print(worded(message, self.spell), markup=False, soft_wrap=True)

    def start(self, name: str, total: int, done: int = 0) -> None:
        self._name, self._total = name, total
        self._bar.reset(self._task, description=name, total=total, completed=done, values="", visible=True)

    def counter(self, name: str) -> Callable[[int, int], None]:
        """A function to call with (done, total): a bar in a terminal; elsewhere one line at the start."""
        begun = False

        def progress(done: int, total: int) -> None:
            nonlocal begun
            if not begun:
                self.start(name, total)
                if not self._live:
                    self.note(f"{name} ...")
            begun = True
            self.step(done)

        return progress

    def step(self, done: int) -> None:
        self._bar.update(self._task, completed=done)

    def values(self, done: int, values: dict[str, float]) -> None:
        """New readings of the losses."""
        text = "  ".join(f"{name} {values[name]:.3f}" for name in list(values)[:SHOWN])
        self._bar.update(self._task, completed=done, values=text)
        if not self._live and (time.monotonic() - self._last_line > QUIET_SECONDS or done == self._total):
            self._last_line = time.monotonic()
            self.note(f"{self._name} {done}/{self._total}{self._time_left()}  {text}")

    def _time_left(self) -> str:
        left = self._bar.tasks[self._task].time_remaining
        return f"  {timedelta(seconds=round(left))} left" if left else ""

"""What a person sees of a run on the command line: a live bar in a terminal, a line now and then elsewhere."""

import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from unihssl.cli.options import as_options
from unihssl.errors import worded
from unihssl.training.display import Display, readings

QUIET_SECONDS = 10.0  # between two lines where there is no terminal


class TerminalDisplay(Display):
    """Progress of decoding and training, on stderr so that stdout carries results alone."""

    def __init__(self, quiet: bool = False) -> None:
        super().__init__(verbose=not quiet, spell=as_options)
        self.console = Console(stderr=True, quiet=quiet, highlight=False)
        self._live = self.console.is_terminal and not quiet
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn(
                "{task.fields[values]}",
                markup=False,
                table_column=Column(ratio=1, no_wrap=True),  # what room is left
            ),
            console=self.console,
            expand=True,
            disable=not self._live,
        )
        self._task = self._progress.add_task("", total=None, values="", visible=False)
        self._last_line, self._readings = 0.0, ""

    def __enter__(self) -> "TerminalDisplay":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def silence(self) -> None:
        self._progress.stop()
        self.silent = self.console.quiet = True

    def note(self, message: str) -> None:
        self.console.print(worded(message, self.spell), markup=False, soft_wrap=True)

    def start(self, name: str, total: int, done: int = 0) -> None:
        self._name, self._total, self._readings = name, total, ""
        self._last_line = time.monotonic()
        self._progress.reset(self._task, description=name, total=total, completed=done, values="", visible=True)

    def counter(self, name: str) -> Callable[[int, int], None]:
        """A function to call with (done, total): a bar in a terminal; elsewhere a line at the start, then by time."""
        report = super().counter(name)
        begun = False

        def progress(done: int, total: int) -> None:
            nonlocal begun
            if not begun and not self._live:
                self.note(f"{name} ...")
            begun = True
            report(done, total)

        return progress

    def step(self, done: int) -> None:
        self._progress.update(self._task, completed=done)
        self._line(done)

    def values(self, done: int, values: dict[str, float]) -> None:
        first, self._readings = not self._readings, readings(values)
        self._progress.update(self._task, completed=done, values=self._readings)
        self._line(done, due=first or done == self._total)

    def _line(self, done: int, due: bool = False) -> None:
        """Outside a terminal, say where the run is: when readings first come, every few seconds, and at the end."""
        if self._live or not (due or time.monotonic() - self._last_line > QUIET_SECONDS):
            return
        self._last_line = time.monotonic()
        left = self._progress.tasks[self._task].time_remaining
        time_left = f"  {timedelta(seconds=round(left))} left" if left else ""
        self.note(f"{self._name} {done}/{self._total}{time_left}  {self._readings}".rstrip())

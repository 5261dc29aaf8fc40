"""What a grid of runs is doing: said once at its start, and on a terminal on a line at the bottom while it trains."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from unihssl.experiments.runner import Run

EVERY_SECONDS = 2.0


def name_of(run: "Run") -> str:
    row = " and ".join(dict.fromkeys(role.variant for role in run.roles))
    return f"{run.pair} {row} seed {run.knobs['seed']}"


class GridProgress:
    """While entered, tells which of the waiting runs have begun, how far they are, and how long the rest may take."""

    def __init__(self, waiting: Sequence["Run"], out: Path) -> None:
        from rich.console import Console

        self.waiting, self.out = waiting, out
        self.ended: set[Path] = set()
        console = Console(stderr=True)
        self._status = console.status("starting") if console.is_terminal and waiting else None
        self._ended = threading.Event()
        self._start = time.time()

    def __enter__(self) -> "GridProgress":
        if self._status:
            self._status.start()
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._status:
            self._status.stop()

    def say(self, line: str) -> None:
        """A line above the one at the bottom."""
        if self._status:
            self._status.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            typer.echo(line, err=True)

    def over(self, run: "Run") -> None:
        """It is trained, or has failed."""
        self.ended.add(run.folder(self.out))

    def line(self) -> str:
        took, done = time.time() - self._start, len(self.ended)
        wait = f"; about {_duration(took / done * (len(self.waiting) - done))} left" if done else ""
        return f"{done} of {len(self.waiting)} done{wait}; {'; '.join(self._begun()) or 'starting'}"

    def _begun(self) -> list[str]:
        from unihssl.training.log import read_metrics
        from unihssl.training.run_directory import CONFIG, RESULT

        begun = []
        for run in self.waiting:
            folder = run.folder(self.out)
            config = folder / CONFIG  # written when a run begins or goes on
            new = config.exists() and config.stat().st_mtime >= self._start - 1
            if new and folder not in self.ended and not (folder / RESULT).exists():
                rows = read_metrics(folder)
                begun.append(name_of(run) + (f" ({rows[-1]['stage']}, step {rows[-1]['step']})" if rows else ""))
        return begun

    def _watch(self) -> None:
        while self._status and not self._ended.wait(EVERY_SECONDS):
            self._status.update(self.line())


def _duration(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{seconds:.0f} s"

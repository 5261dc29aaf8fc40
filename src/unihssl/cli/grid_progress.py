"""What a grid of runs is doing: a line for each run that ends, and on a terminal a status line at the bottom."""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from unihssl.experiments.runner import Run

EVERY_SECONDS = 2.0


def name_of(run: "Run") -> str:
    row = " and ".join(dict.fromkeys(role.variant for role in run.roles))
    return f"{run.pair} {row} seed {run.knobs['seed']}"


class GridProgress:
    """While entered, the status line names the runs under way, their steps, and the time that is left."""

    def __init__(self, waiting: Sequence["Run"], out: Path) -> None:
        from rich.console import Console

        self.waiting, self.out = waiting, out
        self.ended: set[Path] = set()  # folders of the runs that are trained or have failed
        console = Console(stderr=True)
        self._status = console.status("starting") if console.is_terminal and waiting else None
        self._left = threading.Event()
        self._start = time.time()

    def __enter__(self) -> "GridProgress":
        if self._status:
            self._status.start()
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        if self._status:
            self._status.stop()

    def print(self, line: str) -> None:
        """Print a line above the status line."""
        if self._status:
            self._status.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            typer.echo(line, err=True)

    def end(self, run: "Run") -> None:
        """The run is trained, or has failed."""
        self.ended.add(run.folder(self.out))

    def line(self) -> str:
        elapsed, done = time.time() - self._start, len(self.ended)
        left = f"; about {timedelta(seconds=round(elapsed / done * (len(self.waiting) - done)))} left" if done else ""
        return f"{done} of {len(self.waiting)} done{left}; {'; '.join(self._begun()) or 'starting'}"

    def _begun(self) -> list[str]:
        from unihssl.errors import UserError
        from unihssl.run_folder import RunFolder

        begun = []
        for run in self.waiting:
            folder = RunFolder(run.folder(self.out))
            # The configuration is written when a run begins or is resumed.
            new = folder.is_run and folder.config.stat().st_mtime >= self._start - 1
            if new and folder.path not in self.ended and not folder.is_finished:
                rows = []
                with suppress(UserError):  # a damaged log is reported by the run that resumes from it
                    rows = folder.read_metrics()
                begun.append(name_of(run) + (f" ({rows[-1]['stage']}, step {rows[-1]['step']})" if rows else ""))
        return begun

    def _watch(self) -> None:
        while self._status and not self._left.wait(EVERY_SECONDS):
            self._status.update(self.line())

"""What a run reports while it works: records of the log `unihssl`, and a progress bar where somebody watches."""

import logging
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

from unihssl.errors import Spell, python_spelling, worded

logger = logging.getLogger("unihssl")
SHOWN = 7  # readings: the loss, its terms, then statistics


class Display:
    """Notes and progress of decoding and training. Notes are log records; with `verbose` they are also shown.

    >>> logging.basicConfig(level=logging.INFO)  # or add your own handler to the logger "unihssl"
    """

    def __init__(self, verbose: bool = False, spell: Spell = python_spelling) -> None:
        """`spell` is how messages spell settings: as Python arguments, unless the command line says otherwise."""
        self.verbose, self.spell, self.silent = verbose, spell, False
        self._bar: Any = None
        self._name, self._total = "", 0

    def __enter__(self) -> "Display":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_bar()

    def silence(self) -> None:
        """Report nothing from here on: another process reports for the run."""
        self._close_bar()
        self.verbose, self.silent = False, True

    def note(self, message: str) -> None:
        """A line for people."""
        if self.silent:
            return
        text = worded(message, self.spell)
        logger.info(text)
        if self.verbose and not logger.isEnabledFor(logging.INFO):  # else it is shown by the log's handlers
            from tqdm.auto import tqdm

            tqdm.write(text, file=sys.stderr)

    def start(self, name: str, total: int, done: int = 0) -> None:
        """Begin a piece of work of `total` steps."""
        self._close_bar()
        self._name, self._total = name, total
        if self.verbose:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total, initial=done, desc=name, leave=False)

    def counter(self, name: str) -> Callable[[int, int], None]:
        """A function to call with (done, total)."""
        begun = False

        def progress(done: int, total: int) -> None:
            nonlocal begun
            if not begun:
                self.start(name, total)
            begun = True
            self.step(done)

        return progress

    def step(self, done: int) -> None:
        if self._bar is not None:
            self._bar.update(done - self._bar.n)

    def values(self, done: int, values: dict[str, float]) -> None:
        """New readings of the losses."""
        text = readings(values)
        if not self.silent:
            logger.info("%s %d/%d  %s", self._name, done, self._total, text)
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
            self._bar.set_postfix_str(text)

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def readings(values: dict[str, float]) -> str:
    """The first few values in one line."""
    return "  ".join(f"{name} {values[name]:.3f}" for name in list(values)[:SHOWN])


def watched() -> bool:
    """Whether somebody sees what is printed: a terminal, or a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return sys.stderr.isatty() or "IPKernelApp" in getattr(shell, "config", ())

"""Ctrl-C and SIGTERM ask a run to save and stop; the same signal again stops it at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class InterruptGuard:
    """While entered, the first signal only sets `requested`, which the loop checks between steps."""

    def __init__(self) -> None:
        self.requested = False
        self._last = 0
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> "InterruptGuard":
        if threading.current_thread() is threading.main_thread():
            for name in (signal.SIGINT, signal.SIGTERM):
                self._before[name] = signal.signal(name, self._on_signal)
        return self

    def __exit__(self, *exception: object) -> None:
        for name, handler in self._before.items():
            signal.signal(name, handler)  # type: ignore[arg-type]

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._last == number:  # another signal may be the same request, sent on by a parent process
            raise KeyboardInterrupt
        self.requested, self._last = True, number


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """While entered, SIGTERM acts like Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def held_interrupts() -> Iterator[Callable[[], None]]:
    """Defer Ctrl-C until the yielded `check()` is called or the block ends; a second one is immediate.

    For code that works with threads or processes: an interrupt inside the standard library can leave a lock taken, and
    then the next thread that needs it waits forever.
    """
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        check()
        came = True

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    held = []
    if threading.current_thread() is threading.main_thread():
        held = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) is signal.default_int_handler]
    for number in held:
        signal.signal(number, note)
    try:
        yield check
    finally:
        for number in held:
            signal.signal(number, signal.default_int_handler)
        check()  # an error on its way out must not hide the interrupt

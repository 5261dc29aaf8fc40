"""Ctrl-C and SIGTERM ask a run to save and stop; asked twice in the same way, it stops at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType


class InterruptGuard:
    """While entered, the first signal only sets `requested`, which the loop looks at between steps."""

    def __init__(self) -> None:
        self.requested = False
        self._last = 0
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> "InterruptGuard":
        if threading.current_thread() is threading.main_thread():
            for name in (signal.SIGINT, signal.SIGTERM):
                self._before[name] = signal.signal(name, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, handler in self._before.items():
            signal.signal(name, handler)  # type: ignore[arg-type]

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._last == number:  # another signal may be the same wish, by way of a parent process
            raise KeyboardInterrupt
        self.requested, self._last = True, number


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """While entered, SIGTERM is what Ctrl-C is."""
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
    """While entered, KeyboardInterrupt comes only where the given function is called, and at the end; a second at once.

    For code that works with threads or processes. Raised between any two instructions it also comes inside the
    standard library's own, where it can leave a lock taken: whoever needs that lock then waits for ever.
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
        check()  # whatever else went wrong: who only sees that may go on

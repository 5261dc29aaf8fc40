"""What a grid asks of a launcher."""

from collections.abc import Callable, Generator, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class ProcessDiedError(Exception):
    """The process of a task ended without an exception that tells why."""


class Launcher(Protocol):
    """Calls a function on every task, up to `workers` at a time, each in a process of its own."""

    workers: int

    def launch(
        self, function: Callable[[T, int], R], tasks: Sequence[T]
    ) -> Generator[tuple[T, R | Exception], None, None]:
        """Yield each task with its outcome as it ends: the function's result, or the exception it ended with.

        The function is called with a task and the number of tasks that may share its machine. It must be importable
        by name, and its results and exceptions must survive pickling. Closed or interrupted early, the launcher
        starts no further task and returns when the running ones have ended.
        """
        ...

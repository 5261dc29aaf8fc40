"""What a grid asks of a launcher."""

from collections.abc import Callable, Generator, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class ProcessDiedError(Exception):
    """The process of a task is gone, with no exception to tell why."""


class Launcher(Protocol):
    """Calls a function on every task, `workers` at a time, each in a process of its own."""

    workers: int

    def launch(self, function: Callable[[T], R], tasks: Sequence[T]) -> Generator[tuple[T, R | Exception], None, None]:
        """Each task with what came of it, as it is done: a result, or the exception that ended this task alone.

        Closed or interrupted early, it starts no further task and returns once those under way have ended. The
        function must be importable by name, and its results and exceptions must survive pickling.
        """
        ...

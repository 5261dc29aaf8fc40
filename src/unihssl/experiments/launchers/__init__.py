"""Where the runs of a grid go: processes of this machine, or a Ray cluster."""

from collections.abc import Callable, Generator, Sequence
from typing import Protocol, TypeVar

from unihssl.errors import Setting, UserError

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


def make_launcher(name: str = "local", workers: int = 2, gpus_per_run: float | None = None) -> Launcher:
    """The launcher called `local` or `ray`, for `workers` runs at a time.

    >>> make_launcher("ray", workers=8, gpus_per_run=0.25)
    """
    if workers < 1:
        raise UserError(f"{Setting('workers')} must be 1 or more, got {workers}")
    if name == "local":
        from unihssl.experiments.launchers.local import LocalLauncher

        if gpus_per_run is not None:
            needed = Setting("launcher", "ray")
            raise UserError(f"{Setting('gpus_per_run')} needs {needed}: local workers are spread evenly over the GPUs")
        return LocalLauncher(workers)
    if name == "ray":
        from unihssl.experiments.launchers.on_ray import RayLauncher

        return RayLauncher(workers, gpus_per_run)
    raise UserError(f"unknown launcher '{name}': there are local and ray")

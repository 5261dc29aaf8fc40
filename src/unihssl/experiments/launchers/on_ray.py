"""Tasks on a Ray cluster: the one of RAY_ADDRESS, or one of this machine's own for as long as it is needed."""

import logging
import math
import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch

from unihssl.data import machine
from unihssl.errors import RunInterruptedError, UserError
from unihssl.experiments.launchers.base import ProcessDiedError

T = TypeVar("T")
R = TypeVar("R")
STORE_BYTES = 128 * 2**20  # only small results travel


class RayLauncher:
    """Up to `workers` tasks at a time; each gets its share of the CPUs, and of a GPU where the cluster has any.

    `gpus_per_run` 0.25 puts four runs on a card; None shares the cards so that all workers find room.
    """

    def __init__(self, workers: int, gpus_per_run: float | None = None) -> None:
        if gpus_per_run is not None and (gpus_per_run <= 0 or (gpus_per_run > 1 and gpus_per_run % 1)):
            raise UserError(f"gpus_per_run must be a share of a GPU or a whole number of them, got {gpus_per_run:g}")
        self.workers, self.gpus_per_run = workers, gpus_per_run
        self.ray = import_ray()

    def launch(self, function: Callable[[T], R], tasks: Sequence[T]) -> Generator[tuple[T, R | Exception], None, None]:
        if not tasks:
            return
        ray, waiting, running = self.ray, list(reversed(tasks)), dict[Any, T]()
        with cluster(ray, self.workers):
            remote = self._remote()
            try:
                while waiting or running:
                    while waiting and len(running) < self.workers:
                        task = waiting.pop()
                        running[remote.remote(function, task)] = task
                    (done,), _ = ray.wait(list(running), num_returns=1)
                    task = running.pop(done)
                    yield task, self._outcome(done)
            finally:
                if running:  # cut short
                    for reference in running:
                        ray.cancel(reference)  # what Ctrl-C is to a process: a run saves and stops
                    ray.wait(list(running), num_returns=len(running))

    def _remote(self) -> Any:
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        cpus = share_cpus([int(node.get("CPU", 0)) for node in nodes], self.workers)
        cards = [int(node.get("GPU", 0)) for node in nodes]
        gpus = share_gpus(cards, self.workers, self.gpus_per_run)
        return self.ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0)(_call)

    def _outcome(self, reference: Any) -> Any:
        errors = self.ray.exceptions
        try:
            return self.ray.get(reference)
        except errors.TaskCancelledError:
            return RunInterruptedError("cancelled")
        except errors.RayTaskError as error:
            return error.cause if isinstance(error.cause, Exception) else RuntimeError(str(error))
        except errors.RayError as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            return ProcessDiedError(f"its process died (out of memory?): {reason[0]}")


def import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise UserError("Ray is not installed: pip install 'unihssl[ray]', or use --launcher local") from None
    return ray


@contextmanager
def cluster(ray: Any, workers: int) -> Iterator[None]:
    """Connected to Ray: as this process is already, else to RAY_ADDRESS, else to a cluster started for the while."""
    if ray.is_initialized():
        yield
        return
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    address = os.environ.get("RAY_ADDRESS")
    # Its sockets lie in there, and their paths must be short, whatever TMPDIR says.
    folder = "/tmp" if Path("/tmp").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="ray-", dir=folder, ignore_cleanup_errors=True) as scratch:
        try:
            if address:
                ray.init(address=address, **quiet)
            else:
                os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
                cpus = max(workers, machine.cpus())
                small: dict[str, Any] = {"include_dashboard": False, "object_store_memory": STORE_BYTES}
                ray.init(address="local", num_cpus=cpus, _temp_dir=scratch, **small, **quiet)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            where = f"connect to RAY_ADDRESS={address}" if address else "start on this machine"
            raise UserError(f"Ray could not {where} ({error}); without Ray: --launcher local") from error
        try:
            yield
        finally:
            ray.shutdown()


def share_cpus(nodes: Sequence[int], workers: int) -> int:
    """The most CPUs each run can have with `workers` of them at a time, no run being split between nodes."""
    for cpus in range(max(nodes, default=1), 1, -1):
        if sum(node // cpus for node in nodes) >= workers:
            return cpus
    return 1


def share_gpus(nodes: Sequence[int], workers: int, wish: float | None) -> float:
    """The GPUs of each run: as wished, else a card or an even share of one; 0 where the cluster has none."""
    if not any(nodes) and wish is None:
        return 0
    if wish is not None and wish > max(nodes, default=0):
        most = max(nodes, default=0)
        there = f"has more than {most}" if most else "has a GPU; leave it out to train on CPUs"
        raise UserError(f"--gpus-per-run {wish:g}: no node of the Ray cluster {there}")
    return wish if wish is not None else 1 / math.ceil(workers / sum(nodes))


def _call(function: Callable[[T], R], task: T) -> R:
    """In the worker: Ray says how many CPUs are ours, PyTorch must be told."""
    torch.set_num_threads(max(1, int(import_ray().get_runtime_context().get_assigned_resources().get("CPU", 1))))
    return function(task)

"""Tasks on a Ray cluster: the one at RAY_ADDRESS, or one started on this machine for as long as it is needed."""

import logging
import math
import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from unihssl.data import machine
from unihssl.errors import RunInterruptedError, Setting, UserError
from unihssl.experiments.launchers.base import ProcessDiedError, R, T

STORE_BYTES = 128 * 2**20  # only small results travel


class RayLauncher:
    """Up to `workers` tasks at a time, each with its share of the CPUs and, if the cluster has any, of a GPU.

    `gpus_per_run=0.25` puts four runs on a card; None divides the cards so that all workers find room.
    """

    def __init__(self, workers: int, gpus_per_run: float | None = None) -> None:
        if gpus_per_run is not None and (gpus_per_run <= 0 or (gpus_per_run > 1 and gpus_per_run % 1)):
            raise UserError(
                f"{Setting('gpus_per_run')} must be a share of a GPU or a whole number of them, got {gpus_per_run:g}"
            )
        self.workers, self.gpus_per_run = workers, gpus_per_run
        self.ray = import_ray()

    def launch(
        self, function: Callable[[T, int], R], tasks: Sequence[T]
    ) -> Generator[tuple[T, R | Exception], None, None]:
        if not tasks:
            return
        ray, waiting, running = self.ray, list(reversed(tasks)), dict[Any, T]()
        with cluster(ray, self.workers):
            remote, concurrent_tasks = self._remote()
            try:
                while waiting or running:
                    while waiting and len(running) < self.workers:
                        task = waiting.pop()
                        running[remote.remote(function, task, concurrent_tasks)] = task
                    (done,), _ = ray.wait(list(running), num_returns=1)
                    task = running.pop(done)
                    yield task, self._outcome(done)
            finally:
                if running:  # ended early
                    for reference in running:
                        ray.cancel(reference)  # raises KeyboardInterrupt in the task: a run saves and stops
                    ray.wait(list(running), num_returns=len(running))

    def _remote(self) -> tuple[Any, int]:
        """The remote function, with what it reserves, and how many of its tasks may share a node."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        node_cpus = [int(node.get("CPU", 0)) for node in nodes]
        node_gpus = [int(node.get("GPU", 0)) for node in nodes]
        cpus = share_cpus(node_cpus, self.workers)
        gpus = share_gpus(node_gpus, self.workers, self.gpus_per_run)
        remote = self.ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0)(_call)
        return remote, min(self.workers, tasks_per_node(node_cpus, node_gpus, cpus, gpus))

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
        local = Setting("launcher", "local")
        raise UserError(f"Ray is not installed: pip install 'unihssl[ray]', or use {local}") from None
    return ray


@contextmanager
def cluster(ray: Any, workers: int) -> Iterator[None]:
    """While entered, Ray is connected: as before if it was, else to RAY_ADDRESS, else to a cluster started here."""
    if ray.is_initialized():
        yield
        return
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    address = os.environ.get("RAY_ADDRESS")
    # The paths of Ray's sockets must be short, whatever TMPDIR says.
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
            local = Setting("launcher", "local")
            raise UserError(f"Ray could not {where} ({error}); without Ray: {local}") from error
        try:
            yield
        finally:
            ray.shutdown()


def share_cpus(nodes: Sequence[int], workers: int) -> int:
    """The most CPUs that each of `workers` runs can have, no run being split between nodes."""
    for cpus in range(max(nodes, default=1), 1, -1):
        if sum(node // cpus for node in nodes) >= workers:
            return cpus
    return 1


def share_gpus(nodes: Sequence[int], workers: int, requested: float | None) -> float:
    """The GPUs of each run: as requested, else a card or an even share of one; 0 if the cluster has none."""
    most = max(nodes, default=0)
    if requested is None:
        return 1 / math.ceil(workers / sum(nodes)) if most else 0
    if requested > most:
        problem = f"has more than {most}" if most else "has a GPU; leave it out to train on CPUs"
        raise UserError(f"{Setting('gpus_per_run', requested)}: no node of the Ray cluster {problem}")
    return requested


def tasks_per_node(node_cpus: Sequence[int], node_gpus: Sequence[int], cpus: int, gpus: float) -> int:
    """The most tasks that fit on one node if each reserves so many CPUs and GPUs; at least 1."""
    fitting = [
        min(own_cpus // cpus, int(own_gpus / gpus + 1e-9) if gpus else own_cpus)
        for own_cpus, own_gpus in zip(node_cpus, node_gpus, strict=True)
    ]
    return max([1, *fitting])


def _call(function: Callable[[T, int], R], task: T, concurrent_tasks: int) -> R:
    """In the worker: tell PyTorch how many CPUs Ray has reserved for this task."""
    torch.set_num_threads(max(1, int(import_ray().get_runtime_context().get_assigned_resources().get("CPU", 1))))
    return function(task, concurrent_tasks)

"""Tasks in processes of this machine, spread over its GPUs."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

import torch

from unihssl.data.machine import cpus
from unihssl.experiments.launchers.base import ProcessDiedError, R, T
from unihssl.interrupt import held_interrupts

VISIBLE = "CUDA_VISIBLE_DEVICES"
POLL_SECONDS = 0.2  # between checks for Ctrl-C
HAS_MASK = hasattr(signal, "pthread_sigmask")  # not on Windows
SAVE_SECONDS = 20.0  # that a worker has to save when its parent is gone


class LocalLauncher:
    """`workers` processes, each of which takes one task after another.

    Each process is a pool of its own, so that one that dies loses only its own task.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def launch(
        self, function: Callable[[T, int], R], tasks: Sequence[T]
    ) -> Generator[tuple[T, R | Exception], None, None]:
        waiting = list(reversed(tasks))
        gpus = assign_gpus(min(self.workers, len(tasks)), visible_gpus())
        pools = [self._pool(gpu, len(gpus)) for gpu in gpus]
        running: dict[Future[R], tuple[int, T]] = {}
        not_ours = set(multiprocessing.active_children())  # processes of the caller
        free = list(range(len(pools)))
        with held_interrupts() as check:
            try:
                while waiting or running:
                    check()
                    while free and waiting:
                        i, task = free.pop(0), waiting.pop()
                        try:
                            future = _submit(pools[i], function, task, len(pools))
                        except BrokenProcessPool:  # it died after its last task
                            pools[i] = self._pool(gpus[i], len(gpus))
                            future = _submit(pools[i], function, task, len(pools))
                        running[future] = i, task
                    for future in wait(running, POLL_SECONDS, FIRST_COMPLETED).done:
                        i, task = running.pop(future)
                        try:
                            outcome: R | Exception = future.result()
                        except BrokenProcessPool:
                            outcome = ProcessDiedError("its process died (out of memory?)")
                            pools[i].shutdown()
                            pools[i] = self._pool(gpus[i], len(gpus))
                        except Exception as error:
                            outcome = error
                        free.append(i)
                        yield task, outcome
            finally:
                if running:  # ended early: running tasks save and stop
                    for child in set(multiprocessing.active_children()) - not_ours:
                        child.terminate()
                for pool in pools:
                    pool.shutdown(cancel_futures=True)

    def _pool(self, gpu: str | None, workers: int) -> ProcessPoolExecutor:
        threads = max(1, cpus() // workers)
        context = multiprocessing.get_context("spawn")  # a forked process cannot use a GPU
        return ProcessPoolExecutor(1, context, initializer=_prepare, initargs=(threads, gpu))


def visible_gpus() -> list[str]:
    """The GPUs this process may use, named as in CUDA_VISIBLE_DEVICES. This does not initialise CUDA."""
    count = torch.cuda.device_count()
    given = os.environ.get(VISIBLE)
    names = [str(i) for i in range(count)] if given is None else [name.strip() for name in given.split(",")]
    return names[:count]


def assign_gpus(workers: int, gpus: Sequence[str]) -> list[str | None]:
    """One GPU for each worker, in turn; None for each on a machine without GPUs.

    >>> assign_gpus(3, ["0", "1"])
    ['0', '1', '0']
    """
    return [gpus[i % len(gpus)] if gpus else None for i in range(workers)]


def _prepare(threads: int, gpu: str | None) -> None:
    """Set up a new process, before CUDA reads its variable for the first and only time."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # while idle: the parent ends it
    if HAS_MASK:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if gpu is not None:
        os.environ[VISIBLE] = gpu
    torch.set_num_threads(threads)


def _submit(pool: ProcessPoolExecutor, function: Callable[[T, int], R], task: T, concurrent_tasks: int) -> Future[R]:
    """Submit a task. The first one starts the process, which inherits a blocked Ctrl-C until it is prepared."""
    if not HAS_MASK:
        return pool.submit(_interruptible, function, task, concurrent_tasks)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(_interruptible, function, task, concurrent_tasks)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _interruptible(function: Callable[[T, int], R], task: T, concurrent_tasks: int) -> R:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return function(task, concurrent_tasks)
    finally:
        signal.signal(signal.SIGINT, before)


def _end_with_parent() -> None:
    """When the parent has died, save and stop; otherwise this process would keep the GPU for ever."""
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(SAVE_SECONDS)
        os._exit(1)

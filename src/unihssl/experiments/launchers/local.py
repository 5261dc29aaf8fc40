"""Tasks in processes of this machine, spread over its GPUs."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

import torch

from unihssl.data.machine import cpus
from unihssl.data.placement import NEIGHBOURS
from unihssl.experiments.launchers.base import ProcessDiedError
from unihssl.interrupt import held_interrupts

T = TypeVar("T")
R = TypeVar("R")
VISIBLE = "CUDA_VISIBLE_DEVICES"
LOOK_SECONDS = 0.2  # between looks for Ctrl-C
SAVING = 20.0  # seconds a worker has to save when its parent is gone


class LocalLauncher:
    """`workers` seats, each a process that takes one task after another.

    A seat is a pool of one: where a process dies, only its own task is lost, and it is known which.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def launch(self, function: Callable[[T], R], tasks: Sequence[T]) -> Generator[tuple[T, R | Exception], None, None]:
        with held_interrupts() as check:
            yield from self._launch(function, tasks, check)

    def _launch(
        self, function: Callable[[T], R], tasks: Sequence[T], check: Callable[[], None]
    ) -> Generator[tuple[T, R | Exception], None, None]:
        waiting = list(reversed(tasks))
        gpus = assign_gpus(min(self.workers, len(tasks)), visible_gpus())
        seats = [self._seat(gpu) for gpu in gpus]
        running: dict[Future[R], tuple[int, T]] = {}
        others = set(multiprocessing.active_children())  # the caller's, which are none of ours
        free = list(range(len(seats)))
        try:
            while waiting or running:
                check()
                while free and waiting:
                    seat, task = free.pop(0), waiting.pop()
                    try:
                        future = _submit(seats[seat], function, task)
                    except BrokenProcessPool:  # it died after its last task
                        seats[seat] = self._seat(gpus[seat])
                        future = _submit(seats[seat], function, task)
                    running[future] = seat, task
                for future in wait(running, LOOK_SECONDS, FIRST_COMPLETED).done:
                    seat, task = running.pop(future)
                    try:
                        outcome: R | Exception = future.result()
                    except BrokenProcessPool:
                        outcome = ProcessDiedError("its process died (out of memory?)")
                        seats[seat].shutdown()
                        seats[seat] = self._seat(gpus[seat])
                    except Exception as error:
                        outcome = error
                    free.append(seat)
                    yield task, outcome
        finally:
            if running:  # cut short: those under way save and stop
                for child in set(multiprocessing.active_children()) - others:
                    child.terminate()
            for pool in seats:
                pool.shutdown(cancel_futures=True)

    def _seat(self, gpu: str | None) -> ProcessPoolExecutor:
        threads = max(1, cpus() // self.workers)
        context = multiprocessing.get_context("spawn")  # a forked process cannot use a GPU
        return ProcessPoolExecutor(1, context, initializer=_prepare, initargs=(threads, gpu, self.workers))


def visible_gpus() -> list[str]:
    """The GPUs this process may use, as CUDA_VISIBLE_DEVICES names them; asking does not start CUDA."""
    count = torch.cuda.device_count()
    given = os.environ.get(VISIBLE)
    names = [str(i) for i in range(count)] if given is None else [name.strip() for name in given.split(",")]
    return names[:count]


def assign_gpus(workers: int, gpus: Sequence[str]) -> list[str | None]:
    """One GPU for each worker, in turn, so that cards are shared evenly; None where there is none to give."""
    return [gpus[i % len(gpus)] if gpus else None for i in range(workers)]


def _prepare(threads: int, gpu: str | None, workers: int) -> None:
    """First thing in a new process: CUDA reads the variable when it is first used, never again."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # while idle; its parent ends it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.environ[NEIGHBOURS] = str(workers)
    if gpu is not None:
        os.environ[VISIBLE] = gpu
    torch.set_num_threads(threads)


def _submit(seat: ProcessPoolExecutor, function: Callable[[T], R], task: T) -> Future[R]:
    """The first task of a seat starts its process: with Ctrl-C blocked, which it inherits until it is prepared."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return seat.submit(_interruptible, function, task)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _interruptible(function: Callable[[T], R], task: T) -> R:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return function(task)
    finally:
        signal.signal(signal.SIGINT, before)


def _end_with_parent() -> None:
    """A worker whose parent is gone would train on, and then hold its GPU for ever: let it save and stop."""
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(SAVING)
        os._exit(1)

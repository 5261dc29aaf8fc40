"""When one process of a run dies, the others stop and say so. They would wait for it: gloo fails at once, NCCL hangs.

Where Fabric starts the processes, the first is their parent and the others its children: each side looks after the
other. torchrun and SLURM look after theirs themselves.
"""

import contextlib
import os
import shlex
import sys
import threading
import time
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from types import TracebackType

import torch

from unihssl.errors import RunInterruptedError, UserError
from unihssl.training.checkpoint import CHECKPOINT
from unihssl.training.setup import Fabric

PARENT = "UNIHSSL_PARENT"  # tells a child who started it
LOOK_EVERY = 0.5  # seconds
PATIENCE = 2.0  # for a process to notice a death by itself, or to be ended by the first, which then has spoken
STOPPING = 10.0  # for children to end after an interrupt that all were told of

_children: list[Popen[bytes]] = []  # of this process, over all its runs: Fabric starts them once


class Watch:
    """Starts the processes of a run; while entered, the death of one ends them all."""

    def __init__(self, fabric: Fabric, out: Path) -> None:
        self.fabric, self.out = fabric, out
        self._left = threading.Event()

    def __enter__(self) -> "Watch":
        if self.fabric.world_size > 1:
            child = self.fabric.local_rank > 0
            self._parent = int(os.environ.get(PARENT, 0)) if child else 0
            if not child:
                os.environ[PARENT] = str(os.getpid())
            threading.Thread(target=self._look, name="watch", daemon=True).start()
        try:
            self.fabric.launch()  # waits for all processes to be there
            self._adopt()
        except BaseException:
            self._left.set()
            self._adopt()
            _end(_children, 0.0)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        if value is None or self.fabric.world_size == 1:
            return
        stopping = isinstance(value, RunInterruptedError)
        if self.fabric.local_rank > 0 and isinstance(value, Exception) and not stopping:
            time.sleep(PATIENCE)
        _end(_children, STOPPING if stopping else 0.0)
        if lost_a_process(value):
            if self.fabric.local_rank > 1:
                raise SystemExit(1) from None
            raise UserError(self._message()) from None

    def _look(self) -> None:
        while not self._left.wait(LOOK_EVERY):
            if self._somebody_died() and not self._left.wait(PATIENCE):
                if self.fabric.local_rank <= 1:
                    print(f"error: {self._message()}", file=sys.stderr, flush=True)
                _end(_children, 0.0)
                os._exit(1)  # the main thread may wait for the dead

    def _message(self) -> str:
        saved = (self.out / CHECKPOINT).exists()
        how = "go on from the last checkpoint" if saved else "nothing had been saved, so start it again"
        again = f"unihssl train --resume --out {shlex.quote(str(self.out))}"
        return f"another process of this run died; {how} with: {again}"

    def _adopt(self) -> None:
        """Take Fabric's children over: its own observer would kill every process, this one too, without a word."""
        started = getattr(self.fabric.strategy.launcher, "procs", [])
        with contextlib.suppress(IndexError):  # empty
            while True:
                _children.append(started.pop())

    def _somebody_died(self) -> bool:
        self._adopt()
        if self._parent and os.getppid() != self._parent:
            return True
        return any(child.poll() not in (None, 0) for child in _children)


def lost_a_process(error: BaseException) -> bool:
    """Whether this is how a collective fails when a peer is gone."""
    by_type = isinstance(error, torch.distributed.DistError)
    return by_type or (isinstance(error, RuntimeError) and "gloo" in str(error).lower())


def _end(children: list[Popen[bytes]], patience: float) -> None:
    deadline = time.monotonic() + patience
    for child in children:
        with contextlib.suppress(TimeoutExpired):
            child.wait(max(deadline - time.monotonic(), 0))
            continue
        child.kill()
        child.wait()

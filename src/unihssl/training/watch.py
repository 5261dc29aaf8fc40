"""When one process of a run dies, the others stop and say so; else they might wait for it forever, as NCCL does.

Where Fabric starts the processes, the first is the parent of the others, and each side watches the other. torchrun and
SLURM watch their processes themselves.
"""

import contextlib
import os
import sys
import threading
import time
from subprocess import Popen, TimeoutExpired

import torch

from unihssl.errors import RunInterruptedError, Spell, UserError, python_spelling, resume_call, worded
from unihssl.run_folder import RunFolder
from unihssl.training.fabric import Fabric

PARENT = "UNIHSSL_PARENT"  # environment variable: the process that started this one
POLL_SECONDS = 0.5  # seconds
PATIENCE = 2.0  # seconds for a process to notice a death by itself, or to be ended by the first, which reports it
STOPPING = 10.0  # seconds for children to end after an interrupt that all of them got

_children: list[Popen[bytes]] = []  # of this process, over all its runs: Fabric starts them once


class Watch:
    """Starts the processes of a run; while entered, the death of one ends them all."""

    def __init__(self, fabric: Fabric, folder: RunFolder, spell: Spell = python_spelling) -> None:
        """`spell` is how the message to the user spells settings."""
        self.fabric, self.folder, self.spell = fabric, folder, spell
        self._left = threading.Event()

    def __enter__(self) -> "Watch":
        if self.fabric.world_size > 1:
            child = self.fabric.local_rank > 0
            self._parent = int(os.environ.get(PARENT, 0)) if child else 0
            if not child:
                os.environ[PARENT] = str(os.getpid())
            threading.Thread(target=self._watch, name="watch", daemon=True).start()
        try:
            self.fabric.launch()  # waits for all processes to be there
            self._adopt()
        except BaseException:
            self._left.set()
            self._adopt()
            _end(_children, 0.0)
            raise
        return self

    def __exit__(self, kind: object, value: BaseException | None, trace: object) -> None:
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

    def _watch(self) -> None:
        while not self._left.wait(POLL_SECONDS):
            if self._process_died() and not self._left.wait(PATIENCE):
                if self.fabric.local_rank <= 1:
                    message = worded(self._message(), self.spell)
                    print(f"error: {message}", file=sys.stderr, flush=True)
                _end(_children, 0.0)
                os._exit(1)  # the main thread may wait for the dead process

    def _message(self) -> str:
        saved = self.folder.checkpoint.exists()
        how = "resume from the last checkpoint" if saved else "nothing had been saved, so start it again"
        return f"another process of this run died; {how} with: {resume_call(self.folder.path)}"

    def _adopt(self) -> None:
        """Empty Fabric's list of children: its observer would kill all processes, this one too, without a message."""
        started = getattr(self.fabric.strategy.launcher, "procs", [])
        with contextlib.suppress(IndexError):  # empty
            while True:
                _children.append(started.pop())

    def _process_died(self) -> bool:
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

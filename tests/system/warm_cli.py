"""The command line as a process of its own, forked from one that has imported torch already: no five-second start."""

import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

FAST = {"backbone": "small_cnn", "epochs": 2, "pretrain_epochs": 1, "batch_size": 8, "tensorboard": False}
LIMIT = 300  # seconds to wait for what should come soon

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["unihssl.api", "unihssl.cli", "torch.utils.tensorboard"])


class Finished(NamedTuple):
    code: int
    stdout: str
    stderr: str

    @property
    def result(self) -> Any:
        """What --json printed; fails if stdout holds anything else."""
        assert self.code == 0, self.stderr
        return json.loads(self.stdout)

    @property
    def error(self) -> str:
        """The one line an error is; fails if there was none, or more than that."""
        assert self.code not in (0, None), self.stdout
        assert "Traceback" not in self.stderr, self.stderr
        lines = self.stderr.splitlines()
        assert [line for line in lines if line.startswith("error:")] == lines[-1:], self.stderr
        return lines[-1]


class Started:
    """A running `unihssl`."""

    def __init__(self, *args: object, folder: Path | None = None, main: Callable[[], None] | None = None) -> None:
        """`folder` is where it runs, the current one by default; `main` stands for the command line's."""
        self._folder = tempfile.TemporaryDirectory()
        self._outputs = [Path(self._folder.name, name) for name in ("stdout", "stderr")]
        self.process = _context.Process(
            target=_main, args=([str(a) for a in args], folder or Path.cwd(), self._outputs, main)
        )
        self.process.start()

    def wait_for(self, path: Path) -> None:
        """Until it has written this file."""
        end = time.monotonic() + LIMIT
        while not path.exists():
            assert self.process.is_alive(), self.finish().stderr
            assert time.monotonic() < end, f"no {path} after {LIMIT} seconds: {self.kill().stderr}"
            time.sleep(0.005)

    def kill(self) -> Finished:
        self.process.kill()
        return self.finish()

    def finish(self) -> Finished:
        self.process.join(LIMIT)
        late = self.process.exitcode is None
        if late:  # else this process could not end either: it would wait for its child
            self.process.kill()
            self.process.join()
        with self._folder:
            done = Finished(self.process.exitcode, *(p.read_text() if p.exists() else "" for p in self._outputs))
        assert not late, f"still running after {LIMIT} seconds: {done.stderr}"
        return done


def _main(args: list[str], folder: Path, outputs: list[Path], main: Callable[[], None] | None) -> None:
    for descriptor, path in enumerate(outputs, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    os.chdir(folder)
    sys.argv = ["unihssl", *args]
    from unihssl import cli

    (main or cli.main)()


def unihssl(*args: object, folder: Path | None = None) -> Finished:
    return Started(*args, folder=folder).finish()


def train_args(labeled: object, unlabeled: object, out: object, **knobs: object) -> list[object]:
    settings = [part for name, value in (FAST | knobs).items() for part in ("--set", f"{name}={value}")]
    return ["train", "--labeled", labeled, "--unlabeled", unlabeled, "--out", out, "--no-report", *settings]


def train(folders: tuple[Path, Path], out: Path, *more: object, **knobs: object) -> Finished:
    return unihssl(*train_args(*folders, out, **knobs), *more)


def error(folders: tuple[Path, Path], out: Path, *more: object, **knobs: object) -> str:
    """What training says when it cannot be."""
    return train(folders, out, *more, **knobs).error

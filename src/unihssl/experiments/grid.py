"""A grid of runs: each in a folder named by its configuration, none run twice, one failure no reason to stop."""

import hashlib
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from unihssl import __version__
from unihssl.api import resolve, train
from unihssl.errors import RunInterruptedError
from unihssl.files import read_json
from unihssl.training.display import Display
from unihssl.training.run_directory import RESULT


@dataclass(frozen=True)
class Run:
    """One cell of a table: a pair of domains, and the knobs to train with."""

    pair: str
    knobs: dict[str, Any]
    result: dict[str, Any] = field(default_factory=dict)
    failure: str = ""

    def folder(self, out: Path) -> Path:
        """Named by all that decides the result: every resolved setting and the version of this package."""
        settings, params = resolve(self.knobs)
        content = json.dumps([__version__, self.pair, asdict(settings), asdict(params)], sort_keys=True)
        return out / hashlib.sha256(content.encode()).hexdigest()[:16]


LoadPair = Callable[[str], tuple[Any, Any]]


def run_grid(runs: Sequence[Run], load_pair: LoadPair, out: Path, workers: int) -> Iterator[Run]:
    """Every run with its result, or what made it fail, as each is done. `load_pair` must be importable by name."""
    waiting = []
    for run in runs:
        if (run.folder(out) / RESULT).exists():
            yield replace(run, result=read_json(run.folder(out) / RESULT))
        else:
            waiting.append(run)
    threads = max(1, (os.cpu_count() or 1) // workers)
    context = multiprocessing.get_context("spawn")  # a forked process cannot use a GPU
    with ProcessPoolExecutor(workers, context, initializer=torch.set_num_threads, initargs=(threads,)) as pool:
        pending = {pool.submit(_train, run, load_pair, out): run for run in waiting}
        try:
            for done in as_completed(pending):
                try:
                    yield done.result()
                except BrokenProcessPool:
                    yield replace(pending[done], failure="its process died (out of memory?)")
        except (KeyboardInterrupt, RunInterruptedError):
            pool.shutdown(cancel_futures=True)  # those under way save and stop; those waiting never start
            raise RunInterruptedError("stopped; call again to go on with what is not finished") from None


def _train(run: Run, load_pair: LoadPair, out: Path) -> Run:
    labeled, unlabeled = load_pair(run.pair)
    try:
        with Display(quiet=True) as display:
            model = train(run.folder(out), labeled, unlabeled, run.knobs, resume=True, display=display)
    except RunInterruptedError:
        raise
    except Exception as error:  # whatever it is, the other runs must go on
        return replace(run, failure=f"{type(error).__name__}: {error}")
    return replace(run, result=model.result)

"""A grid of runs: each in a folder named by its configuration, none run twice, one failure no reason to stop."""

import hashlib
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from unihssl.api import train
from unihssl.errors import UserError
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
        content = json.dumps([self.pair, self.knobs], sort_keys=True)
        return out / hashlib.sha256(content.encode()).hexdigest()[:16]


LoadPair = Callable[[str], tuple[Any, Any]]


def run_grid(runs: Sequence[Run], load_pair: LoadPair, out: Path, workers: int) -> Iterator[Run]:
    """Every run with its result, or what made it fail, as each is done. `load_pair` must be importable by name."""
    waiting = []
    for run in runs:
        if (run.folder(out) / RESULT).exists():
            yield Run(run.pair, run.knobs, read_json(run.folder(out) / RESULT))
        else:
            waiting.append(run)
    threads = max(1, (os.cpu_count() or 1) // workers)
    context = multiprocessing.get_context("spawn")  # a forked process cannot use a GPU
    with ProcessPoolExecutor(workers, context, initializer=torch.set_num_threads, initargs=(threads,)) as pool:
        for done in as_completed(pool.submit(_train, run, load_pair, out) for run in waiting):
            yield done.result()


def _train(run: Run, load_pair: LoadPair, out: Path) -> Run:
    labeled, unlabeled = load_pair(run.pair)
    try:
        with Display(quiet=True) as display:
            model = train(run.folder(out), labeled, unlabeled, run.knobs, resume=True, display=display)
    except (UserError, RuntimeError, ValueError) as error:
        return Run(run.pair, run.knobs, failure=f"{type(error).__name__}: {error}")
    return Run(run.pair, run.knobs, model.result)

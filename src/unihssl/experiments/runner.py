"""A grid of runs: each in a folder named by its configuration, none run twice, one failure no reason to stop."""

import hashlib
import json
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from unihssl import __version__
from unihssl.api import resolve, train
from unihssl.config import deciding_knobs
from unihssl.errors import RunInterruptedError, UserError
from unihssl.experiments.launchers import Launcher
from unihssl.files import read_json, write_json
from unihssl.interrupt import termination_interrupts
from unihssl.training.display import Display
from unihssl.training.run_directory import CONFIG, FREE_TO_CHANGE, RESULT, read_config

NOTE = "run.json"


@dataclass(frozen=True)
class Role:
    """What a run is good for: an experiment (`ablation`), and the row of its table (`w/o WMA`)."""

    experiment: str
    variant: str


@dataclass(frozen=True)
class Run:
    """One cell of a table, or of several: a pair of domains, and the knobs to train with."""

    pair: str
    knobs: dict[str, Any]
    result: dict[str, Any] = field(default_factory=dict)
    failure: str = ""
    dataset: str = ""
    roles: tuple[Role, ...] = ()
    samples: str = ""  # digest of both domains' names and labels

    def folder(self, out: Path) -> Path:
        """Named by all that decides the result: the settings that matter to training, and this package's version."""
        knobs = deciding_knobs(*resolve(self.knobs))
        content = json.dumps([__version__, self.dataset, self.pair, knobs], sort_keys=True)
        return out / hashlib.sha256(content.encode()).hexdigest()[:16]

    def note(self, out: Path) -> None:
        """Say in the run's folder what it was trained for, so that tables can be made from folders alone."""
        path = self.folder(out) / NOTE
        before = read_json(path) if path.exists() else {"roles": []}
        roles = before["roles"] + [role for role in map(asdict, self.roles) if role not in before["roles"]]
        samples = before.get("samples") or self.samples
        if roles != before["roles"]:
            write_json(path, {"dataset": self.dataset, "pair": self.pair, "samples": samples, "roles": roles})

    def check_finished(self, out: Path) -> None:
        """Refuse a finished run of other samples or settings than these; what is not known of it is believed."""
        path, config = self.folder(out) / NOTE, self.folder(out) / CONFIG
        settings, params = resolve(self.knobs)
        now = {k: v for k, v in (asdict(settings) | asdict(params)).items() if k not in FREE_TO_CHANGE}
        then = read_config(self.folder(out)) if config.exists() else {}
        other = [f"{k}={then[k]}, now {v}" for k, v in now.items() if k in then and then[k] != v]
        if other:  # a default that changed has left the folder's name as it was
            raise UserError(
                f"{self.folder(out)}: this run is finished, but with {other[0]}; "
                "give another --out, or move the folder away"
            )
        before = read_json(path).get("samples") if path.exists() else None
        if before and self.samples and before != self.samples:
            raise UserError(
                f"{self.folder(out)}: this run of {self.dataset} {self.pair} is finished, but on other samples "
                "than are here now; give another --out, or move the folder away"
            )


def distinct(runs: Sequence[Run]) -> list[Run]:
    """Runs of one configuration are one run with all their roles."""
    merged: dict[Path, Run] = {}
    for run in runs:
        folder = run.folder(Path())
        roles = merged[folder].roles if folder in merged else ()
        merged[folder] = replace(run, roles=tuple(dict.fromkeys((*roles, *run.roles))))
    return list(merged.values())


LoadPair = Callable[[str], tuple[Any, Any]]


def run_grid(runs: Sequence[Run], load_pair: LoadPair, out: Path, launcher: Launcher) -> Generator[Run, None, None]:
    """Every run with its result, or what made it fail, as each is done. `load_pair` must be importable by name."""
    out = out.resolve()  # a worker may live in another folder
    waiting = []
    samples = {pair: digest(load_pair, pair) for pair in dict.fromkeys(run.pair for run in runs)}
    for run in (replace(run, samples=samples[run.pair]) for run in distinct(runs)):
        settings = resolve(run.knobs)[0]
        if settings.devices * settings.nodes > 1:
            raise UserError("a run of a grid is one process: devices and nodes must be 1; the runs share what there is")
        if finished(run, out):
            run.check_finished(out)
            run.note(out)
            yield replace(run, result=read_json(run.folder(out) / RESULT))
        else:
            waiting.append(run)
    try:
        with (
            termination_interrupts(),
            closing(launcher.launch(partial(_train, load_pair=load_pair, out=out), waiting)) as outcomes,
        ):
            for run, outcome in outcomes:
                if isinstance(outcome, RunInterruptedError):
                    raise outcome
                if isinstance(outcome, Run) and outcome.result:
                    outcome.note(out)
                yield outcome if isinstance(outcome, Run) else replace(run, failure=str(outcome))
    except (KeyboardInterrupt, RunInterruptedError):
        raise RunInterruptedError("stopped; call again to go on with what is not finished") from None


def digest(load_pair: LoadPair, pair: str) -> str:
    """Of the names and labels of a pair's samples; empty where they cannot be had (now)."""
    try:
        domains = load_pair(pair)
    except UserError:
        return ""
    content = [[list(domain.names), [str(label) for label in domain.labels]] for domain in domains]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def finished(run: Run, out: Path) -> bool:
    return (run.folder(out) / RESULT).exists()


def _train(run: Run, load_pair: LoadPair, out: Path) -> Run:
    try:
        labeled, unlabeled = load_pair(run.pair)
        with Display(quiet=True) as display:
            model = train(run.folder(out), labeled, unlabeled, run.knobs, resume=True, display=display)
    except RunInterruptedError:
        raise
    except UserError as error:
        return replace(run, failure=str(error))
    except Exception as error:  # as text: not every exception can be sent to another process
        return replace(run, failure=f"{type(error).__name__}: {error}")
    return replace(run, result=model.result)

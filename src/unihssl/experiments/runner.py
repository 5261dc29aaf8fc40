"""A grid of runs. Each has a folder named by its configuration; none is trained twice; a failure stops no other."""

import hashlib
import json
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from unihssl import __version__
from unihssl.config import changes_result, deciding_knobs
from unihssl.errors import RunInterruptedError, Setting, Spell, UserError, python_spelling
from unihssl.experiments.launchers import Launcher
from unihssl.experiments.results import Role, saved_settings
from unihssl.interrupt import termination_interrupts
from unihssl.methods.recipe import all_knobs, resolve
from unihssl.run_folder import RunFolder

LoadPair = Callable[[str], tuple[Any, Any]]  # a pair's name -> its labeled and its unlabeled domain


@dataclass(frozen=True)
class Run:
    """A pair of domains and the knobs to train with: one cell of a table, or of several.

    >>> Run("A/W", {"method": "mcc", "seed": 0}, dataset="office-31", roles=(Role("benchmark", "mcc"),))
    """

    pair: str
    knobs: dict[str, Any]
    result: dict[str, Any] = field(default_factory=dict)  # empty until the run is finished
    failure: str = ""
    dataset: str = ""
    roles: tuple[Role, ...] = ()
    samples: str = ""  # digest of both domains' names and labels

    def folder(self, out: Path) -> Path:
        """Its folder under `out`, named by what decides the result: data, settings and this package's version."""
        knobs = deciding_knobs(*resolve(self.knobs))
        content = json.dumps([__version__, self.dataset, self.pair, knobs], sort_keys=True)
        return out / hashlib.sha256(content.encode()).hexdigest()[:16]

    def note_purpose(self, out: Path) -> None:
        """Add the run's roles to those noted in its folder, from which tables are made."""
        folder = RunFolder(self.folder(out))
        noted = folder.read_purpose() or {"roles": []}
        roles = noted["roles"] + [role for role in map(asdict, self.roles) if role not in noted["roles"]]
        samples = noted.get("samples") or self.samples
        if roles != noted["roles"]:
            purpose = {"dataset": self.dataset, "pair": self.pair, "samples": samples, "roles": roles}
            folder.write_purpose(purpose)

    def check_finished(self, out: Path) -> None:
        """Refuse a finished run of other settings or samples; what it did not save is taken to agree."""
        folder = RunFolder(self.folder(out))
        way_out = f"choose another {Setting('out')}, or move the folder away"
        saved = saved_settings(folder) if folder.is_run else {}
        for knob, value in all_knobs(*resolve(self.knobs)).items():
            if changes_result(knob) and saved.get(knob, value) != value:  # a changed default keeps the folder's name
                changed = f"{Setting(knob, saved[knob])}, now {value}"
                raise UserError(f"{folder.path}: this run is finished, but with {changed}; {way_out}")
        samples = folder.read_purpose().get("samples")
        if samples and self.samples and samples != self.samples:
            of = f"{self.dataset} {self.pair}"
            raise UserError(f"{folder.path}: this run of {of} is finished, but on other samples; {way_out}")


def distinct(runs: Sequence[Run]) -> list[Run]:
    """Runs of one configuration merged into one run with all their roles."""
    merged: dict[Path, Run] = {}
    for run in runs:
        folder = run.folder(Path())
        roles = merged[folder].roles if folder in merged else ()
        merged[folder] = replace(run, roles=tuple(dict.fromkeys((*roles, *run.roles))))
    return list(merged.values())


def finished(run: Run, out: Path) -> bool:
    return RunFolder(run.folder(out)).is_finished


def run_grid(
    runs: Sequence[Run], load_pair: LoadPair, out: Path, launcher: Launcher, spell: Spell = python_spelling
) -> Generator[Run, None, None]:
    """Train what is not finished under `out` and yield each run once, with its `result` or its `failure`.

    Finished runs come first, the others as they end. `load_pair` must be importable by name, because other processes
    call it. `spell` is how failures spell settings.

    >>> protocol = Protocol(catalog.get("digits"))
    >>> runs = benchmark_runs(protocol, ["mnist/uci"], ["supervised", "mcc"], seeds=3)
    >>> for run in run_grid(runs, protocol.loader, Path("runs/digits"), make_launcher("local", workers=2)):
    ...     print(run.roles[0].variant, run.failure or run.result["pooled"]["accuracy"])
    """
    out = out.resolve()  # a worker may have another working directory
    samples = {pair: digest(load_pair, pair) for pair in dict.fromkeys(run.pair for run in runs)}
    waiting = []
    for run in (replace(run, samples=samples[run.pair]) for run in distinct(runs)):
        settings = resolve(run.knobs)[0]
        if settings.devices * settings.nodes > 1:
            single = f"{Setting('devices', 1)} and {Setting('nodes', 1)}"
            raise UserError(f"a run of a grid is one process: use {single}; the runs share what there is")
        if finished(run, out):
            run.check_finished(out)
            run.note_purpose(out)
            yield replace(run, result=RunFolder(run.folder(out)).read_result())
        else:
            waiting.append(run)
    try:
        with (
            termination_interrupts(),
            closing(launcher.launch(partial(_train, load_pair=load_pair, out=out, spell=spell), waiting)) as outcomes,
        ):
            for run, outcome in outcomes:
                if isinstance(outcome, RunInterruptedError):
                    raise outcome
                if isinstance(outcome, Exception):
                    failure = outcome.worded(spell) if isinstance(outcome, UserError) else str(outcome)
                    yield replace(run, failure=failure)
                else:
                    run.note_purpose(out)
                    yield replace(run, result=outcome)
    except (KeyboardInterrupt, RunInterruptedError):
        raise RunInterruptedError("stopped; rerun to continue with the unfinished runs") from None


def digest(load_pair: LoadPair, pair: str) -> str:
    """A digest of the names and labels of a pair's samples; empty where they are not available."""
    try:
        domains = load_pair(pair)
    except UserError:
        return ""
    content = [[list(domain.names), [str(label) for label in domain.labels]] for domain in domains]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _train(
    run: Run, concurrent_runs: int, load_pair: LoadPair, out: Path, spell: Spell = python_spelling
) -> dict[str, Any]:
    """Train in a worker and return the result."""
    from unihssl.pipeline.train import train  # slow to import, and tables do not train
    from unihssl.training.display import Display

    try:
        labeled, unlabeled = load_pair(run.pair)
        with Display(spell=spell) as display:
            options: dict[str, Any] = {"resume": True, "display": display, "concurrent_runs": concurrent_runs}
            return train(run.folder(out), labeled, unlabeled, run.knobs, **options).result
    except (RunInterruptedError, UserError):
        raise
    except Exception as error:  # as text: not every exception can be sent to another process
        raise RuntimeError(f"{type(error).__name__}: {error}") from None

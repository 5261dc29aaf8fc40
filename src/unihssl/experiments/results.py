"""Finished runs read back from their folders: config.yaml, result.json, metrics.jsonl; run.json, environment.json."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from unihssl import methods
from unihssl.config import Settings, knob_fields
from unihssl.data.catalog import DATASETS, PREFIX
from unihssl.errors import UserError
from unihssl.experiments.paper import UNIHSSL
from unihssl.experiments.runner import NOTE
from unihssl.files import read_json
from unihssl.methods.presets import DEFAULT, GENERAL
from unihssl.training.log import read_metrics
from unihssl.training.run_directory import CONFIG, FREE_TO_CHANGE, RESULT, read_config

PARTS = ("pooled", "labeled", "unlabeled")
LAST = {"mask_rate": "mask_rate", "pseudo_accuracy": "oracle_pseudo_accuracy"}  # ours -> the log's
WHOLE = ("domain_accuracy", "oracle_routing_accuracy")
TRAINING = "unlabeled_training_accuracy"
BENCHMARK, ABLATION, SENSITIVITY = "benchmark", "ablation", "sensitivity"
OF_ROBUST = "ablation-of-robust"
EXPERIMENTS = BENCHMARK, ABLATION, OF_ROBUST, SENSITIVITY
ENVIRONMENT = "environment.json"
_NO_SETTING = FREE_TO_CHANGE | {"seed"}


@dataclass(frozen=True)
class Record:
    """One finished run in one of its roles. `variant` is the row of its table."""

    dataset: str
    pair: str
    experiment: str
    variant: str
    seed: int
    result: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)  # of the log, at the end of training
    label: str = ""  # the variant, told apart from another of the same name
    folder: Path = Path()
    environment: dict[str, Any] = field(default_factory=dict)  # empty: not noted

    @property
    def method(self) -> str:
        return str(self.settings.get("method", Settings.method))

    @property
    def recipe(self) -> str:
        """The method, and its preset unless that is its default."""
        preset = str(self.settings.get("preset", ""))
        return self.method if preset in ("", GENERAL, DEFAULT.get(self.method)) else f"{self.method}:{preset}"

    @property
    def knob(self) -> str:
        """What a run of a sensitivity study varies: its variant is `knob=value`."""
        return self.variant.partition("=")[0]

    def setting(self, knob: str) -> Any:
        """As the run has it; a run older than the knob had what is now its default. None where nothing is known."""
        return self.settings.get(knob, _defaults(self.method).get(knob))

    def value(self, metric: str, part: str = "pooled") -> float | None:
        """In percent; a class is asked for as `class_accuracy/bus`. None where it was not measured."""
        if metric in LAST:
            found = self.last.get(metric)
        elif metric in WHOLE:
            found = self.result.get(metric)
        elif metric == TRAINING:
            found = self.result.get("unlabeled_training", {}).get("accuracy")
        else:
            name, _, of_class = metric.partition("/")
            found = self.result.get(part, {}).get(name)
            found = found.get(of_class) if isinstance(found, dict) else found
        return None if found is None else 100 * float(found)


def read_records(folders: Iterable[Path], preferred: Set[Path] = frozenset()) -> list[Record]:
    """Every role of every finished run in these folders, or in folders of them; those under way are passed over.

    A copy of a run counts once. Otherwise a run must not be there twice, such as from two versions of this package,
    unless one of the two is `preferred`.
    """
    there = (path.parent for folder in folders for path in folder.rglob(RESULT) if (path.parent / CONFIG).is_file())
    found = {folder.resolve(): folder for folder in there}
    twins: dict[tuple[object, ...], list[Record]] = {}
    for r in told_apart(sorted((record for folder in found.values() for record in _read(folder)), key=_order)):
        twins.setdefault((r.dataset, r.pair, r.experiment, r.label, r.seed), []).append(r)
    records = []
    for same in twins.values():
        chosen = _without_copies([r for r in same if r.folder in preferred] or same)
        if len(chosen) > 1:
            raise UserError(f"{chosen[0].folder} and {chosen[1].folder}: the same run twice; move one of them away")
        records += chosen
    return records


def _without_copies(records: Sequence[Record]) -> list[Record]:
    """A copy of a run has its folder's name and its result."""
    kept: list[Record] = []
    for r in records:
        if not any(r.folder.name == other.folder.name and r.result == other.result for other in kept):
            kept.append(r)
    return kept


def _order(record: Record) -> tuple[Any, ...]:
    """By what a record is, never by what its folder is called: experiments as the paper has them, pairs too."""
    known = DATASETS.get(record.dataset)
    pairs = list(known.all_pairs) if known else []
    rank = EXPERIMENTS.index(record.experiment) if record.experiment in EXPERIMENTS else len(EXPERIMENTS)
    pair = pairs.index(record.pair) if record.pair in pairs else len(pairs)
    return (record.dataset, rank, record.experiment, pair, record.pair, record.variant, record.seed, record.folder)


def read_all(folders: Sequence[Path]) -> list[Record]:
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"{folder}: no such folder")
    records = read_records(folders)
    if not records:
        named = ", ".join(map(str, folders))
        raise UserError(f"{named}: no finished run in it (a folder with {CONFIG} and {RESULT})")
    return records


def _read(folder: Path) -> list[Record]:
    settings, result = read_config(folder), read_json(folder / RESULT)
    rows = read_metrics(folder)
    last = {ours: row[theirs] for row in rows for ours, theirs in LAST.items() if theirs in row}
    method, seed = str(settings.get("method", "?")), int(settings.get("seed", 0))
    dataset, pair, roles = read_purpose(folder, settings)
    roles = roles or [(BENCHMARK, method)]
    environment = read_json(folder / ENVIRONMENT) if (folder / ENVIRONMENT).exists() else {}
    return [
        Record(dataset, pair, *role, seed, result, settings, last, folder=folder, environment=environment)
        for role in roles
    ]


def read_purpose(folder: Path, settings: dict[str, Any]) -> tuple[str, str, list[tuple[str, str]]]:
    """Data set, pair, and each experiment with the row the run is of it: as noted, else by its sources alone."""
    if not (folder / NOTE).exists():
        return (*_by_sources(settings), [])
    note = read_json(folder / NOTE)
    try:
        roles = [(str(role["experiment"]), str(role["variant"])) for role in note["roles"]]
        return str(note["dataset"]), str(note["pair"]), roles
    except (KeyError, TypeError):
        raise UserError(f"{folder / NOTE}: expected dataset, pair and roles") from None


def _by_sources(settings: dict[str, Any]) -> tuple[str, str]:
    """Data set and pair of a run that no grid has noted: its sources' names."""
    sources = [str(settings.get(role, "")) for role in ("labeled", "unlabeled")]
    if all(source.startswith(PREFIX) for source in sources):
        names = [source.removeprefix(PREFIX).partition("@")[0].partition("/") for source in sources]
        return names[0][0], "/".join(name[2] for name in names)
    return "", "/".join(Path(source).name or "?" for source in sources)


def told_apart(records: Sequence[Record]) -> list[Record]:
    """Runs of one row that were set differently, but for the seed, become rows that say what differs."""
    rows: dict[tuple[str, str, str, str], list[Record]] = {}
    for record in records:
        by_preset = record.experiment == BENCHMARK and record.variant == record.method  # as `method:preset` would be
        name = record.recipe if by_preset else record.variant
        rows.setdefault((record.dataset, record.experiment, name, record.recipe), []).append(record)
    labels = {}
    for (_, _, name, _), members in rows.items():
        knobs = sorted({knob for member in members for knob in member.settings} - _NO_SETTING)
        differing = [knob for knob in knobs if len({str(m.setting(knob)) for m in members} - {"None"}) > 1]
        for member in members:
            other = member.experiment == SENSITIVITY and member.recipe != UNIHSSL
            said = [member.recipe] if other else []  # its variant names a knob alone
            said += [f"{knob}={member.setting(knob)}" for knob in differing if member.setting(knob) is not None]
            labels[id(member)] = f"{name} [{', '.join(said)}]" if said else name
    return [replace(record, label=labels[id(record)]) for record in records]


@cache
def _defaults(method: str) -> dict[str, Any]:
    """Of every knob a run of this method has; of the general ones for a method that is not installed."""
    known = methods.available().get(method)
    return {name: spec.default for name, (spec, _) in knob_fields(Settings, *([known.Params] if known else [])).items()}

"""Finished runs read back from their folders, as the records that tables and figures are made of.

A record holds what its run saved. Nothing is filled in from the presets or defaults of the version that reads it.
"""

import json
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from unihssl import methods
from unihssl.config import Settings, changes_result, former_names, knob_fields, parse_saved
from unihssl.data.catalog import DATASETS
from unihssl.data.source import PREFIX, SEPARATOR, short_name
from unihssl.errors import UserError
from unihssl.experiments.paper import METHOD, UNIHSSL
from unihssl.plain_files import is_folder
from unihssl.run_folder import RunFolder

PARTS = ("pooled", "labeled", "unlabeled")
SOURCE = "source "
LOGGED = {"mask_rate": "mask_rate", "pseudo_accuracy": "oracle_pseudo_accuracy"}  # metric -> name in the log
WHOLE = ("domain_accuracy", "oracle_routing_accuracy")  # metrics of both test parts together
TRAINING = "unlabeled_training_accuracy"
BENCHMARK, ABLATION, SENSITIVITY = "benchmark", "ablation", "sensitivity"
OF_ROBUST = "ablation-of-robust"
EXPERIMENTS = BENCHMARK, ABLATION, OF_ROBUST, SENSITIVITY

# Runs of 0.1.0 did not save their row. These were the default presets of its methods.
OLD_DEFAULT_PRESET, OLD_DEFAULT_PRESETS = "finetune", {METHOD: "robust"}


@dataclass(frozen=True)
class Role:
    """A run's place in an experiment: `Role("ablation", "w/o WMA")` is a row of the ablation's table."""

    experiment: str
    variant: str


class Purpose(NamedTuple):
    """What a run was trained for. A run by itself has no roles."""

    dataset: str
    pair: str
    roles: list[Role]


@dataclass(frozen=True)
class Record:
    """One finished run in one of its roles.

    `variant` is the row as the experiment names it. `label` also tells it from rows of other settings.
    """

    dataset: str
    pair: str
    experiment: str
    variant: str
    seed: int
    result: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)  # the metrics of LOGGED at the end of training
    label: str = ""
    folder: Path = Path()
    environment: dict[str, Any] = field(default_factory=dict)  # empty if the run did not save it
    copies: tuple[Path, ...] = ()  # folders of equal runs under other names, which are left out
    steps: int = 0  # of all stages; 0 without a log

    @property
    def method(self) -> str:
        return str(self.settings.get("method", "?"))

    @property
    def row(self) -> str:
        return row_name(self.settings, self.environment)

    @property
    def knob(self) -> str:
        """The knob that a sensitivity study varies: its variants are `knob=value`."""
        return self.variant.partition("=")[0]

    def value(self, metric: str, part: str = "pooled") -> float | None:
        """A metric in percent, such as `accuracy` or `class_accuracy/bus`; None where it was not measured.

        A part is pooled, labeled, unlabeled or, where the unlabeled domain has several sources, `source NAME`.
        """
        if metric in LOGGED:
            found = self.last.get(metric)
        elif metric in WHOLE:
            found = self.result.get(metric)
        elif metric == TRAINING:
            found = self.result.get("unlabeled_training", {}).get("accuracy")
        else:
            name, _, of_class = metric.partition("/")
            of_source = part.startswith(SOURCE)
            parts = self.result.get("sources", {}) if of_source else self.result
            found = parts.get(part.removeprefix(SOURCE), {}).get(name)
            found = found.get(of_class) if isinstance(found, dict) else found
        return None if found is None else 100 * float(found)


def read_records(folders: Iterable[Path], preferred: Set[Path] = frozenset()) -> list[Record]:
    """One record for each role of each finished run in or below these folders, in the order of the tables.

    >>> read_records([Path("runs/pacs")])[0].value("accuracy")
    87.3

    Equal runs count once. Runs of one row, pair and seed with different results are refused unless one is `preferred`.
    """
    runs = {run.path.resolve(): run for folder in folders for run in find_runs(folder)}
    records = sorted((record for run in runs.values() for record in _read(run)), key=_order)
    cells: dict[tuple[object, ...], list[Record]] = {}
    for r in label_records(records):
        cells.setdefault((r.dataset, r.pair, r.experiment, r.label, r.seed), []).append(r)
    chosen = []
    for candidates in cells.values():
        distinct = _without_copies([r for r in candidates if r.folder in preferred] or candidates)
        if len(distinct) > 1:
            raise UserError(
                f"{distinct[0].folder} and {distinct[1].folder}: one run with two results; move one of them away"
            )
        chosen += distinct
    return chosen


def read_all(folders: Sequence[Path]) -> list[Record]:
    """Records of the folders a user named: a missing folder, or no finished run at all, is an error."""
    for folder in folders:
        if not is_folder(folder):
            raise UserError(f"{folder}: no such folder")
    records = read_records(folders)
    if not records:
        files = RunFolder(Path())
        named = ", ".join(map(str, folders))
        raise UserError(f"{named}: no finished run in it (a folder with {files.config} and {files.result})")
    return records


def find_runs(folder: Path) -> list[RunFolder]:
    """The finished runs in a folder or anywhere below it, by path."""
    found = (RunFolder(path.parent) for path in sorted(folder.rglob(RunFolder(folder).result.name)))
    return [run for run in found if run.is_run]


def saved_settings(run: RunFolder) -> dict[str, Any]:
    """Every setting that the run saved, by the name that it has today."""
    saved = run.read_config()
    parse_saved({"seed": saved.get("seed", 0)}, (Settings,), str(run.config))  # the one that is counted with
    return {_former_names().get(name, name): value for name, value in saved.items()}


def row_name(settings: dict[str, Any], environment: dict[str, Any]) -> str:
    """The method, or `method:preset` unless that preset was the default when the run was made."""
    if "row" in environment:
        return str(environment["row"])
    method, preset = str(settings.get("method", "?")), str(settings.get("preset", ""))
    default = OLD_DEFAULT_PRESETS.get(method, OLD_DEFAULT_PRESET)
    return method if preset in ("", default) else f"{method}:{preset}"


def read_purpose(run: RunFolder, settings: dict[str, Any]) -> Purpose:
    """What a grid noted in the run's folder; for other runs data set and pair follow from the sources' names."""
    note = run.read_purpose()
    if not note:
        return _by_sources(settings)
    try:
        roles = [Role(str(role["experiment"]), str(role["variant"])) for role in note["roles"]]
        return Purpose(str(note["dataset"]), str(note["pair"]), roles)
    except (KeyError, TypeError):
        raise UserError(f"{run.purpose}: expected dataset, pair and roles") from None


def label_records(records: Sequence[Record]) -> list[Record]:
    """The records with their labels: runs of one row with different settings become rows that name the difference.

    A knob that a run did not save, because its version did not have it, has its default there: what it was without.
    """
    rows: dict[tuple[str, str, str, str], list[Record]] = {}
    for record in records:
        named_by_method = record.experiment == BENCHMARK and record.variant == record.method
        name = record.row if named_by_method else record.variant
        rows.setdefault((record.dataset, record.experiment, name, record.row), []).append(record)
    labels = {}
    for (_, _, name, _), members in rows.items():
        knobs = sorted({k for member in members for k in member.settings if changes_result(k) and k != "seed"})
        values = {id(m): _defaults(m.method) | m.settings for m in members}
        differing = [knob for knob in knobs if len({str(values[id(m)].get(knob)) for m in members}) > 1]
        for member in members:
            # The variant of a sensitivity study names no method: the paper's goes without saying.
            details = [member.row] if member.experiment == SENSITIVITY and member.row != UNIHSSL else []
            details += [
                f"{knob}={shown if (shown := values[id(member)].get(knob)) != '' else 'none'}" for knob in differing
            ]
            labels[id(member)] = f"{name} [{', '.join(details)}]" if details else name
    return [replace(record, label=labels[id(record)]) for record in records]


@cache
def _defaults(method: str) -> dict[str, Any]:
    """The defaults of all knobs; of the general ones alone if the method is not installed."""
    kinds = (Settings, methods.available()[method].Params) if method in methods.available() else (Settings,)
    return {name: field.default for name, (field, _) in knob_fields(*kinds).items()}


@cache
def _former_names() -> dict[str, str]:
    """Former name of a knob -> its name today."""
    return former_names(Settings, *(method.Params for method in methods.available().values()))


def _without_copies(records: Sequence[Record]) -> list[Record]:
    """The first of those with the same result."""
    equal: dict[str, list[Record]] = {}
    for record in records:
        equal.setdefault(json.dumps(record.result, sort_keys=True), []).append(record)
    return [
        replace(first, copies=tuple(r.folder for r in others if r.folder.name != first.folder.name))
        for first, *others in equal.values()
    ]


def _order(record: Record) -> tuple[Any, ...]:
    """Experiments and pairs as in the paper. What a folder is called decides nothing but ties."""
    known = DATASETS.get(record.dataset)
    pairs = list(known.all_pairs) if known else []
    rank = EXPERIMENTS.index(record.experiment) if record.experiment in EXPERIMENTS else len(EXPERIMENTS)
    pair = pairs.index(record.pair) if record.pair in pairs else len(pairs)
    return (record.dataset, rank, record.experiment, pair, record.pair, record.variant, record.seed, record.folder)


def _read(run: RunFolder) -> list[Record]:
    settings, result, environment = saved_settings(run), run.read_result(), run.read_environment()
    rows = run.read_metrics()
    stats, steps = [row["stats"] for row in rows], rows[-1]["global_step"] if rows else 0
    last = {metric: logged[name] for logged in stats for metric, name in LOGGED.items() if name in logged}
    dataset, pair, roles = read_purpose(run, settings)
    seed, method = int(settings.get("seed", 0)), str(settings.get("method", "?"))
    record = Record(
        dataset, pair, BENCHMARK, method, seed, result, settings, last, "", run.path, environment, steps=steps
    )
    return [replace(record, experiment=role.experiment, variant=role.variant) for role in roles] or [record]


def _by_sources(settings: dict[str, Any]) -> Purpose:
    sources = [str(settings.get(role, "")) for role in ("labeled", "unlabeled")]
    if all(source.startswith(PREFIX) for source in sources):
        names = [source.removeprefix(PREFIX).partition("@")[0].partition("/") for source in sources]
        return Purpose(names[0][0], "/".join(name[2] for name in names), [])
    domains = ("+".join(short_name(part) for part in source.split(SEPARATOR)) for source in sources)
    return Purpose("", "/".join(domain or "?" for domain in domains), [])

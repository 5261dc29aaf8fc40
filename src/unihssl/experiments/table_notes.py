"""What is said below a table: what to beware of, and with what its runs were made."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from textwrap import shorten
from typing import Any

from unihssl.api import resolve
from unihssl.data.catalog import DATASETS
from unihssl.errors import UserError
from unihssl.experiments.designs import ABLATIONS
from unihssl.experiments.protocol import KNOBS
from unihssl.experiments.results import ABLATION, OF_ROBUST, Record
from unihssl.methods.presets import DEFAULT, GENERAL, PRESETS
from unihssl.training.run_directory import FREE_TO_CHANGE

PROGRAMS = ("unihssl", "__main__.py")  # what a command line of ours begins with
MOST = 3  # notes, commands or pairs in full; the others are counted
NOTE_LENGTH = 200
LENGTHS = {"epochs", "steps", "max_steps"}
SAID = FREE_TO_CHANGE | LENGTHS | {"method", "dataset", "backbone", "weights", "seed"}  # elsewhere


def cautions(records: Sequence[Record]) -> list[str]:
    """What makes the numbers doubtful: how the data was split, what it lacked, runs that went wrong."""
    notes = dict.fromkeys(str(note) for r in records for note in r.result.get("notes", ()))
    said = _some([f"note: {shorten(note, NOTE_LENGTH, placeholder=' ...')}" for note in notes], "notes")
    return [*_leaks(records), *said, *_warnings(records), *_missing(records)]


def provenance(records: Sequence[Record]) -> list[str]:
    """With what the runs were made, and the commands that made them."""
    backbones = (f"{r.setting('backbone')} (weights: {Path(str(r.setting('weights'))).name})" for r in records)
    parts = [" and ".join(dict.fromkeys(backbones)), _length(records), _seeds({r.seed for r in records})]
    parts += _changes(records)
    if any(r.environment for r in records):
        parts += [
            _noted("on", "machines", map(_device, records)),
            _noted("torch", "versions of torch", (r.environment.get("packages", {}).get("torch") for r in records)),
            _noted("commit", "commits", (r.environment.get("commit") for r in records)),
        ]
    else:
        parts.append("machine and commit not noted")
    commands = dict.fromkeys(_command(r) for r in records if _is_ours(r.environment.get("command")))
    return [f"made with {'; '.join(parts)}", *_some([f"command: {command}" for command in commands], "commands")]


def _leaks(records: Sequence[Record]) -> list[str]:
    dataset = DATASETS.get(records[0].dataset)
    if dataset is None or not dataset.caution:
        return []
    groups = {str(r.settings.get("group_by", "")) for r in records}
    said = [dataset.caution] if not dataset.cure or groups - {dataset.cure} else []
    return said + [f"split by {name}, where the paper splits by image" for name in sorted(groups - {""})]


def _warnings(records: Sequence[Record]) -> list[str]:
    looked = [r for r in records if "warnings" in r.result]  # runs of older versions did not look
    failed = [r for r in looked if r.result["warnings"]]
    if not failed:
        return []
    pairs: dict[str, dict[str, None]] = {}
    for r in failed:
        pairs.setdefault(r.label, {})[r.pair] = None
    said = f"{len(failed)} of {len(looked)} runs warn: the unlabeled domain or a class of it was probably not learnt"
    if len(failed) == len(looked):
        return [said]
    if len({r.pair for r in records}) == 1:
        return [f"{said} ({', '.join(pairs)})"]
    where = (f"{label} on {', '.join(on) if len(on) <= MOST else f'{len(on)} pairs'}" for label, on in pairs.items())
    return [f"{said} ({'; '.join(where)})"]


def _missing(records: Sequence[Record]) -> list[str]:
    """Rows that lack a pair or a seed which is there elsewhere in the table."""
    pairs, seeds = dict.fromkeys(r.pair for r in records), {r.seed for r in records}
    rows: dict[str, dict[str, set[int]]] = {}
    for r in records:
        rows.setdefault(r.label, {}).setdefault(r.pair, set()).add(r.seed)
    lacking = {}
    for label, there in rows.items():
        gone = [pair for pair in pairs if pair not in there]
        said = [f"{', '.join(gone)} ({len(gone)} of {len(pairs)} pairs)"] if 0 < len(gone) <= MOST else []
        said += [f"{len(gone)} of {len(pairs)} pairs"] if len(gone) > MOST else []
        few = [f"{_seeds(seeds - mine)} of {pair}" for pair, mine in there.items() if seeds - mine]
        said += few if len(few) <= MOST else [f"seeds of {len(few)} pairs"]
        lacking[label] = " and ".join(said)
    alike = [f"{_rows(labels)} {'lacks' if len(labels) == 1 else 'lack'} {what}" for what, labels in _alike(lacking)]
    return [f"not all there: {'; '.join(alike)}"] if alike else []


def _changes(records: Sequence[Record]) -> list[str]:
    """Which rows have knobs that are not as the method's preset gives them; rows that have the same stand together."""
    rows: dict[str, set[str]] = {}
    for r in records:
        changed = {f"{knob}={value}" for knob, value in _changed(r).items()}
        rows[r.label] = rows.get(r.label, changed) & changed
    said = {label: ", ".join(sorted(changed - set(re.split(r"[\[\], ]+", label)))) for label, changed in rows.items()}
    return [
        f"{'all rows' if 1 < len(labels) == len(rows) else _rows(labels)} with {changed}"
        for changed, labels in _alike(said)
    ]


def _alike(said: dict[str, str]) -> list[tuple[str, list[str]]]:
    """What is said of rows, each with the rows it is said of; without those of which nothing is."""
    return [(what, [label for label in said if said[label] == what]) for what in dict.fromkeys(said.values()) if what]


def _rows(labels: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(labels[:-1]), labels[-1]]))


def _changed(record: Record) -> dict[str, Any]:
    """Knobs that differ from the preset's, but for those said elsewhere and those an ablation's row is named after."""
    variants = ABLATIONS.values() if record.experiment in (ABLATION, OF_ROBUST) else ()
    named = {knob for rows in variants for knob in rows.get(record.variant, ())}
    shown = {knob: value for knob, value in record.settings.items() if knob not in SAID | named}
    preset, entry = (str(record.settings.get(knob, "")) for knob in ("preset", "dataset"))
    usual = _usual(preset, record.method, entry, str(record.setting("backbone")), record.dataset)
    special = record.method in PRESETS.get(preset, {}) and preset != DEFAULT.get(record.method, GENERAL)
    unsaid = special and "preset" not in named and not record.label.endswith(f":{preset}")
    return ({"preset": preset} if unsaid else {}) | {
        knob: value for knob, value in shown.items() if knob in usual and value != usual[knob]
    }


@cache
def _usual(preset: str, method: str, entry: str, backbone: str, dataset: str) -> dict[str, Any]:
    """Every knob as the preset and the data set give it; nothing of a method or preset that is not there any more."""
    knobs = {"method": method, "preset": preset, "dataset": entry, "backbone": backbone}
    try:
        settings, params = resolve({**KNOBS.get(dataset, {}), **knobs})
    except UserError:
        return {}
    return asdict(settings) | asdict(params)


def _length(records: Sequence[Record]) -> str:
    """How long the main stages were."""
    steps = {int(r.setting("steps")) for r in records} - {0}
    epochs = {int(r.setting("epochs")) for r in records if not r.setting("steps")}
    caps = {int(r.setting("max_steps")) for r in records}
    parts = [f"{_span(epochs)} epochs"] if epochs else []
    parts += [f"{_span(steps)} steps"] if steps else []
    capped = f", at most {_span(caps - {0})} steps a stage{' in some runs' if 0 in caps else ''}" if caps - {0} else ""
    return " or ".join(parts) + capped


def _device(record: Record) -> str | None:
    if "gpu" not in record.environment:
        return None
    return "CPU" if record.setting("device") == "cpu" else record.environment["gpu"] or "CPU"


def _is_ours(command: list[str] | None) -> bool:
    """Not a script's, nor that of a worker process of a cluster."""
    return command is not None and Path(command[0]).name in PROGRAMS


def _command(record: Record) -> str:
    return shlex.join(["unihssl", *record.environment["command"][1:]])


def _noted(name: str, several: str, values: Iterable[str | None]) -> str:
    """One value for all runs; where runs differ this is said, with how many have each."""
    counts = Counter(value or "not noted" for value in values)
    if len(counts) == 1:
        return f"{name} {next(iter(counts))}"
    each = (f"{value} ({count} of {counts.total()} runs)" for value, count in counts.items())
    return f"DIFFERENT {several}: {', '.join(each)}"


def _seeds(seeds: set[int]) -> str:
    gaps = max(seeds) - min(seeds) >= len(seeds)
    return f"seed{'s' if len(seeds) > 1 else ''} " + (", ".join(map(str, sorted(seeds))) if gaps else _span(seeds))


def _span(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _some(lines: list[str], of: str) -> list[str]:
    return lines if len(lines) <= MOST else [*lines[:MOST], f"{of} not shown: {len(lines) - MOST}"]

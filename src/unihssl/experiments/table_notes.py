"""The notes below a table: what makes its numbers doubtful, and how its runs were made."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

from unihssl.config import changes_result
from unihssl.data.catalog import DATASETS
from unihssl.experiments.designs import ABLATIONS
from unihssl.experiments.results import ABLATION, OF_ROBUST, Record
from unihssl.experiments.schedules import LENGTHS

PROGRAMS = ("unihssl", "__main__.py")  # how a command of ours begins; others are scripts or a cluster's workers
MOST = 3  # notes, commands or pairs that are listed; more are counted
NOTE_LENGTH = 200
ELSEWHERE = LENGTHS | {"method", "dataset", "backbone", "weights", "seed"}  # knobs that other parts of the notes tell


def cautions(records: Sequence[Record]) -> list[str]:
    """What makes the numbers doubtful: a leaking split, data that differs, failed runs, missing cells."""
    texts = dict.fromkeys(str(note) for r in records for note in r.result.get("notes", ()))
    notes = _at_most([f"note: {shorten(text, NOTE_LENGTH, placeholder=' ...')}" for text in texts], "notes")
    copies = [
        f"{r.folder} and {', '.join(map(str, r.copies))} are equal runs: counted once" for r in records if r.copies
    ]
    return [*_leaks(records), *notes, *_at_most(copies, "equal runs"), *_warnings(records), *_missing(records)]


def provenance(records: Sequence[Record]) -> list[str]:
    """How the runs were made: settings, machine and versions, then the commands."""
    settings = (r.settings for r in records)
    backbones = (f"{s.get('backbone', '?')} (weights: {Path(str(s.get('weights', '?'))).name})" for s in settings)
    parts = [" and ".join(dict.fromkeys(backbones)), _length(records), _seeds({r.seed for r in records})]
    parts += _tested_on(records)
    parts += _asked_knobs(records)
    if any(r.environment for r in records):
        parts += [
            _agreed("on", "machines", map(_device, records)),
            _agreed("torch", "versions of torch", (r.environment.get("packages", {}).get("torch") for r in records)),
            _agreed("commit", "commits", (r.environment.get("commit") for r in records)),
        ]
    else:
        parts.append("machine and commit not noted")
    started = [command for r in records if (command := r.environment.get("command"))]
    commands = dict.fromkeys(shlex.join(["unihssl", *c[1:]]) for c in started if Path(c[0]).name in PROGRAMS)
    made = f"made with {'; '.join(filter(None, parts))}"
    return [made, *_at_most([f"command: {command}" for command in commands], "commands")]


def _leaks(records: Sequence[Record]) -> list[str]:
    dataset = DATASETS.get(records[0].dataset)
    if dataset is None or not dataset.caution:
        return []
    columns = {str(r.settings.get("group_by", "")) for r in records}
    notes = [dataset.caution] if not dataset.safe_group_by or columns - {dataset.safe_group_by} else []
    return notes + [f"split by {name}, where the paper splits by image" for name in sorted(columns - {""})]


def _warnings(records: Sequence[Record]) -> list[str]:
    checked = [r for r in records if "warnings" in r.result]  # early versions did not check
    failed = [r for r in checked if r.result["warnings"]]
    if not failed:
        return []
    pairs: dict[str, dict[str, None]] = {}
    for r in failed:
        pairs.setdefault(r.label, {})[r.pair] = None
    note = f"{len(failed)} of {len(checked)} runs warn: the unlabeled domain or a class of it was probably not learnt"
    if len(failed) == len(checked):
        return [note]
    if len({r.pair for r in records}) == 1:
        return [f"{note} ({', '.join(pairs)})"]
    where = (f"{label} on {', '.join(on) if len(on) <= MOST else f'{len(on)} pairs'}" for label, on in pairs.items())
    return [f"{note} ({'; '.join(where)})"]


def _missing(records: Sequence[Record]) -> list[str]:
    """Rows that lack a pair or a seed which other rows of the table have."""
    pairs, seeds = dict.fromkeys(r.pair for r in records), {r.seed for r in records}
    rows: dict[str, dict[str, set[int]]] = {}
    for r in records:
        rows.setdefault(r.label, {}).setdefault(r.pair, set()).add(r.seed)
    lacking = {}
    for label, present in rows.items():
        absent = [pair for pair in pairs if pair not in present]
        parts = [f"{', '.join(absent)} ({len(absent)} of {len(pairs)} pairs)"] if 0 < len(absent) <= MOST else []
        parts += [f"{len(absent)} of {len(pairs)} pairs"] if len(absent) > MOST else []
        incomplete = [f"{_seeds(seeds - found)} of {pair}" for pair, found in present.items() if seeds - found]
        parts += incomplete if len(incomplete) <= MOST else [f"seeds of {len(incomplete)} pairs"]
        lacking[label] = " and ".join(parts)
    notes = [
        f"{_listed(labels)} {'lacks' if len(labels) == 1 else 'lack'} {what}"
        for what, labels in _by_text(lacking).items()
    ]
    return [f"incomplete: {'; '.join(notes)}"] if notes else []


def _asked_knobs(records: Sequence[Record]) -> list[str]:
    """Which rows were trained with which knobs, if their runs saved what was asked for."""
    rows: dict[str, set[str]] = {}
    for r in records:
        knobs = {f"{knob}={value}" for knob, value in _asked(r).items()}
        rows[r.label] = rows.get(r.label, knobs) & knobs
    texts = {label: ", ".join(sorted(knobs - set(re.split(r"[\[\], ]+", label)))) for label, knobs in rows.items()}
    return [
        f"{'all rows' if 1 < len(labels) == len(rows) else _listed(labels)} with {knobs}"
        for knobs, labels in _by_text(texts).items()
    ]


def _asked(record: Record) -> dict[str, Any]:
    """The knobs asked for, without those that the row is named after or that the notes tell elsewhere."""
    asked = record.environment.get("asked", {})
    variants = ABLATIONS.values() if record.experiment in (ABLATION, OF_ROBUST) else ()
    named = {knob for rows in variants for knob in rows.get(record.variant, ())}
    found = {k: v for k, v in asked.items() if changes_result(k) and k not in ELSEWHERE | named}
    _, _, preset = record.row.partition(":")  # empty for the default
    if preset and "preset" not in named and not record.label.endswith(f":{preset}"):
        found["preset"] = preset
    return found if asked else {}


def _by_text(texts: dict[str, str]) -> dict[str, list[str]]:
    """The labels of the rows that share a text; rows without one are left out."""
    labels: dict[str, list[str]] = {}
    for label, text in texts.items():
        if text:
            labels.setdefault(text, []).append(label)
    return labels


def _listed(labels: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(labels[:-1]), labels[-1]]))


def _tested_on(records: Sequence[Record]) -> list[str]:
    """How many test samples each domain has, where that is the same for all runs."""
    counts = {tuple(r.result.get(part, {}).get("n") for part in ("labeled", "unlabeled")) for r in records}
    labeled, unlabeled = counts.pop() if len(counts) == 1 else (None, None)
    found = [f"{n} {name}" for n, name in ((labeled, "labeled"), (unlabeled, "unlabeled")) if n]
    return [f"tested on {' and '.join(found)} samples"] if found else []


def _length(records: Sequence[Record]) -> str:
    """How long the main stages were."""

    def lengths(knob: str, of: Iterable[Record] = records) -> set[int]:
        return {int(r.settings[knob]) for r in of if knob in r.settings}

    steps, caps = lengths("steps") - {0}, lengths("max_steps")
    epochs = lengths("epochs", (r for r in records if not r.settings.get("steps")))
    parts = [f"{_span(epochs)} epochs"] if epochs else []
    parts += [f"{_span(steps)} steps"] if steps else []
    capped = f", at most {_span(caps - {0})} steps a stage{' in some runs' if 0 in caps else ''}" if caps - {0} else ""
    return " or ".join(parts) + capped


def _device(record: Record) -> str | None:
    if "gpu" not in record.environment:
        return None
    return "CPU" if record.settings.get("device") == "cpu" else record.environment["gpu"] or "CPU"


def _agreed(name: str, plural: str, values: Iterable[str | None]) -> str:
    """The value that all runs share, or how many runs have each."""
    counts = Counter(value or "not noted" for value in values)
    if len(counts) == 1:
        return f"{name} {next(iter(counts))}"
    each = (f"{value} ({count} of {counts.total()} runs)" for value, count in counts.items())
    return f"DIFFERENT {plural}: {', '.join(each)}"


def _seeds(seeds: set[int]) -> str:
    gaps = max(seeds) - min(seeds) >= len(seeds)
    return f"seed{'s' if len(seeds) > 1 else ''} " + (", ".join(map(str, sorted(seeds))) if gaps else _span(seeds))


def _span(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _at_most(lines: list[str], of: str) -> list[str]:
    return lines if len(lines) <= MOST else [*lines[:MOST], f"{of} not shown: {len(lines) - MOST}"]

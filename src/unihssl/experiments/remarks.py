"""What is said below a table: what to beware of, and with what its runs were made."""

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import shorten

from unihssl.data.catalog import DATASETS
from unihssl.experiments.results import Record

MOST = 3  # notes or commands in full; the others are counted
NOTE_LENGTH = 200


def cautions(records: Sequence[Record]) -> list[str]:
    """What makes the numbers doubtful: how the data was split, what it lacked, runs that went wrong."""
    notes = dict.fromkeys(str(note) for r in records for note in r.result.get("notes", ()))
    said = _some([f"note: {shorten(note, NOTE_LENGTH, placeholder=' ...')}" for note in notes], "notes")
    return [*_leaks(records), *said, *_warnings(records)]


def provenance(records: Sequence[Record]) -> list[str]:
    """With what the runs were made, and the commands that made them."""
    backbones = (f"{r.setting('backbone')} (weights: {Path(str(r.setting('weights'))).name})" for r in records)
    parts = [" and ".join(dict.fromkeys(backbones)), _length(records), _seeds({r.seed for r in records})]
    if any(r.environment for r in records):
        parts += [
            _noted("on", "machines", map(_device, records)),
            _noted("torch", "versions of torch", (r.environment.get("packages", {}).get("torch") for r in records)),
            _noted("commit", "commits", (r.environment.get("commit") for r in records)),
        ]
    else:
        parts.append("machine and commit not noted")
    commands = dict.fromkeys(_command(r) for r in records if r.environment.get("command"))
    return [f"made with {'; '.join(parts)}", *_some([f"command: {command}" for command in commands], "commands")]


def _leaks(records: Sequence[Record]) -> list[str]:
    dataset = DATASETS.get(records[0].dataset)
    if dataset is None or not dataset.caution:
        return []
    groups = {str(r.settings.get("group_by", "")) for r in records}
    said = [dataset.caution] if "" in groups else []
    return said + [f"split by {name}, where the paper splits by image" for name in sorted(groups - {""})]


def _warnings(records: Sequence[Record]) -> list[str]:
    looked = [r for r in records if "warnings" in r.result]  # runs of older versions did not look
    failed = [r for r in looked if r.result["warnings"]]
    if not failed:
        return []
    pairs: dict[str, dict[str, None]] = {}
    for r in failed:
        pairs.setdefault(r.label, {})[r.pair] = None
    where = (f"{label} on {', '.join(on) if len(on) <= MOST else f'{len(on)} pairs'}" for label, on in pairs.items())
    said = f"{len(failed)} of {len(looked)} runs warn that adapting probably failed"
    return [f"{said} (the unlabeled domain was not learnt): {'; '.join(where)}"]


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

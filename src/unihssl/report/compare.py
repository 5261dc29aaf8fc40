"""Several runs side by side: accuracies over seeds, differences with their significance, and the check of each run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unihssl.errors import UserError
from unihssl.experiments.paper import FLOOR
from unihssl.experiments.results import PARTS, Record, label_records, read_all
from unihssl.experiments.significance import LEVEL, SEEDS_NEEDED, TEST, compare
from unihssl.experiments.tables import held_out_ratio, summarise
from unihssl.files import make_folder, write_text
from unihssl.report.answer import NAMES, Verdict, accuracies, reason_of, verdict
from unihssl.report.charts import BAR, COLOURS, GAP, HEIGHT, Figure, bar_chart, colour
from unihssl.report.facts import ROLES, RunFacts, baseline_beside
from unihssl.report.page import render
from unihssl.run_folder import RunFolder

MOST_ROWS = 6  # in a figure of classes
MOST_CLASSES = 30


@dataclass(frozen=True)
class ComparedRow:
    """One row of the table: its name, seeds, means, and how it differs from the first."""

    name: str
    seeds: str
    means: list[str]
    differences: list[str]


@dataclass(frozen=True)
class Comparison:
    """The runs of one pair of domains."""

    title: str
    reference: str
    rows: list[ComparedRow]
    figures: list[Figure]


def is_single(runs: Sequence[Path]) -> bool:
    """Whether one run is named, not several and not a folder of them; a folder that is neither counts as one."""
    below = runs[0].is_dir() and not RunFolder(runs[0]).is_run and any(runs[0].rglob(RunFolder("").result.name))
    return len(runs) == 1 and not below


def write_comparison(runs: Sequence[str | Path], out: str | Path) -> Path:
    """Compare finished runs, or all below folders, in one HTML file.

    The reference is the row of the run that is named first; of a folder of runs, Supervised if it is there.

    >>> write_comparison(["runs/ours-0", "runs/supervised-0"], "comparison.html")
    PosixPath('comparison.html')
    """
    folders = [Path(run) for run in runs]
    records = read_all(folders)
    pairs = dict.fromkeys((r.dataset, r.pair) for r in records)
    groups = [label_records([r for r in records if (r.dataset, r.pair) == pair]) for pair in pairs]
    records = [record for group in groups for record in group]  # with labels that tell the runs of a pair apart
    first = [r for r in records if r.folder.resolve().is_relative_to(folders[0].resolve())] or records
    reference = next((r for r in first if r.label == FLOOR and not RunFolder(folders[0]).is_run), first[0]).label
    described = [_described(record) for record in records]
    values = {
        "comparisons": [compared(group, reference) for group in groups],
        "runs": described,
        "test": f"The test: {TEST}; it needs {SEEDS_NEEDED} common seeds or more",
        "parts": PARTS,
        "names": NAMES,
        "heads": list(dict.fromkeys(name for run in described for name, shown in run["checked"].items() if shown)),
        "is_measured": any(part.value is not None for run in described for part in run["accuracies"][1:2]),
    }
    path = Path(out)
    page = render("compare.html.j2", values)
    make_folder(path.parent)
    write_text(path, page)
    return path


def compared(records: Sequence[Record], reference: str) -> Comparison:
    """The table and figures of one pair; the reference is the named row, if it is there, else the first."""
    labels = list(dict.fromkeys(r.label for r in records))
    reference = reference if reference in labels else labels[0]
    labels.sort(key=lambda label: label != reference)
    by_part = {part: {label: _values(records, label, part) for label in labels} for part in PARTS}
    ratio = held_out_ratio(records)
    rows = [
        ComparedRow(
            label,
            _seeds([r.seed for r in records if r.label == label]),
            [_mean(by_part[part][label]) for part in PARTS],
            [
                _difference(by_part[part][label], by_part[part][reference], ratio)
                if label != reference
                else "reference"
                for part in PARTS
            ],
        )
        for label in labels
    ]
    first = records[0]
    return Comparison(f"{first.dataset} {first.pair}".strip(), reference, rows, _figures(records, labels, by_part))


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _values(records: Sequence[Record], label: str, part: str) -> dict[int, float]:
    found = {r.seed: r.value("accuracy", part) for r in records if r.label == label}
    return {seed: value for seed, value in found.items() if value is not None}


def _mean(values: dict[int, float]) -> str:
    summary = summarise(values)
    if summary is None:
        return "unknown"
    return f"{summary.mean:.1f}%" + (f" ± {summary.std:.1f}" if summary.std is not None else "")


def _difference(values: dict[int, float], reference: dict[int, float], ratio: float) -> str:
    common = set(values) & set(reference)
    if not common:
        return "-"
    found = compare(values, reference, ratio)
    if found is None:
        mean = sum(values[s] - reference[s] for s in common) / len(common)
        return f"{mean:+.1f}, not tested"
    judged = f"p = {found.p:.3f}" + (", significant" if found.p < LEVEL else ", not significant")
    return f"{found.mean:+.1f} ± {found.half_width:.1f} ({judged})"


def _figures(records: Sequence[Record], labels: list[str], by_part: dict[str, Any]) -> list[Figure]:
    """Mean accuracies of each row, and the accuracy of each class of B."""
    colours = {"labeled": "var(--a)", "unlabeled": "var(--b)"}
    colours = {part: shade for part, shade in colours.items() if any(by_part[part].values())}
    means = {p: [_fraction(by_part[p][label].values()) for label in labels] for p in colours}
    names = {"labeled": "domain A, labeled", "unlabeled": "domain B, unlabeled"}
    shown = labels[:MOST_ROWS]
    by_class = {label: _class_accuracy([r for r in records if r.label == label]) for label in shown}
    classes = list(dict.fromkeys(name for values in by_class.values() for name in values))[:MOST_CLASSES]
    height = max(HEIGHT, len(classes) * (BAR * len(shown) + GAP))  # about that of the figure beside it
    found = [
        Figure(
            bar_chart(labels, [(colours[p], means[p]) for p in colours], most=1.0, height=height),
            "Accuracy on held-out samples",
            "Mean over seeds.",
            [(names[p], colours[p], "square") for p in colours],
        )
    ]
    if classes:
        bars = [
            (colour(i % COLOURS, COLOURS), [by_class[label].get(c) for c in classes]) for i, label in enumerate(shown)
        ]
        legend = [(label, colour(i % COLOURS, COLOURS), "square") for i, label in enumerate(shown)]
        found.append(
            Figure(bar_chart(classes, bars, most=1.0), "Accuracy of each class of B", "Mean over seeds.", legend)
        )
    return found


def _class_accuracy(records: Sequence[Record]) -> dict[str, float]:
    tables = [r.result.get("unlabeled", {}).get("class_accuracy", {}) for r in records]
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: sum(t[name] for t in tables if name in t) / sum(name in t for t in tables) for name in names}


def _fraction(values: Any) -> float | None:
    found = list(values)
    return sum(found) / len(found) / 100 if found else None


def _described(record: Record) -> dict[str, Any]:
    try:
        facts = RunFacts.read(record.folder)
    except UserError:
        return {"record": record, "accuracies": [], "verdict": Verdict("doubt", "cannot be read", []), "checked": {}}
    judged = verdict(facts, baseline_beside(facts))
    judged = replace(judged, reasons=[reason_of(warning) for warning in facts.result.get("warnings", ())])
    checked = _checked(facts.check) if facts.check else {}
    return {"record": record, "accuracies": accuracies(facts), "verdict": judged, "checked": checked}


def _checked(check: dict[str, Any]) -> dict[str, str]:
    """The label-free facts of a run, each under the head of its column; of A and B, where there are both."""
    told, confidence, trusted = check["domain_told"], check["confidence"], check["trusted"]
    views, rules = check["view_agreement"], check["rule_agreement"]
    own = f"{confidence['labeled']:.2f}" if "labeled" in confidence else "unknown"
    return {
        "domain told right, A and B": ", ".join(f"{told[role]['value']:.0%}" for role in ROLES) if told else "",
        "mean confidence, A and B": f"{own}, {confidence['unlabeled']:.2f}",
        "class shares differ": f"{check['class_shares']['distance']:.0%}",
        "two views agree": "" if views is None else f"{views:.0%}",
        "other rules agree": ", ".join(f"{rule} {agreement:.0%}" for rule, agreement in rules.items()),
        "pseudo-labels trusted, first and last": f"{trusted['first']:.0%}, {trusted['last']:.0%}" if trusted else "",
    }

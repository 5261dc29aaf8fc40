"""The report's first paragraph, its verdict on the unlabeled domain, and what to do next, in plain words.

Nothing measured on the labeled domain is said of the unlabeled one: without labels of it, its accuracy is unknown.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unihssl.config import Settings, knob_fields
from unihssl.data.source import SEPARATOR, counted, first_few
from unihssl.evaluation.audit import share
from unihssl.evaluation.collapse_check import LOST_CLASSES, NOT_LEARNT, STARVED, SURE, TOLD
from unihssl.evaluation.unlabeled_check import in_words
from unihssl.experiments.paper import FLOOR
from unihssl.plain_files import is_there
from unihssl.report.facts import ROLES, RunFacts
from unihssl.report.markup import percent

FAILED = 0.6  # of the accuracy on A: where less is measured on B, it was not learnt
NAMES = {"labeled": "domain A", "unlabeled": "domain B", "pooled": "both together"}


@dataclass(frozen=True)
class Measured:
    """An accuracy with its 95% interval; `value` is None where it is unknown."""

    name: str
    value: float | None
    low: float = 0.0
    high: float = 1.0
    count: str = ""
    source: str = "held-out samples"
    missing: str = "unknown"  # in place of a value

    @property
    def words(self) -> str:
        return (
            f"{percent(self.value)} (95% interval {percent(self.low)} to {percent(self.high)}; {self.count})"
            if self.value is not None
            else self.missing
        )


@dataclass(frozen=True)
class Verdict:
    """Whether domain B was learnt: `good`, `doubt`, `bad`; in words; and why."""

    level: str
    words: str
    reasons: Sequence[str]


def accuracies(facts: RunFacts) -> list[Measured]:
    """Of each part and of both, with exact intervals and counts; an audit stands in where B has no test labels."""
    found = []
    for part in ("labeled", "unlabeled", "pooled"):
        numbers = facts.result.get(part)
        if numbers:
            right = round(numbers["accuracy"] * numbers["n"])
            found.append(_measured(NAMES[part], share(right, numbers["n"])))
        elif part == "unlabeled" and facts.audit:
            found.append(_measured(NAMES[part], facts.audit["accuracy"], "a random sample, labeled for the audit"))
        elif part != "pooled":
            found.append(Measured(NAMES[part], None, source="no labels there"))
        elif all(measured.value is not None for measured in found):
            source = "B's is of an audit, which draws from the samples that trained, too; A's is of held-out ones"
            found.append(Measured(NAMES[part], None, source=source, missing="not pooled"))
        else:
            found.append(Measured(NAMES[part], None, source="both domains must be measured"))
    return found


def _measured(name: str, part: Mapping[str, Any], source: str = "held-out samples") -> Measured:
    right = round(part["value"] * part["n"])
    return Measured(name, part["value"], part["low"], part["high"], f"{right:,} of {part['n']:,} right", source)


def paragraph(facts: RunFacts, baseline: RunFacts | None) -> list[str]:
    """What was trained, how good it is, and against what: a few sentences."""
    a, b, both = accuracies(facts)
    sizes = {role: len(facts.split.get(role, {}).get("train", ())) for role in ROLES}
    trained = (
        f" on {counted(sizes['labeled'], 'labeled sample')} and {counted(sizes['unlabeled'], 'unlabeled sample')}"
        if all(sizes.values())
        else ""
    )
    said = [
        f"The method {facts.method} was trained with the backbone {facts.settings.get('backbone', '?')}{trained}: "
        f"domain A, with labels, is {facts.domain('labeled')}; domain B, {_without(facts)}, is "
        f"{facts.domain('unlabeled')}; "
        f"{len(facts.classes)} classes."
    ]
    said.append(
        f"On A's {a.source} its accuracy is {a.words}."
        if a.value is not None
        else "Nothing was held out of A, so its accuracy there is unknown."
    )
    if b.value is not None:
        said.append(f"On B it is {b.words}, measured on {b.source}.")
        said += [f"On both together it is {both.words}."] if both.value is not None else []
    else:
        said.append("On B it is unknown: no label of B is there to measure it, and A's accuracy says nothing about B.")
    said.append(_against(facts, baseline))
    return said


def _without(facts: RunFacts) -> str:
    return f"with {counted(facts.target_labels, 'label')} that trained" if facts.target_labels else "without"


def _against(facts: RunFacts, baseline: RunFacts | None) -> str:
    learns = f"learns from A's labels{f' and {facts.target_labels:,} of B' if facts.target_labels else ''} alone"
    if facts.settings.get("method") == FLOOR:
        return f"This is the baseline itself: it {learns}."
    if baseline is None:
        return f"Supervised, the baseline that {learns}, was not trained beside it."
    parts = [
        f"{percent(baseline.result[part]['accuracy'])} on {NAMES[part].replace('domain ', '')}"
        for part in ("labeled", "unlabeled", "pooled")
        if part in baseline.result
    ]
    return f"Supervised, which {learns}, reaches {', '.join(parts)} (one seed, the same split)."


def verdict(facts: RunFacts, baseline: RunFacts | None = None) -> Verdict:
    """Whether B was learnt: by its labels where they are enough, else by what needs none, which are the reasons.

    They are enough against a warning where their interval leaves out a failure.
    """
    reasons = in_words(facts.check) if facts.check else ["this run is of a version that did not check it"]
    a, b, _ = accuracies(facts)
    if b.value is None:
        return Verdict(*_unmeasured(facts), reasons)
    least = FAILED * (1 if a.value is None else a.value)
    floor = baseline.result.get("unlabeled", {}).get("accuracy") if baseline else None
    against = f"{percent(b.value)}, against {percent(a.value)} on A" if a.value is not None else percent(b.value)
    if a.value is not None and b.high < least:
        return Verdict("bad", f"Domain B was not learnt: {against}", reasons)
    if a.value is not None and b.value < least:
        return Verdict("doubt", f"Domain B was hardly learnt, as far as {b.count} can tell: {against}", reasons)
    if floor is not None and b.low <= floor:
        return Verdict("doubt", f"Domain B was not shown to be learnt better than by Supervised: {against}", reasons)
    lost = _lost_classes(facts, least)
    if lost or (a.value is not None and b.high < a.value and b.value < a.low):
        but = f"; classes hardly learnt: {first_few(lost)}" if lost else ""
        return Verdict("doubt", f"Domain B was learnt in part: {against}{but}", reasons)
    warned = bool(facts.result.get("warnings"))
    if warned and b.low < least:
        said = f"It is doubtful that domain B was learnt: {b.count}, too few labels to refute the warning"
        return Verdict("doubt", said, reasons)
    but = "; the labels do not confirm the warning" if warned else ""
    return Verdict("good", f"Domain B was learnt: {against}{but}", reasons)


def _lost_classes(facts: RunFacts, least: float) -> list[str]:
    """Classes of which B's labels show that less than `least` is right; and those a warning names with none right."""
    warned = LOST_CLASSES in " ".join(facts.result.get("warnings", ()))
    shares = facts.check["class_shares"]["predicted"] if facts.check and warned else {}
    named = {name for name, predicted in shares.items() if predicted * len(shares) < STARVED}
    counts = {
        name: (row.get(name, 0), sum(row.values())) for name, row in facts.confusions.get("unlabeled", {}).items()
    }
    return [
        name
        for name, (right, n) in counts.items()
        if n and (share(right, n)["high"] < least or (name in named and not right))
    ]


def _unmeasured(facts: RunFacts) -> tuple[str, str]:
    """Level and words from label-free evidence alone."""
    warnings = " ".join(facts.result.get("warnings", ()))
    if LOST_CLASSES in warnings:
        return "doubt", f"Some classes of domain B were {NOT_LEARNT}"
    if warnings:
        failed = NOT_LEARNT in warnings
        said = f"Domain B was {NOT_LEARNT}" if failed else "It is doubtful that domain B was learnt"
        return ("bad" if failed else "doubt"), said
    if not facts.check:
        return "doubt", "Whether domain B was learnt is not known"
    if signs := _signs(facts.check):
        return "doubt", f"Domain B may have been learnt, but there is a sign against it: {' and '.join(signs)}"
    return "good", "Nothing speaks against domain B having been learnt, but it was not measured"


def _signs(check: Mapping[str, Any]) -> list[str]:
    """The doubts of the check, in a few words."""
    told, confidence = check["domain_told"], check["confidence"]
    found = [f"only {told['mean']:.0%} of the domains told right"] if told and told["mean"] < TOLD else []
    if confidence["unlabeled"] < SURE:
        against = f" against {confidence['labeled']:.2f}" if "labeled" in confidence else ""
        found.append(f"low confidence on B, {confidence['unlabeled']:.2f}{against}")
    return found


def reason_of(warning: str) -> str:
    """The reason that a warning gives, without its judgement and its advice."""
    judged = warning.partition(". ")[0]
    return judged.partition(": ")[2] or judged


def next_steps(facts: RunFacts, baseline: RunFacts | None) -> list[tuple[str, str]]:
    """What to do now, each with its command if it has one."""
    run, steps = shlex.quote(str(facts.folder.path)), []
    if facts.result.get("warnings") and verdict(facts, baseline).level != "good":
        steps.append(("Read the warning: it says what to try.", ""))
    if facts.audit is None:
        why = "Measure B" if "unlabeled" not in facts.result else "Measure B as a whole, and calibrate the confidences"
        steps.append(
            (f"{why}: label 100 of its images, drawn at random.", f"unihssl audit {run} --n 100 --out audit.csv")
        )
    if baseline is None and facts.settings.get("method") != FLOOR:
        steps.append(
            (
                "See what the unlabeled data is worth: train the baseline beside it, with the same data, and compare.",
                _train_baseline(facts),
            )
        )
    steps.append(("Use the model.", f"unihssl predict {run} NEW_IMAGES --out predictions.csv"))
    steps.append(("One run is one draw: other seeds (`--seed 1`, `--seed 2`) show how much the numbers vary.", ""))
    return steps


def _train_baseline(facts: RunFacts) -> str:
    """The commands that train Supervised beside a run and compare the two; empty if the run's data is not in files."""
    labeled, unlabeled = (str(facts.settings.get(role, "")) for role in ROLES)
    parts = unlabeled.split(SEPARATOR)
    if not all(is_there(Path(source)) for source in (labeled, *parts)):
        return ""
    run, general = facts.folder.path, knob_fields(Settings)
    out = str(run.parent / f"{run.name}-supervised")
    given = ["--labeled", labeled, *(word for part in parts for word in ("--unlabeled", part))]
    backbone = facts.settings.get("backbone", Settings.backbone)
    given += ["--set", f"backbone={backbone}"] if backbone != Settings.backbone else []
    changed = [(name, value) for name, value, *_ in facts.changed_settings() if name in general and name != "preset"]
    given += [word for name, value in changed for word in ("--set", f"{name}={value}")]
    train = ["unihssl", "train", *given, "--method", FLOOR, "--out", out]
    return f"{shlex.join(train)}\n{shlex.join(['unihssl', 'report', str(run), out])}"

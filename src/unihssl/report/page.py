"""The report of one run: gathered, laid out by the template and written."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from unihssl import __version__
from unihssl.data.source import counted
from unihssl.files import make_folder, write_text
from unihssl.report.answer import accuracies, next_steps, paragraph, reason_of, verdict
from unihssl.report.charts import HEIGHT, WIDTH, Figure
from unihssl.report.facts import ROLES, RunFacts, baseline_beside
from unihssl.report.figures import (
    confidence_figures,
    confusion_figures,
    learning_figures,
    pseudo_figures,
    share_figures,
)
from unihssl.report.gallery import Row, galleries
from unihssl.report.map import feature_map
from unihssl.report.markup import command_lines, with_code
from unihssl.report.seen import Seen, look


@dataclass(frozen=True)
class Section:
    """A heading with what belongs under it."""

    title: str
    text: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    galleries: Sequence[Row] = ()


def write_report(
    run: str | Path,
    out: str | Path | None = None,
    *,
    images: bool = True,
    labeled: Any = None,
    unlabeled: Any = None,
    device: str = "auto",
) -> Path:
    """Write the report of a finished run, one self-contained HTML file, and return its path.

    >>> write_report("runs/first")
    PosixPath('runs/first/report.html')

    `labeled` and `unlabeled` are the run's own sources, where they have moved or were arrays. Without `images` no pixel
    of a sample is shown, and no file name.
    """
    facts = RunFacts.read(run)
    path = facts.folder.report if out is None else Path(out)
    seen, notes = look(facts, labeled, unlabeled, device)
    page = render("report.html.j2", content(facts, seen, notes, images=images))
    make_folder(path.parent)
    write_text(path, page)
    return path


def content(facts: RunFacts, seen: dict[str, Seen], notes: list[str], *, images: bool) -> dict[str, Any]:
    """Everything the template shows."""
    baseline, said = baseline_beside(facts), [*facts.result.get("notes", []), *notes]
    judged, warnings = verdict(facts, baseline), facts.result.get("warnings", [])
    refuted = [reason_of(warning) for warning in warnings] if judged.level == "good" else []
    return {
        "facts": facts,
        "roles": ROLES,
        "paragraph": paragraph(facts, baseline),
        "accuracies": accuracies(facts),
        "verdict": judged,
        "next_steps": next_steps(facts, baseline),
        "warnings": [] if refuted else warnings,
        "refuted": refuted,
        "notes": said if images or not said else ["Notes are left out, as they may name samples: see result.json."],
        "sampling": facts.result.get("sampling"),
        "sections": [s for s in sections(facts, seen, images=images) if s.text or s.figures or s.galleries],
        "audit": facts.audit,
        "changed": facts.changed_settings(),
        "parts": {role: _part(facts, role) for role in ROLES},
    }


def sections(facts: RunFacts, seen: dict[str, Seen], *, images: bool) -> list[Section]:
    answers, source = _answers(facts, seen)
    pictures = images and all(not s.model.architecture.takes_vectors for s in seen.values())
    mapped = feature_map(seen, pictures)
    unknown = (
        ()
        if "unlabeled" in answers or not answers
        else ("For B both are unknown: there are no labels to compare with.",)
    )
    matrices = confusion_figures(facts)
    shares = share_figures(facts, WIDTH if len(matrices) == 1 else HEIGHT)  # a matrix is square
    beside = shares if len(matrices) == 1 else []
    found = [
        Section("Where it is right and wrong", (), [*matrices, *beside]),
        Section("How sure it is", unknown, confidence_figures(answers, source)),
        Section("Classes", (), [] if beside else shares),
        Section("What the model sees", (), [mapped] if mapped else []),
    ]
    for role, s in seen.items() if pictures else ():
        rows = galleries(s, role)
        found.append(Section(f"Images of domain {ROLES[role]}", _about_images(s, rows), (), rows))
    if seen and not pictures:
        found.append(
            Section(
                "Images",
                ["Images are left out." if not images else "The samples are vectors: there are no images to show."],
            )
        )
    found.append(Section("How it learnt", (), [*learning_figures(facts), *pseudo_figures(facts)]))
    return found


def render(template: str, values: dict[str, Any]) -> str:
    """A template of this package as text; whatever it shows is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("unihssl.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"with_code": with_code, "command_lines": command_lines}
    style = (files("unihssl.report") / "templates" / "style.css").read_text(encoding="utf-8")
    return environment.get_template(template).render(values | {"style": style, "version": __version__})


def _answers(facts: RunFacts, seen: dict[str, Seen]) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], dict[str, str]]:
    """Confidence and correctness where labels are known, by domain, and where those labels come from."""
    answers = {role: (s.confidence, s.right) for role, s in seen.items() if s.known}
    source = {role: f"{counted(len(a[0]), 'held-out sample')}" for role, a in answers.items()}
    if facts.audit and "unlabeled" not in answers:
        sample = facts.audit["sample"]
        right = np.array([a == b for a, b in zip(sample["label"], sample["predicted"], strict=True)])
        answers["unlabeled"] = np.array(sample["confidence"]), right
        source["unlabeled"] = f"audit, {counted(len(right), 'label')}"
    return answers, source


def _about_images(seen: Seen, rows: Sequence[Row]) -> list[str]:
    where = "held out" if seen.held_out else "that trained without labels"
    heat = any(picture.heat for row in rows for picture in row.pictures)
    said = f"From {counted(len(seen.names), 'sample')} {where}. "
    said += (
        "The second picture of each pair shows what spoke for the predicted class, in yellow (Grad-CAM)."
        if heat
        else "Where the network looks is not shown: it has no map of places, as convolutional networks have."
    )
    return [said if seen.known else f"{said} Their classes are not known, so right and wrong cannot be told apart."]


def _part(facts: RunFacts, role: str) -> dict[str, str]:
    record = facts.split.get(role, {})
    counts = {part: len(record.get(part, ())) for part in ("train", "test", "unused")}
    shown = ", ".join(
        f"{n:,} {what}" for n, what in zip(counts.values(), ("to train", "held out", "unused"), strict=True) if n
    )
    return {"source": str(facts.settings.get(role, "")), "counts": shown, "fingerprint": facts.fingerprint(role)}

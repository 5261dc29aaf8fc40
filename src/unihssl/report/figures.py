"""The figures of one run that need no image: learning, pseudo-labels, confusions, confidence, class shares."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from unihssl.experiments.plots.confusion import MOST_NUMBERS, count_confusions, top_confusions
from unihssl.experiments.plots.learning import curves, loss_terms, stage_starts, term_group
from unihssl.report.charts import COLOURS, HEIGHT, Figure, Line, area_chart, bar_chart, colour, line_chart, matrix
from unihssl.report.facts import ROLES, RunFacts
from unihssl.report.markup import percent

DOMAIN_COLOURS = {"labeled": "var(--a)", "unlabeled": "var(--b)"}
RATES = {
    "mask_rate": "pseudo-labels trusted",
    "pseudo_agreement": "pseudo-label and prediction agree",
    "oracle_pseudo_accuracy": "pseudo-labels right (known labels of B, never trained on)",
}
BINS = 10
FEWEST = 10  # answers, below which the share of wrong ones only jumps
MOST_CLASSES = 24  # in a bar chart
Answers = Mapping[str, tuple[np.ndarray, np.ndarray]]  # domain -> confidence (N,), right (N,)


def learning_figures(facts: RunFacts) -> list[Figure]:
    """The terms of the loss as they count in it, and the learning rate."""
    runs = [facts.metrics]
    if not facts.metrics:
        return []
    group, terms = term_group(runs), loss_terms(runs)
    lines = [Line("total", _pieces(facts, "loss"), "var(--ink)")]
    if len(terms) > 1 or group == "terms":
        lines += [Line(t, _pieces(facts, f"{group}/{t}"), f"var(--c{i % COLOURS})") for i, t in enumerate(terms)]
    weighted = (
        "Each term as it counts in the loss, with its weight."
        if group == "weighted"
        else ("The terms without their weights, which this run did not log: they do not add up to the total.")
    )
    drawn = line_chart(lines, "training step", marks=_marks(facts))
    rates = [(row["global_step"], row["lr"]) for row in facts.metrics]
    steps, values = (np.array(column, dtype=np.float64) for column in zip(*rates, strict=True))
    rate = line_chart([Line("learning rate", [(steps, values)], "var(--ink)")], "training step", marks=_marks(facts))
    return [
        Figure(drawn, "Loss", weighted, _legend(lines)),
        Figure(rate, "Learning rate", "A loss that still falls where the rate is 0 would have fallen further."),
    ]


def pseudo_figures(facts: RunFacts) -> list[Figure]:
    """The flow of pseudo-labels: trusted, in agreement, right where that is known; their classes."""
    found = []
    lines = [
        Line(name, pieces, f"var(--c{i})", dashed=stat.startswith("oracle"))
        for i, (stat, name) in enumerate(RATES.items())
        if (pieces := _pieces(facts, f"stats/{stat}"))
    ]
    if lines:
        drawn = line_chart(lines, "training step", y=(0.0, 1.0), shares=(False, True), marks=_marks(facts))
        text = "Shares of the unlabeled samples in a step. Trusted pseudo-labels take part in the loss; "
        text += "their share may fall while the model learns."
        found.append(Figure(drawn, "Pseudo-labels over time", text, _legend(lines)))
    rows = [row for row in facts.metrics if row.get("pseudo_shares")]
    if len(rows) > 1:
        names = facts.classes
        shares = np.zeros((len(rows), max(len(names), *(len(row["pseudo_shares"]) for row in rows))))
        for i, row in enumerate(rows):
            shares[i, : len(row["pseudo_shares"])] = row["pseudo_shares"]
        colours = [colour(c, shares.shape[1]) for c in range(shares.shape[1])]
        steps = np.array([row["global_step"] for row in rows], dtype=np.float64)
        legend = [(name, colours[i], "square") for i, name in enumerate(names)] if len(names) <= COLOURS else []
        drawn = area_chart(steps, shares, colours, "training step", _marks(facts))
        text = "The classes that the pseudo-labels of B name. A band that vanishes is a class that was lost."
        found.append(Figure(drawn, "Classes of the pseudo-labels", text, legend))
    return found


def confusion_figures(facts: RunFacts) -> list[Figure]:
    """A matrix of counts for each domain whose test classes are known, or some of which an audit asked for."""
    names, measured = count_confusions({role: {"confusion": table} for role, table in facts.confusions.items()})
    found = []
    for role, counts in measured.items():
        right = int(np.trace(counts))
        which = "held-out samples" if facts.result.get(role) else "samples labeled for the audit"
        text = f"{right:,} of {counts.sum():,} {which} are right. Rows are true classes, columns predicted ones."
        worst = [
            f"{names[t]} taken for {names[p]} ({n} of {counts[t].sum()})" for t, p, n, _ in top_confusions(counts, 3)
        ]
        text += f" Most frequent mistakes: {'; '.join(worst)}." if worst else ""
        drawn = matrix(counts, names, numbers=len(names) <= MOST_NUMBERS)
        found.append(Figure(drawn, f"Domain {ROLES[role]}, {role}", text))
    return found


def confidence_figures(answers: Answers, source: Mapping[str, str]) -> list[Figure]:
    """Reliability and risk-coverage curves; `source` says for each domain where its labels come from."""
    answers = {role: answer for role, answer in answers.items() if len(answer[0])}
    if not answers:
        return []
    reliable, selective, said = [], [], []
    for role, (confidence, right) in answers.items():
        x, y, weights, gap = reliability(confidence, right)
        named = f"domain {ROLES[role]} ({source[role]})"
        reliable.append(Line(named, [(x, y)], DOMAIN_COLOURS[role], sizes=(2 + 7 * np.sqrt(weights)).tolist()))
        selective.append(Line(named, [risk_coverage(confidence, right)], DOMAIN_COLOURS[role]))
        means = f"mean confidence {confidence.mean():.0%}, right {right.mean():.0%}"
        said.append(f"{ROLES[role]}: {means}, calibration error {percent(gap)}")
    scale: Any = {"y": (0.0, 1.0), "shares": (True, True)}
    return [
        Figure(
            line_chart(reliable, "confidence", diagonal=True, **scale),
            "Reliability: is 90% sure 90% right?",
            "Accuracy at each confidence, larger dots for more samples; on the dashed line confidence can be taken at "
            f"its word. {'. '.join(said)}.",
            _legend(reliable),
        ),
        Figure(
            line_chart(selective, "share answered, most confident first", shares=(True, True)),
            "Risk and coverage",
            "Wrong answers among those given, if only the most confident ones are.",
            _legend(selective),
        ),
    ]


def share_figures(facts: RunFacts, height: float = HEIGHT) -> list[Figure]:
    """The classes' shares: A's labels, B's predictions, and B's labels where some are known."""
    if not facts.check:
        return []
    shares = facts.check["class_shares"]
    bars = [("A: labels", "var(--a)", shares["labels"]), ("B: predicted", "var(--b)", shares["predicted"])]
    confusion = facts.result.get("unlabeled", {}).get("confusion")
    if facts.audit:
        audited = {name: part["value"] for name, part in facts.audit["class_shares"].items()}
        bars.append((f"B: labels of the audit ({facts.audit['n']})", "var(--ink)", audited))
    elif confusion:
        counts = {name: sum(row.values()) for name, row in confusion.items()}
        total = sum(counts.values())
        bars.append((f"B: labels held out ({total})", "var(--ink)", {n: c / total for n, c in counts.items()}))
    difference = {name: abs(shares["predicted"][name] - shares["labels"][name]) for name in shares["labels"]}
    order = list(shares["labels"])
    if len(order) > MOST_CLASSES:
        order = sorted(order, key=lambda name: -difference[name])[:MOST_CLASSES]
    drawn = bar_chart(order, [(c, [values.get(name, 0.0) for name in order]) for _, c, values in bars], height=height)
    text = f"{percent(shares['distance'], 0)} of B's samples would have to be predicted otherwise for equal shares."
    text += f" The {MOST_CLASSES} classes that differ most." if len(order) < len(difference) else ""
    return [Figure(drawn, "Class proportions", text, [(name, c, "square") for name, c, _ in bars])]


def reliability(confidence: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Mean confidence, accuracy and share of the bins that hold samples, and the expected calibration error."""
    number = np.minimum((confidence * BINS).astype(int), BINS - 1)
    bins = [number == b for b in range(BINS) if (number == b).any()]
    x = np.array([confidence[chosen].mean() for chosen in bins])
    y = np.array([right[chosen].mean() for chosen in bins])
    weights = np.array([chosen.mean() for chosen in bins])
    return x, y, weights, float((weights * np.abs(x - y)).sum())


def risk_coverage(confidence: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares answered, and the share of wrong answers among the so many most confident samples."""
    wrong = ~right[np.argsort(-confidence, kind="stable")]
    n = np.arange(1, len(wrong) + 1)
    first, step = min(FEWEST, len(n)) - 1, max(len(n) // 200, 1)
    return (n / len(n))[first::step], (wrong.cumsum() / n)[first::step]


def _pieces(facts: RunFacts, metric: str) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(curve.steps.astype(np.float64), curve.mean) for curve in curves([facts.metrics], metric)]


def _marks(facts: RunFacts) -> list[tuple[float, str]]:
    starts = stage_starts([facts.metrics])
    return [(float(step), name) for name, step in starts.items()] if len(starts) > 1 else []


def _legend(lines: list[Line]) -> list[tuple[str, str, str]]:
    return [(line.name, line.colour, "dash" if line.dashed else "line") for line in lines]

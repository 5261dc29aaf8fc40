"""Do the audit's intervals cover, and does its bound on the risk hold? Redraws of audits on finished runs.

    unihssl demo --seeds 3 --out DEMO && unihssl demo --seeds 3 --reverse --out DEMO
    unihssl benchmark digits --pairs mnist/uci,uci/mnist --methods mcc --seeds 3 --out GRID
    python audit.py DEMO --json ../results/audit/digits.json && python audit.py GRID --json ../results/audit/digits.json

The truth is known: all labels of the unlabeled domain. An audit sees the labels of its own sample only.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from common import report
from scipy.stats import binomtest, hypergeom

import unihssl
from unihssl.data.catalog.digits import embedded_digits
from unihssl.evaluation.audit import audit_answer, draw_sample, risk_answer, temper
from unihssl.evaluation.audit_run import REFERENCE, audited_domain
from unihssl.pipeline.settings import settings_of
from unihssl.run_folder import RunFolder

RISKS = (0.05, 0.1, 0.2)


def calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int = 15) -> float:
    """Expected calibration error, bins of equal width."""
    confidence, right = probabilities.max(1), probabilities.argmax(1) == labels
    gaps = np.bincount(np.minimum((confidence * bins).astype(int), bins - 1), weights=confidence - right)
    return float(np.abs(gaps).sum() / len(labels))


def holds(interval: dict[str, float], truth: float) -> bool:
    return interval["low"] <= truth <= interval["high"]


def redraw(probabilities: np.ndarray, labels: np.ndarray, n: int, rng: np.random.Generator) -> dict[str, float]:
    """One audit of `n` labels, against the truth."""
    rows = draw_sample(len(labels), n, rng)
    confidence, wrong = probabilities.max(1), probabilities.argmax(1) != labels
    classes = range(probabilities.shape[1])
    reference = confidence[np.linspace(0, len(labels) - 1, REFERENCE).astype(int)]
    answer = audit_answer(probabilities[rows], labels[rows], classes, reference, RISKS[0])
    wilson = binomtest(int((~wrong[rows]).sum()), n).proportion_ci(0.95, method="wilson")
    rest = np.setdiff1d(np.arange(len(labels)), rows)
    by_class = {name: 1 - wrong[labels == int(name)].mean() for name in answer["class_accuracy"]}
    shares = [answer["class_shares"][str(c)] for c in classes]
    true_shares = [(labels == c).mean() for c in classes]
    found: dict[str, float] = {
        "covered": holds(answer["accuracy"], 1 - wrong.mean()),
        "covered (Wilson)": wilson.low <= 1 - wrong.mean() <= wilson.high,
        "width": answer["accuracy"]["high"] - answer["accuracy"]["low"],
        "classes covered": np.mean([holds(answer["class_accuracy"][c], t) for c, t in by_class.items()] or np.nan),
        "shares covered": np.mean([holds(s, t) for s, t in zip(shares, true_shares, strict=True)]),
        "ECE before": calibration_error(probabilities[rest], labels[rest]),
        "ECE after": calibration_error(temper(probabilities[rest], answer["temperature"]), labels[rest]),
    }
    for risk in RISKS:
        threshold = risk_answer(answer, risk)["threshold"]
        answered = confidence >= (np.inf if threshold is None else threshold)
        found[f"violated {risk:.0%}"] = bool(answered.any()) and wrong[answered].mean() > risk
        found[f"shown {risk:.0%}"] = threshold is not None
        found[f"answered {risk:.0%}"] = answered.mean()
    return found


def exact_coverage(n: int, method: str, size: int = 2000) -> dict[str, Any]:
    """How often an interval covers, computed: samples of `n` of a finite domain, accuracies from 30% to 100%."""
    intervals = [binomtest(k, n).proportion_ci(0.95, method=method) for k in range(n + 1)]
    low, high = np.array([(i.low, i.high) for i in intervals]).T
    right = np.arange(int(0.3 * size), size)[:, None]
    chance = hypergeom.pmf(np.arange(n + 1), size, right, n)
    covered = (chance * ((low <= right / size) & (right / size <= high))).sum(1)
    return {"n": n, "interval": method, "least": float(covered.min()), "mean": float(covered.mean())}


def predict_domain(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The probabilities of the whole unlabeled domain (N, C) and its true classes (N,)."""
    folder, model = RunFolder(path), unihssl.load(path)
    pair = folder.read_purpose().get("pair")
    given = (
        None if pair else embedded_digits("mnist" if path.name.startswith("reverse") else "uci")
    )  # the demo's arrays
    domain, store = model.decode(audited_domain(folder, model, settings_of(folder), given), "unlabeled")
    return model.probabilities(model.predict_store(store)), domain.labels


def audit_run(path: Path, sizes: list[int], redraws: int) -> list[dict[str, Any]]:
    """Means over the redraws on one run, for each size of the sample."""
    folder = RunFolder(path)
    pair, settings = folder.read_purpose().get("pair"), settings_of(folder)
    name = f"{pair} {settings.method} {settings.seed}" if pair else path.name
    probabilities, labels = predict_domain(path)
    accuracy = float((probabilities.argmax(1) == labels).mean())
    rows = []
    for n in sizes:
        rng = np.random.default_rng(0)
        found = [redraw(probabilities, labels, n, rng) for _ in range(redraws)]
        means = {name: float(np.nanmean([row[name] for row in found])) for name in found[0]}
        rows.append({"run": name, "n": n, "accuracy": accuracy} | means)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="folder of finished runs")
    parser.add_argument("--labels", type=int, nargs="+", default=[50, 100, 200], help="sizes of the sample")
    parser.add_argument("--redraws", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    paths = sorted(path.parent for path in arguments.runs.glob("*/result.json"))
    rows = [row for path in paths for row in audit_run(path, arguments.labels, arguments.redraws)]
    intervals = [exact_coverage(n, method) for n in arguments.labels for method in ("exact", "wilson")]
    report("coverage of intervals", intervals, arguments)
    report(f"audit, {arguments.runs.name}", sorted(rows, key=lambda row: (row["n"], row["run"])), arguments)

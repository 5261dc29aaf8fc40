"""How often the warnings about the unlabeled domain are right, counted on finished runs whose labels are known.

    python benchmarks/unlabeled_check.py results

A run has failed if its accuracy on the unlabeled domain is below 0.6 of that on the labeled one. Runs kept without
their models have no confidences: of the rule that needs them only the other half, domains told no better than chance,
is counted. Test samples stand in for the training samples that a run looks at.
"""

import sys
from pathlib import Path
from typing import Any

from unihssl.evaluation.collapse_check import FAR
from unihssl.evaluation.unlabeled_check import total_variation
from unihssl.experiments.results import find_runs
from unihssl.report.answer import FAILED


def distance(result: dict[str, Any]) -> float:
    """Between the classes predicted in the unlabeled domain and the labeled domain's, by total variation."""
    rows = result["unlabeled"]["confusion"].values()
    true = {name: sum(row.values()) for name, row in result["labeled"]["confusion"].items()}
    names = {*true, *(name for row in rows for name in row)}
    predicted = {name: sum(row.get(name, 0) for row in rows) for name in names}
    shares = [{name: counts.get(name, 0) / sum(counts.values()) for name in names} for counts in (predicted, true)]
    return total_variation(*shares)


def at_chance(result: dict[str, Any]) -> bool:
    """Whether the domain is told no better than by always naming the larger one."""
    sizes = result["labeled"]["n"], result["unlabeled"]["n"]
    return "domain_accuracy" in result and result["domain_accuracy"] <= max(sizes) / sum(sizes) + 0.05


def main(folder: Path) -> None:
    results = [run.read_result() for run in find_runs(folder)]
    results = [r for r in results if "confusion" in r.get("unlabeled", {})]
    rules = {
        "classes that are not predicted (the warning that the run gave)": lambda r: bool(r["warnings"]),
        f"class shares further than {FAR}": lambda r: distance(r) > FAR,
        "either": lambda r: bool(r["warnings"]) or distance(r) > FAR,
        "domain told at chance (alone no warning)": at_chance,
    }
    failed = [r["unlabeled"]["accuracy"] < FAILED * r["labeled"]["accuracy"] for r in results]
    print(f"{len(results)} runs, {sum(failed)} failed")
    for name, rule in rules.items():
        warned = [rule(r) for r in results]
        hits = sum(w and f for w, f in zip(warned, failed, strict=True))
        false = [r["unlabeled"]["accuracy"] for r, w, f in zip(results, warned, failed, strict=True) if w and not f]
        span = f", whose accuracy is {min(false):.2f} to {max(false):.2f}" if false else ""
        print(f"{name}: {hits} found, {sum(failed) - hits} missed, {len(false)} false alarms{span}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

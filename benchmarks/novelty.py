"""Does novelty tell images of classes that no training image had? AUROC against known test images, beside confidence.

    python novelty.py mnist/uci uci/mnist --methods unihssl supervised --seeds 3 --json ../results/novelty/digits.json
    python novelty.py photo/cartoon --features FEATURES --seeds 3 --json ../results/novelty/features.json

Seed s leaves the classes 2s and 2s + 1 out of both domains. Known images are the run's test images, unknown ones all
images of these two classes, in each domain. `FEATURES` has an .npz with `x` (N, D) and `y` for each domain.
"""

import argparse
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from common import report
from sklearn.metrics import roc_auc_score

import unihssl
from unihssl.data.catalog.digits import embedded_digits
from unihssl.run_folder import RunFolder

Arrays = tuple[np.ndarray, np.ndarray]


def load(domain: str, features: Path | None) -> Arrays:
    if features is None:
        return embedded_digits(domain)
    saved = np.load(features / f"{domain}.npz")
    return saved["x"], saved["y"]


def run(pair: str, method: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """AUROC of novelty and of one minus the confidence, in percent, and the share that `unknown_above=99` marks."""
    domains = dict(zip(("labeled", "unlabeled"), (load(d, arguments.features) for d in pair.split("/")), strict=True))
    left_out = np.unique(domains["labeled"][1])[2 * seed : 2 * seed + 2]
    known = {role: (x[~np.isin(y, left_out)], y[~np.isin(y, left_out)]) for role, (x, y) in domains.items()}
    with tempfile.TemporaryDirectory() as out:
        settings = {"tensorboard": False, "device": "cpu", "max_steps": arguments.steps, "seed": seed}
        settings |= {} if arguments.features else {"backbone": "small_cnn"}
        model = unihssl.fit(known["labeled"], known["unlabeled"], out, method=method, **settings)
        split = RunFolder(out).read_split()
    row: dict[str, Any] = {"pair": pair, "method": method, "left out": ", ".join(map(str, left_out)), "seed": seed}
    row |= {"accuracy": 100 * model.result["pooled"]["accuracy"]}
    scores: dict[str, list[np.ndarray]] = {"novelty": [], "confidence": []}
    unknown: list[np.ndarray] = []
    for role, (x, y) in domains.items():
        tested = known[role][0][np.array(split[role]["test"], dtype=int)]
        new = x[np.isin(y, left_out)]
        found = model.predictions(np.concatenate([tested, new]))
        scores["novelty"].append(found.novelty)
        scores["confidence"].append(1 - model.probabilities(found).max(1))
        unknown.append(np.arange(len(tested) + len(new)) >= len(tested))
        row |= {f"{name}, {role}": 100 * roc_auc_score(unknown[-1], score[-1]) for name, score in scores.items()}
    is_unknown, novelty = np.concatenate(unknown), np.concatenate(scores["novelty"])
    row |= {name: 100 * roc_auc_score(is_unknown, np.concatenate(score)) for name, score in scores.items()}
    for above in (95, 99):
        marked = novelty > above
        row |= {f"known > {above}": 100 * marked[~is_unknown].mean(), f"new > {above}": 100 * marked[is_unknown].mean()}
    return row


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="+", help="LABELED/UNLABELED")
    parser.add_argument("--methods", nargs="+", default=["unihssl"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="at most, for each stage; 0: as the recipe says")
    parser.add_argument("--features", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    for pair, method in product(arguments.pairs, arguments.methods):
        rows = [run(pair, method, seed, arguments) for seed in range(arguments.seeds)]
        means = {k: float(np.mean([r[k] for r in rows])) for k, v in rows[0].items() if isinstance(v, float)}
        report(f"{pair} {method}", [*rows, {"pair": "mean"} | means], arguments)

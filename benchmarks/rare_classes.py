"""What do the options for rare classes do? Digits whose labeled classes are thinned to 1 in 20, by option.

    python rare_classes.py --seeds 3 --json ../results/label-shift/rare_labels.json

The classes of the labeled domain are thinned geometrically, before it is split; so its test digits are thinned alike.
The unlabeled domain keeps all its digits. Macro F1 counts every class alike. What is in the file is not run again.
"""

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from common import report

import unihssl
from unihssl.data.catalog.digits import embedded_digits

OPTIONS: dict[str, dict[str, Any]] = {
    "none": {"sampling": "shuffle"},
    "class_weight=balanced": {"class_weight": "balanced"},
    "class_weight=logit_adjust": {"class_weight": "logit_adjust"},
    "sampling=balanced": {"sampling": "balanced"},
}
PARTS = ("pooled", "labeled", "unlabeled")


def thinned(x: np.ndarray, y: np.ndarray, ratio: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The first class whole, the last to one in `ratio`, those between geometrically."""
    rng, classes = np.random.default_rng(seed), np.unique(y)
    rows = []
    for place, one in enumerate(classes):
        mine = rng.permutation(np.flatnonzero(y == one))
        rows.append(mine[: max(2, round(len(mine) * ratio ** (-place / (len(classes) - 1))))])
    kept = np.sort(np.concatenate(rows))
    return x[kept], y[kept]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", nargs="+", default=["mnist/uci", "uci/mnist"])
    parser.add_argument("--methods", nargs="+", default=["unihssl", "supervised"])
    parser.add_argument("--ratio", type=float, default=20.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    finished = json.loads(arguments.json.read_text()) if arguments.json and arguments.json.exists() else {}
    rows: dict[str, list[dict[str, Any]]] = {name: of["rows"] for name, of in finished.items()}
    for seed, pair, method, option in product(range(arguments.seeds), arguments.pairs, arguments.methods, OPTIONS):
        name = f"{method} {pair}, {option}"
        if any(row["seed"] == seed for row in rows.setdefault(name, [])):
            continue
        (x, y), unlabeled = map(embedded_digits, pair.split("/"))
        knobs: dict[str, Any] = {"backbone": "small_cnn", "flip": False, "threads": 1, "seed": seed} | OPTIONS[option]
        made = unihssl.fit(thinned(x, y, arguments.ratio, seed), unlabeled, method=method, verbose=False, **knobs)
        row = {f"macro F1, {part}": round(100 * made.result[part]["macro_f1"], 1) for part in PARTS}
        row |= {f"accuracy, {part}": round(100 * made.result[part]["accuracy"], 1) for part in PARTS}
        rows[name].append({"seed": seed} | row)
        report(name, rows[name], arguments)

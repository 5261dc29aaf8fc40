"""How far are exported files from PyTorch, and what does int8 save? Untrained networks, real digits.

    python export.py --json ../results/export/agreement.json
    python export.py --methods unihssl --backbones resnet50 --json ../results/export/agreement.json

Differences are the largest over 200 digits of both domains (10 in batches of 1 and 2 of large networks) and all
read-outs; those of log-probabilities (of at least 1e-12) are those of logits, but for a constant. Logits are scaled to
a deviation of 3 over digits, and the rows say how many of the 10 classes are predicted: equal answers mean little where
all are alike.
Times of int8 and float files alternate, and only their ratio means anything.
"""

import argparse
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from common import report

from unihssl import Model, methods
from unihssl.export.files import Run, onnx_run
from unihssl.export.int8 import quantize

sys.path.append(str(Path(__file__).parents[1] / "tests" / "export"))
from exported_models import digits, random_model

SMALL = ("small_cnn", "mlp")
REPEATS = 9


def compare(model: Model, run: Run, x: np.ndarray, batch: int) -> dict[str, Any]:
    """The largest differences over all samples and read-outs."""
    parts = [run(x[i : i + batch]) for i in range(0, len(x), batch)]
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    expected = model.predictions(x)
    pairs = [(found["probabilities"], model.probabilities(expected))]
    if len(expected.probabilities) > 1:
        pairs += [(found[f"probabilities_{rule}"], p) for rule, p in expected.probabilities.items()]
    logs = [np.abs(np.log(np.maximum(a, 1e-12)) - np.log(np.maximum(b, 1e-12))).max() for a, b in pairs]
    same = all((a.argmax(1) == b.argmax(1)).all() for a, b in pairs)
    if expected.unlabeled_domain is not None:
        pairs.append((found["unlabeled_domain"], expected.unlabeled_domain))
    shares = [np.abs(a - b).max() for a, b in pairs]
    predicted = len(set(expected.classes.tolist()))
    found_here = {"samples": len(x), "batch": batch, "classes": predicted}
    return found_here | {"p": float(max(shares)), "log p": float(max(logs)), "same answers": bool(same)}


def agreement(method: str, backbone: str, folder: Path) -> list[dict[str, Any]]:
    """The rows of one exported model."""
    model, path = random_model(method, backbone), folder / "model.onnx"
    model.export(path)
    run, x = onnx_run(path), digits(200, vectors=backbone == "mlp")
    counts = dict.fromkeys((1, 2, 5), 200) if backbone in SMALL else {1: 10, 2: 10, 5: 200}
    named = {"method": method, "backbone": backbone}
    return [named | compare(model, run, x[:count], batch) for batch, count in counts.items()]


def int8(backbone: str, folder: Path) -> dict[str, Any]:
    """Size and time of an int8 file, relative to the float one."""
    exact, small, x = folder / "float.onnx", folder / "int8.onnx", digits(16)
    random_model("supervised", backbone).export(exact)
    quantize(exact, small, x)
    times: dict[Path, list[float]] = {exact: [], small: []}
    runs = {path: onnx_run(path) for path in times}
    for _ in range(REPEATS):
        for path, run in runs.items():
            begin = time.perf_counter()
            run(x[:4])
            times[path].append(time.perf_counter() - begin)
    ratios = [a / b for a, b in zip(times[small], times[exact], strict=True)]
    sizes = [path.stat().st_size for path in (small, exact)]
    return {"backbone": backbone, "size": round(sizes[0] / sizes[1], 2), "time": round(median(ratios), 2)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=list(methods.available()))
    parser.add_argument("--backbones", nargs="+", default=["small_cnn"])
    parser.add_argument("--int8", nargs="*", default=[], metavar="BACKBONE", help="compare size and time of int8 files")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for method, backbone in product(arguments.methods, arguments.backbones):
            report(f"{method} on {backbone}", agreement(method, backbone, Path(folder)), arguments)
        for backbone in arguments.int8:
            report(f"int8, {backbone}, batches of 4", [int8(backbone, Path(folder))], arguments)

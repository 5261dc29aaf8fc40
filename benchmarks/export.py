"""How far are exported files from PyTorch, and what does int8 save? Networks with random weights, real digits.

    python export.py --json ../results/export/agreement.json

Every method with `small_cnn`, and several backbones. Differences are the largest over 200 digits of both domains (for
large networks fewer, in batches of 1 and 2), all read-outs and batches of 1, 2 and 5; those of log-probabilities are
those of logits, but for a constant. Times of int8 and float files alternate, and only their ratio means anything.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from common import report
from torch import nn

from unihssl import Model, methods
from unihssl.data.catalog.digits import embedded_digits
from unihssl.export.files import Run, onnx_run
from unihssl.export.int8 import quantize
from unihssl.methods.recipe import resolve
from unihssl.models.backbones import EncoderFactory

BACKBONES = ("resnet18", "resnet50", "vit_tiny_patch16_224")
REPEATS = 9


def digits(count: int) -> np.ndarray:
    """Digits of both domains, RGB (N, 16, 16, 3)."""
    grey = np.concatenate([embedded_digits(name)[0][: count // 2] for name in ("mnist", "uci")])
    return np.repeat(grey[..., None], 3, axis=3)[np.random.default_rng(0).permutation(count)]


def random_model(method: str, backbone: str) -> Model:
    """A model with random weights and BatchNorm statistics."""
    torch.manual_seed(0)
    params = resolve({"method": method, "backbone": backbone, "weights": "none"})[1]
    encoders = EncoderFactory(backbone, "none", 768 if backbone == "mlp" else 0)
    network = methods.get(method).build_network(encoders, 10, params)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 2)
    return Model(method, params, network, encoders.architecture, list(range(10)), (16, 16))


def compare(model: Model, run: Run, x: np.ndarray, batch: int) -> dict[str, Any]:
    """The largest differences over all samples and read-outs."""
    parts = [run(x[i : i + batch]) for i in range(0, len(x), batch)]
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    expected = model.predictions(x)
    pairs = [(found["probabilities"], model.probabilities(expected))]
    if len(expected.probabilities) > 1:
        pairs += [(found[f"probabilities_{rule}"], p) for rule, p in expected.probabilities.items()]
    if expected.unlabeled_domain is not None:
        pairs.append((found["unlabeled_domain"], expected.unlabeled_domain))
    logs = [np.abs(np.log(a) - np.log(b)).max() for a, b in pairs]
    same = all((a.argmax(1) == b.argmax(1)).all() for a, b in pairs if a.ndim == 2)
    return {"samples": len(x), "batch": batch, "log p": float(max(logs)), "same classes": bool(same)}


def agreement(method: str, backbone: str, folder: Path) -> list[dict[str, Any]]:
    """The rows of one exported model."""
    model, path = random_model(method, backbone), folder / "model.onnx"
    model.export(path)
    run, x = onnx_run(path), digits(200)
    if backbone == "mlp":
        x = x.reshape(200, -1).astype(np.float32) / 255
    counts = {1: 10, 2: 10, 5: 200} if backbone in BACKBONES else dict.fromkeys((1, 2, 5), 200)
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
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    cases = [(name, "small_cnn") for name in methods.available()] + [("unihssl", "mlp")]
    cases += [("unihssl", backbone) for backbone in BACKBONES]
    with tempfile.TemporaryDirectory() as folder:
        for method, backbone in cases:
            report(f"{method} on {backbone}", agreement(method, backbone, Path(folder)), arguments)
        report("int8 against float, batches of 4", [int8(name, Path(folder)) for name in BACKBONES[:2]], arguments)

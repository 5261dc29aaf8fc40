"""How far are exported files from PyTorch, and what does int8 save?

    python export.py --backbones small_cnn mlp --json ../results/export/agreement.json
    python export.py --backbones resnet50 --weights resnet50.safetensors --images PACS/photo PACS/art_painting
    python export.py --methods --runs RUN ... --json ../results/export/agreement.json

Networks are those of runs, on training samples of both domains, or have random heads, on digits of both domains or
on images; their heads are scaled to logits with a deviation of 3, so that all classes are predicted: equal answers mean
little where all are alike. Files are used in a process without PyTorch. Differences are the largest over all samples,
heads and read-outs. Logits are taken before each head's softmax, inside the file, and in PyTorch while it predicts;
float64 is the same network in PyTorch, and tells how much of a difference is rounding.
Times of int8 and float files alternate, and only their ratio means anything.
"""

import argparse
import copy
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
import torch
from common import report
from torch import nn

from unihssl import Model, export_run, load, methods
from unihssl.data.images import load_square
from unihssl.evaluation.samples import training_samples
from unihssl.export.files import onnx_run
from unihssl.export.int8 import quantize
from unihssl.pipeline.settings import settings_of
from unihssl.run_folder import RunFolder

sys.path.append(str(Path(__file__).parents[1] / "tests" / "export"))
from exported_models import digits, random_model

BATCHES = (1, 2, 5)
REPEATS = 9
Arrays = dict[str, np.ndarray]


def heads(network: nn.Module) -> dict[str, nn.Linear]:
    """Heads by the name that their bias has in an exported file."""
    parts = network.named_modules(prefix="network")
    return {f"{name}.bias": part for name, part in parts if name.endswith("head") and isinstance(part, nn.Linear)}


WITHOUT_TORCH = """
import sys
sys.modules.update(torch=None, unihssl=None)
import numpy as np, onnxruntime
path, given, out, batch = sys.argv[1:]
session, x, batch = onnxruntime.InferenceSession(path), np.load(given), int(batch)
names = [output.name for output in session.get_outputs()]
(first,) = session.get_inputs()
parts = [session.run(None, {first.name: x[i : i + batch]}) for i in range(0, len(x), batch)]
np.savez(out, **{name: np.concatenate(of) for name, of in zip(names, zip(*parts))})
"""


def in_batches(path: Path, x: np.ndarray, batch: int) -> Arrays:
    """What an exported file gives, and each head's logits, in a process without PyTorch."""
    content, wanted = onnx.load(path), path.with_suffix(".logits.onnx")
    named = {each: node.output[0] for node in content.graph.node for each in node.input if each.endswith("head.bias")}
    content.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in named.values())
    onnx.save(content, wanted)
    given, out = path.with_suffix(".npy"), path.with_suffix(".npz")
    np.save(given, x)
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH, wanted, given, out, str(batch)], check=True)
    with np.load(out) as arrays:
        found = dict(arrays)
    return found | {bias: found[name] for bias, name in named.items()}


def logits_of(network: nn.Module, call: Callable[[], Any]) -> tuple[Arrays, Any]:
    """What each head gives during a call, and what the call returns."""
    seen = defaultdict(list)
    hooks = [
        head.register_forward_hook(lambda _, given, found, name=name: seen[name].append(found.numpy(force=True)))
        for name, head in heads(network).items()
    ]
    result = call()
    for hook in hooks:
        hook.remove()
    return {name: np.concatenate(parts) for name, parts in seen.items()}, result


def exact_logits(model: Model, x: np.ndarray) -> Arrays:
    """In float64."""
    network = copy.deepcopy(model.network).cpu().double().eval()

    @torch.inference_mode()
    def call() -> None:
        for i in range(0, len(x), 20):
            pixels = model.views.test(torch.from_numpy(x[i : i + 20])).double()
            methods.get(model.method).output(network, pixels, model.params)

    return logits_of(network, call)[0]


def furthest(found: Arrays, expected: Arrays) -> float:
    assert expected
    return max(float(np.abs(found[name] - numbers).max()) for name, numbers in expected.items())


def agreement(model: Model, x: np.ndarray, folder: Path) -> list[dict[str, Any]]:
    """The rows of one exported model."""
    path = folder / "model.onnx"
    model.export(path)
    exact = exact_logits(model, x)
    logits, predictions = logits_of(model.network, lambda: model.predictions(x))
    expected = {"probabilities": model.probabilities(predictions)}
    if len(predictions.probabilities) > 1:
        expected |= {f"probabilities_{rule}": p for rule, p in predictions.probabilities.items()}
    answers = {name: p.argmax(1) for name, p in expected.items()}
    if predictions.unlabeled_domain is not None:
        expected["unlabeled_domain"] = predictions.unlabeled_domain
    rows = []
    for batch in BATCHES:
        found = in_batches(path, x, batch)
        rows.append(
            {
                "samples": len(x),
                "batch": batch,
                "classes": len(set(predictions.classes.tolist())),
                "largest logit": max(float(np.abs(of).max()) for of in logits.values()),
                "logits": furthest(found, logits),
                "file - float64": furthest(found, exact),
                "PyTorch - float64": furthest(logits, exact),
                "p": furthest(found, expected),
                "same answers": all((found[name].argmax(1) == of).all() for name, of in answers.items()),
            }
        )
    return rows


def samples_of(folder: RunFolder, model: Model, count: int) -> np.ndarray:
    """Training samples of both domains of a run."""
    parts = (
        training_samples(folder, role, model, settings_of(folder), None, count // 2)
        for role in ("labeled", "unlabeled")
    )
    return np.concatenate(list(parts))


def read_images(folders: list[Path], count: int) -> np.ndarray:
    """The same number of images of each folder (N, 256, 256, 3), spread over it."""
    files = [sorted(path for path in folder.rglob("*") if path.is_file()) for folder in folders]
    each = count // len(files)
    chosen = [of[i * len(of) // each] for of in files for i in range(each)]
    return np.stack([load_square(path, 256, 256) for path in chosen])


def int8(named: str, folder: Path) -> dict[str, Any]:
    """Size and time of an int8 file, relative to the float one; of a run also the accuracies on held-out samples."""
    exact, small, x, row = folder / "float.onnx", folder / "int8.onnx", digits(16), {"model": named}
    if Path(named).is_dir():
        model = load(named)
        model.export(exact)
        found = export_run(named, small, int8=True, max_loss=100.0)["int8"]
        x = samples_of(RunFolder(named), model, 16)
        row = {"model": f"{model.method} on {model.architecture.name}"}
        row |= {f"{role}, {kind}": of[kind] for role, of in found.items() for kind in ("n", "float", "int8")}
    else:
        random_model("supervised", named).export(exact)
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
    return row | {"size": round(sizes[0] / sizes[1], 2), "time": round(median(ratios), 2)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="*", default=list(methods.available()))
    parser.add_argument("--backbones", nargs="+", default=["small_cnn"])
    parser.add_argument("--weights", default="none", help="file of the backbone's weights")
    parser.add_argument("--images", nargs="+", type=Path, default=[], help="folders, in place of digits")
    parser.add_argument("--runs", nargs="*", type=Path, default=[], help="trained models")
    parser.add_argument(
        "--int8", nargs="*", default=[], metavar="NAME", help="backbones or runs: size and time of int8"
    )
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for method, backbone in product(arguments.methods, arguments.backbones):
            x = digits(arguments.samples, vectors=backbone == "mlp")
            if arguments.images:
                x = read_images(arguments.images, arguments.samples)
            rows = agreement(random_model(method, backbone, weights=arguments.weights, x=x), x, Path(folder))
            named = "" if arguments.weights == "none" else f", {Path(arguments.weights).name}"
            report(f"{method} on {backbone}{named}", rows, arguments)
        for run in arguments.runs:
            model = load(run, device="cpu")
            rows = agreement(model, samples_of(RunFolder(run), model, arguments.samples), Path(folder))
            report(f"{model.method} on {model.architecture.name}, trained", rows, arguments)
        for named in arguments.int8:
            row = int8(named, Path(folder))
            report(f"int8, {row['model']}, batches of 4", [row], arguments)

"""The export of a trained model: what its file holds beside the network."""

import copy
from pathlib import Path
from typing import Any

import numpy as np

from unihssl import methods
from unihssl.data.intensity import saved_windows
from unihssl.errors import UserError
from unihssl.evaluation.model import Model
from unihssl.export.graph import InferenceGraph
from unihssl.version import __version__

AUDIT = ("temperature", "labeled_temperature", "threshold", "max_risk", "delta")  # what predictions need of an audit
CHECKED = 3  # samples of each kind that a written file is compared with PyTorch on


def export_model(model: Model, path: Path, samples: np.ndarray | None = None) -> dict[str, Any]:
    """Write a model as ONNX or, by the suffix .pt2, for `torch.export.load`; returns the metadata.

    The file is checked on random samples, and on the first of `samples` (N, ...), decoded ones, if there are any.
    """
    from unihssl.export.files import write_onnx, write_pt2

    writers = {".onnx": write_onnx, ".pt2": write_pt2}
    if path.suffix not in writers:
        raise UserError(f"{path}: exported models end in .onnx or .pt2")
    if path.is_dir():
        raise UserError(f"{path}: is a folder; name a file in it")
    metadata = describe(model)
    check = random_samples(model, CHECKED)
    if samples is not None:
        check = np.concatenate([check, samples[:CHECKED]])
    writers[path.suffix](path, inference_graph(model), check, metadata)
    return metadata


def inference_graph(model: Model) -> InferenceGraph:
    """A copy of the model on the CPU, from decoded samples to outputs by name."""
    network = copy.deepcopy(model.network).cpu().eval().requires_grad_(False)
    method, views = methods.get(model.method), model.views
    size = None if model.architecture.takes_vectors else model.stored_size
    return InferenceGraph(network, method, model.params, views, model.rule, size, model.audited)


def describe(model: Model) -> dict[str, Any]:
    """All that a user of the file needs to know, as JSON values."""
    architecture, audit = model.architecture, model.audited
    vectors = architecture.takes_vectors
    return {
        "unihssl_version": __version__,
        "method": model.method,
        "backbone": architecture.name,
        "rule": model.rule,
        "classes": model.classes_.tolist(),
        "input": "vectors" if vectors else "images",
        "stored_size": None if vectors else list(model.stored_size),  # height, width
        "channels": None if vectors else architecture.channels,
        "windows": {
            role: saved_windows(found) for role, found in model.windows.items()
        },  # of images of more than 8 bits
        "vector_size": architecture.vector_size or None,
        "mean": None if vectors else architecture.mean,
        "std": None if vectors else architecture.std,
        "audit": None if audit is None else {key: audit[key] for key in AUDIT},
        "data": model.data,
        "int8": None,
    }


def random_samples(model: Model, count: int) -> np.ndarray:
    """Samples of the kind that the model takes."""
    rng = np.random.default_rng(0)
    if model.architecture.takes_vectors:
        return rng.normal(size=(count, model.architecture.vector_size)).astype(np.float32)
    return rng.integers(0, 256, (count, *model.stored_size, model.architecture.channels), dtype=np.uint8)

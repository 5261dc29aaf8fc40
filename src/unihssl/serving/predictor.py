"""What the service answers from: a run folder, or an exported ONNX file alone."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unihssl import methods
from unihssl.data.intensity import candidates, loaded_windows
from unihssl.data.rendering import Rendering
from unihssl.errors import UserError
from unihssl.evaluation.export_model import describe
from unihssl.evaluation.model import Model, load_model
from unihssl.evaluation.nearest import TrainingImages, training_images
from unihssl.export.graph import InferenceGraph
from unihssl.models.classifier import Classifier, record_features
from unihssl.report.heat import heat_maps, last_feature_map
from unihssl.report.pictures import overlay

NEAREST = 3  # training images shown beside an answer
NEEDED = {"classes", "stored_size", "input", "audit"}


@dataclass(frozen=True)
class Predictor:
    """A model behind two functions of decoded images (N, H, W, C) uint8."""

    about: Mapping[str, Any]  # the metadata of an exported file
    rendering: Rendering  # how images are decoded
    run: Callable[[np.ndarray], dict[str, np.ndarray]]  # outputs by name, as exported; novelty, nearest
    heat: Callable[[np.ndarray, np.ndarray], list[np.ndarray]] | None = None  # and classes (N,) to pictures (h, w, 3)
    training: TrainingImages | None = None  # what rows of the output `nearest` are of, if that may be shown

    @property
    def classes(self) -> list[str]:
        return [str(name) for name in self.about["classes"]]


def open_predictor(path: Path, device: str = "auto", *, nearest: bool = True) -> Predictor:
    """The model of a run folder, or of an .onnx file; `nearest` lets it show training images."""
    return _of_onnx(path) if path.suffix == ".onnx" else _of_model(path, load_model(path, device), nearest)


def _of_model(path: Path, model: Model, nearest: bool) -> Predictor:
    about = describe(model)
    _refuse_vectors(path, about)
    method = methods.get(model.method)
    training = training_images(model) if nearest else None
    graph = InferenceGraph(model.network, method, model.params, model.views, model.rule, model.audited)

    def run(pixels: np.ndarray) -> dict[str, np.ndarray]:
        with torch.inference_mode(), record_features(model.network) as features:
            outputs = graph(torch.from_numpy(pixels).to(model.device))
            if model.reference:
                outputs["novelty"] = model.reference.novelty(torch.cat(features))
                outputs["nearest"] = model.reference.nearest(torch.cat(features), NEAREST)
        return {name: tensor.numpy(force=True) for name, tensor in outputs.items()}

    return Predictor(about, model.rendering(), run, _heat(model), training)


def _heat(model: Model) -> Callable[[np.ndarray, np.ndarray], list[np.ndarray]] | None:
    """Grad-CAM of one convolutional network; of several it would not be known which one answered."""
    network, shape = model.network, model.rendering().shape
    if not isinstance(network, Classifier):
        return None
    blank = torch.zeros((1, *shape), dtype=torch.uint8, device=model.device)
    layer = last_feature_map(network, model.views.test(blank))
    if layer is None:
        return None
    mean, std = (torch.tensor(of, device=model.device).view(-1, 1, 1) for of in (model.views.mean, model.views.std))

    def heat(pixels: np.ndarray, classes: np.ndarray) -> list[np.ndarray]:
        x = model.views.test(torch.from_numpy(pixels).to(model.device))
        maps = heat_maps(network, layer, x, torch.from_numpy(classes).to(model.device), len(model.classes_))
        seen = (255 * (x * std + mean).clamp(0, 1)).permute(0, 2, 3, 1)
        return list(map(overlay, seen.numpy(force=True), maps.numpy(force=True)))

    return heat


def _of_onnx(path: Path) -> Predictor:
    if not path.is_file():
        raise UserError(f"{path}: no such file; write it with: unihssl export RUN {path}")
    try:
        import onnxruntime
    except ImportError:
        raise UserError("serving an ONNX file needs onnxruntime: pip install 'unihssl[serve]'") from None
    onnxruntime.disable_telemetry_events()  # what it counts is nobody else's business
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # decoding needs the cores, too
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        about = {key: json.loads(text) for key, text in session.get_modelmeta().custom_metadata_map.items()}
    except Exception as error:  # onnxruntime's own kinds, which have no common base
        raise UserError(f"{path}: not a readable ONNX file ({' '.join(str(error).split())[:160]})") from None
    if not about.keys() >= NEEDED:
        raise UserError(f"{path}: was not written by `unihssl export`: its metadata is not there")
    _refuse_vectors(path, about)
    (given,), names = session.get_inputs(), [output.name for output in session.get_outputs()]
    (height, width), windows = about["stored_size"], about.get("windows") or {}
    return Predictor(
        about,
        Rendering((height, width), given.shape[3], candidates([loaded_windows(w) for w in windows.values()])),
        lambda pixels: dict(zip(names, session.run(None, {given.name: pixels}), strict=True)),
    )


def _refuse_vectors(path: Path, about: Mapping[str, Any]) -> None:
    if about["input"] != "images":
        raise UserError(f"{path}: this model takes feature vectors, and only models of images are served")

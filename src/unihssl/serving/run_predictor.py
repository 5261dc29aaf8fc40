"""The predictor of a run folder or of a saved model."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from unihssl import methods
from unihssl.evaluation.export_model import describe
from unihssl.evaluation.load import load_model
from unihssl.evaluation.model import Model
from unihssl.evaluation.nearest import training_images
from unihssl.export.graph import InferenceGraph
from unihssl.models.classifier import Classifier, record_features
from unihssl.report.heat import heat_maps, last_feature_map
from unihssl.report.pictures import overlay
from unihssl.serving.predictor import Predictor, refuse_vectors

NEAREST = 3  # training images shown beside an answer


def run_predictor(path: Path, device: str, nearest: bool) -> Predictor:
    """The predictor of the model in this folder; `nearest` lets it show training images."""
    model = load_model(path, device)
    about = describe(model)
    refuse_vectors(path, about)
    method = methods.get(model.method)
    training = training_images(model) if nearest else None
    graph = InferenceGraph(model.network, method, model.params, model.views, model.rule, None, model.audited)

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

    def heat(pixels: np.ndarray, classes: np.ndarray) -> list[np.ndarray]:
        x = model.views.test(torch.from_numpy(pixels).to(model.device))
        maps = heat_maps(network, layer, x, torch.from_numpy(classes).to(model.device), len(model.classes_))
        return list(map(overlay, model.views.to_look_at(x), maps.numpy(force=True)))

    return heat

"""Reads a saved model, or that of a run. Sizes are checked before anything is allocated, and nothing is executed."""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unihssl import methods
from unihssl.config import Settings, parse_saved
from unihssl.data.intensity import loaded_windows
from unihssl.errors import UserError, resume_call
from unihssl.evaluation.model import Model
from unihssl.evaluation.novelty import Reference
from unihssl.models.backbones import Architecture, pick_device, rebuild_backbone
from unihssl.models.classifier import main_classifier
from unihssl.plain_files import is_folder, is_there
from unihssl.run_folder import RunFolder


def load_model(path: str | Path, device: torch.device | str = "cpu") -> Model:
    """Load a saved model, or the one in a run directory. Nothing in it is executed.

    >>> unihssl.load("runs/first").predict_proba("new_scans").shape
    (3, 2)

    `device` is cpu, cuda, cuda:1, auto (a GPU if there is one), or a torch.device.
    """
    folder = RunFolder(path)
    if isinstance(device, str) and not device.startswith("cuda:"):
        device = pick_device(device)
    if not is_folder(folder.path):
        what = "is a file, not a" if is_there(folder.path) else "no such"
        raise UserError(f"{folder.path}: {what} run directory or saved model")
    if not folder.model.exists():
        if folder.is_finished:
            files = f"{folder.model.name}, {folder.weights.name}"
            raise UserError(f"{folder.path}: this run has finished, but its model is not there ({files})")
        if folder.is_run:
            raise UserError(f"{folder.path}: this run has not finished; resume it with: {resume_call(folder.path)}")
    description = folder.read_model()
    try:
        method = _installed(description["method"], folder)
        (params,) = parse_saved(description["params"], (method.Params,), str(folder.model))
        architecture = Architecture.from_saved(description["architecture"])
        classes, (height, width) = description["classes"], description["stored_size"]
        if not architecture.takes_vectors and min(height, width) < 1:
            raise ValueError("images of no size")
        windows = {role: loaded_windows(found) for role, found in description.get("windows", {}).items()}
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise UserError(
            f"{folder.model}: not the description of a model; use an undamaged copy, or train again"
        ) from None
    network = _network(folder, method, params, architecture, len(classes))
    model = Model(method.name, params, network, architecture, classes, (height, width), device, windows)
    model.result = description.get("result", {})
    model.data = description.get("data", {})
    model.version = description.get("version") or folder.trained_by()
    if folder.is_finished:
        model.result = folder.read_result()
    settings, where = (folder.read_config(), folder.config) if folder.is_run else (None, folder.model)
    (model.settings,) = parse_saved(settings or description.get("settings", {}), (Settings,), str(where))
    model.audited = folder.read_audit()
    model.reference = _read_reference(folder, model)
    model.folder = folder.path.absolute()  # the working folder may change
    return model


def _network(
    folder: RunFolder, method: type[methods.Method[Any]], params: Any, architecture: Architecture, classes: int
) -> nn.Module:
    """The network with its weights. Sizes that the weights do not have are refused before anything is allocated."""
    shapes = folder.weight_shapes()
    misfit = f"{folder.path}: {folder.weights.name} does not fit its {folder.model.name}"
    if architecture.takes_vectors and not any(architecture.vector_size in shape for shape in shapes.values()):
        raise UserError(misfit)
    encoders = []

    def make_encoder() -> tuple[nn.Module, int]:
        try:
            with torch.device("cpu"):
                encoders.append(rebuild_backbone(architecture))
        except UserError as error:
            raise UserError(f"{folder.model}: {error.args[0]}") from None
        return encoders[-1]

    try:
        with torch.device("meta"):  # shapes without memory
            plan = method.build_network(make_encoder, classes, params)
        if {name: tuple(tensor.shape) for name, tensor in plan.state_dict().items()} != shapes:
            raise UserError(misfit)
        network = method.build_network(partial(encoders.pop, 0), classes, params)
        network.load_state_dict(folder.read_weights())
    except (RuntimeError, TypeError, OverflowError):
        raise UserError(misfit) from None
    return network


def _read_reference(folder: RunFolder, model: Model) -> Reference | None:
    saved = folder.read_features()
    if saved is None:
        return None
    classifier = main_classifier(model.network)
    fits = {"features", "distances"} <= saved.keys() and len(saved["features"]) == len(saved["distances"]) > 0
    if not fits or classifier is None or saved["features"].shape[1:] != (classifier.feature_dim,):
        raise UserError(f"{folder.features}: does not fit its {folder.model.name}; without this file the model loads")
    return Reference.from_tensors(saved).to(model.device)


def _installed(method: str, folder: RunFolder) -> type[methods.Method[Any]]:
    try:
        return methods.get(method)
    except UserError as error:
        raise UserError(f"{folder.path}: its method '{method}' is not installed here: {error}") from None

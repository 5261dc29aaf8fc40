"""What the service answers from: a run folder, or an exported ONNX file alone."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unihssl.data.intensity import candidates, loaded_windows
from unihssl.data.machine import cpus
from unihssl.data.rendering import Rendering
from unihssl.errors import UserError

if TYPE_CHECKING:
    from unihssl.evaluation.nearest import TrainingImages

NEEDED = {"classes", "stored_size", "input", "audit"}


@dataclass(frozen=True)
class Predictor:
    """A model behind two functions of decoded images (N, H, W, C) uint8."""

    about: Mapping[str, Any]  # the metadata of an exported file
    rendering: Rendering  # how images are decoded
    run: Callable[[np.ndarray], dict[str, np.ndarray]]  # outputs by name, as exported; novelty, nearest
    heat: Callable[[np.ndarray, np.ndarray], list[np.ndarray]] | None = None  # and classes (N,) to pictures (h, w, 3)
    training: "TrainingImages | None" = None  # what rows of the output `nearest` are of, if that may be shown

    @property
    def classes(self) -> list[str]:
        return [str(name) for name in self.about["classes"]]


def open_predictor(path: Path, device: str = "auto", *, nearest: bool = False) -> Predictor:
    """The model of a run folder, or of an .onnx file; `nearest` lets it show training images."""
    if path.suffix == ".onnx":
        return _of_onnx(path)
    from unihssl.serving.run_predictor import run_predictor  # only here is PyTorch needed

    return run_predictor(path, device, nearest)


def _of_onnx(path: Path) -> Predictor:
    if not path.is_file():
        raise UserError(f"{path}: no such file; write it with: unihssl export RUN {path}")
    try:
        import onnxruntime
    except ImportError:
        raise UserError("serving an ONNX file needs onnxruntime: pip install 'unihssl[serve]'") from None
    onnxruntime.disable_telemetry_events()  # what it counts is nobody else's business
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cpus()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # decoding needs the cores, too
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        about = {key: json.loads(text) for key, text in session.get_modelmeta().custom_metadata_map.items()}
    except Exception as error:  # onnxruntime's own kinds, which have no common base
        raise UserError(f"{path}: not a readable ONNX file ({' '.join(str(error).split())[:160]})") from None
    if not about.keys() >= NEEDED:
        raise UserError(f"{path}: was not written by `unihssl export`: its metadata is not there")
    refuse_vectors(path, about)
    (given,), names = session.get_inputs(), [output.name for output in session.get_outputs()]
    (height, width), windows = about["stored_size"], about.get("windows") or {}
    return Predictor(
        about,
        Rendering((height, width), given.shape[3], candidates([loaded_windows(w) for w in windows.values()])),
        lambda pixels: dict(zip(names, session.run(None, {given.name: pixels}), strict=True)),
    )


def refuse_vectors(path: Path, about: Mapping[str, Any]) -> None:
    if about["input"] != "images":
        raise UserError(f"{path}: this model takes feature vectors, and only models of images are served")

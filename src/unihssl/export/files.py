"""Writing an exported model: traced, saved under another name, checked against PyTorch, and only then put in place."""

import contextlib
import importlib
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unihssl.errors import UserError
from unihssl.export.graph import InferenceGraph
from unihssl.files import atomic, make_folder

Outputs = Mapping[str, np.ndarray]
Run = Callable[[np.ndarray], Outputs]  # from samples (N, ...) to outputs by name

TOLERANCE = 1e-4  # between PyTorch's outputs and those of the file
TESTED = "2.14"  # torch; 2.6 cannot trace the resizing
OPSET = 18  # of ONNX; understood since onnxruntime 1.14
METADATA = "metadata.json"  # inside a .pt2 file


def write_onnx(path: Path, graph: InferenceGraph, check: np.ndarray, metadata: Mapping[str, Any]) -> None:
    """Write `path` as ONNX; `check` (N, ...) are samples on which it must agree with the graph.

    Every entry of the metadata is a JSON text in the file's `metadata_props`.
    """
    onnx = require("onnx")
    example = torch.from_numpy(check[:2])
    with exporting(path), quietly(), torch.no_grad():
        program: Any = torch.onnx.export(
            graph,
            (example,),
            input_names=[metadata["input"]],
            output_names=list(graph(example)),
            dynamic_shapes=_any_size(example),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    content = program.model_proto
    if content.ByteSize() >= onnx.checker.MAXIMUM_PROTOBUF:
        raise UserError(f"{path}: an ONNX file holds at most 2 GiB, and this model is larger: export it as .pt2")
    _forget_source(content.graph)
    onnx.helper.set_model_props(content, _as_json(metadata))
    make_folder(path.parent)
    with atomic(path) as temporary:
        onnx.save(content, str(temporary))
        with exporting(path):
            verify(path, graph, onnx_run(temporary), check)


def edit_metadata(path: Path, metadata: Mapping[str, Any]) -> None:
    """Replace the metadata of an ONNX file."""
    onnx = require("onnx")
    content = onnx.load(str(path))
    onnx.helper.set_model_props(content, _as_json(metadata))
    onnx.save(content, str(path))


def write_pt2(path: Path, graph: InferenceGraph, check: np.ndarray, metadata: Mapping[str, Any]) -> None:
    """Write `path` for `torch.export.load`; the metadata is its extra file `metadata.json`."""
    example = torch.from_numpy(check[:2])
    with exporting(path), quietly(), torch.no_grad():
        program = torch.export.export(graph, (example,), dynamic_shapes=_any_size(example))
    for part in program.graph_module.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            node.meta.pop("stack_trace", None)  # names files of this machine
    content = io.BytesIO()
    torch.export.save(program, content, extra_files={METADATA: json.dumps(metadata)})
    make_folder(path.parent)
    with atomic(path) as temporary:
        temporary.write_bytes(content.getvalue())
        with exporting(path):
            loaded = torch.export.load(io.BytesIO(content.getvalue())).module()
            verify(path, graph, lambda x: _arrays(loaded(torch.from_numpy(x))), check)


def onnx_run(path: Path) -> Run:
    """An ONNX file as a function, on the CPU."""
    onnxruntime = require("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (given,), names = session.get_inputs(), [output.name for output in session.get_outputs()]
    return lambda x: dict(zip(names, session.run(None, {given.name: x}), strict=True))


def verify(path: Path, graph: InferenceGraph, run: Run, samples: np.ndarray) -> None:
    """Raise a `UserError` unless the file gives PyTorch's outputs for these samples.

    They are given one alone, all together and, as images of another size, in part.
    """
    other_size = samples[:2, 1::2, : samples.shape[2] // 2 + 1] if samples.ndim == 4 else samples[:2]
    for part in (samples[:1], samples, np.ascontiguousarray(other_size)):
        with torch.inference_mode():
            expected = _arrays(graph(torch.from_numpy(part)))
        found = run(part)
        for name, numbers in expected.items():
            if numbers.dtype == bool:  # a confidence at the threshold may fall on either side
                continue
            difference = float(np.abs(numbers - found[name]).max())
            if not difference <= TOLERANCE:
                raise UserError(
                    f"{path}: not written, as the exported model differs from PyTorch's by {difference:.2g} in {name} "
                    f"(at most {TOLERANCE:g} is allowed)"
                )


def require(name: str) -> Any:
    """A module of the packages in the extra `export`."""
    try:
        importlib.import_module("onnxscript")  # torch's exporter needs it
        return importlib.import_module(name)
    except ImportError:
        raise UserError("ONNX needs packages that are not installed: pip install 'unihssl[export]'") from None


def _forget_source(graph: Any) -> None:
    """Remove the exporter's notes, which name files of this machine, from an ONNX graph and the graphs within."""
    for node in graph.node:
        node.ClearField("metadata_props")
        for attribute in node.attribute:
            _forget_source(attribute.g)


def _any_size(samples: Tensor) -> tuple[dict[int, Any]]:
    """Batches of any size, of images (N, H, W, C) of any size."""
    names = ("batch", "height", "width")[: 3 if samples.dim() == 4 else 1]
    return ({place: torch.export.Dim(name, min=1) for place, name in enumerate(names)},)


def _as_json(metadata: Mapping[str, Any]) -> dict[str, str]:
    return {key: json.dumps(value) for key, value in metadata.items()}


def _arrays(outputs: Mapping[str, Tensor]) -> Outputs:
    return {name: tensor.numpy(force=True) for name, tensor in outputs.items()}


@contextlib.contextmanager
def exporting(path: Path) -> Iterator[None]:
    """What an exporter or the file's own run raises, of whatever kind, as one line."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        cause = f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')[:200]}"
        newer = "" if torch.__version__ >= TESTED else f"; try a newer one, {TESTED} is tested"
        raise UserError(f"{path}: torch {torch.__version__} cannot export this model{newer} ({cause})") from error


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Without the exporters' progress on stdout and their remarks about versions of operators."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)

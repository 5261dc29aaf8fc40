"""Static quantisation of an exported ONNX file: weights and activations of its heavy operators as 8-bit integers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from unihssl.export.files import quietly, require

OPERATORS = ["Conv", "Gemm", "MatMul"]
BATCH = 16


def quantize(source: Path, target: Path, samples: np.ndarray) -> None:
    """Write an int8 copy of an ONNX file; the ranges of its activations are those of the samples (N, ...).

    Weights have 7 bits: with 8, products saturate on CPUs without VNNI.
    """
    quantization = require("onnxruntime.quantization")
    with quietly():
        quantization.quantize_static(
            str(source),
            str(target),
            _Reader(_input_name(source), samples),
            quant_format=quantization.QuantFormat.QDQ,
            op_types_to_quantize=OPERATORS,
            per_channel=True,
            reduce_range=True,
        )


class _Reader:
    """The samples in batches, as onnxruntime's calibration asks for them."""

    def __init__(self, name: str, samples: np.ndarray) -> None:
        self._batches: Iterator[dict[str, Any]] = (
            {name: samples[i : i + BATCH]} for i in range(0, len(samples), BATCH)
        )

    def get_next(self) -> dict[str, Any] | None:
        return next(self._batches, None)


def _input_name(path: Path) -> str:
    return str(require("onnx").load(str(path)).graph.input[0].name)

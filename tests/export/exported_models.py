"""Models with random weights: an export must be right for any, and training is not what is tested."""

from typing import Any

import torch
from torch import nn

from unihssl import methods
from unihssl.evaluation.model import Model
from unihssl.methods.recipe import resolve
from unihssl.models.backbones import EncoderFactory

AUDIT = {"temperature": 1.7, "labeled_temperature": 0.6, "threshold": 0.3, "max_risk": 0.05, "delta": 0.1}
CLASSES = [str(digit) for digit in range(10)]


def random_model(method: str, backbone: str, vector_size: int = 0, **knobs: Any) -> Model:
    """A model for digits of 16x16, or vectors, with random weights and random BatchNorm statistics."""
    torch.manual_seed(0)
    params = resolve({"method": method, "backbone": backbone, "weights": "none"} | knobs)[1]
    encoders = EncoderFactory(backbone, "none", vector_size)
    network = methods.get(method).build_network(encoders, len(CLASSES), params)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 2)
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.1)
    return Model(method, params, network, encoders.architecture, CLASSES, (0, 0) if vector_size else (16, 16))

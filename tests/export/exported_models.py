"""Models without training whose answers differ from sample to sample: where all are alike, no comparison means much."""

import zlib
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unihssl import methods
from unihssl.data.catalog.digits import embedded_digits
from unihssl.evaluation.model import Model
from unihssl.methods.batch_norm_stats import set_statistics
from unihssl.methods.recipe import resolve
from unihssl.models.backbones import EncoderFactory
from unihssl.models.classifier import Classifier

AUDIT = {"temperature": 1.7, "labeled_temperature": 0.6, "threshold": 0.5, "max_risk": 0.05, "delta": 0.1}
CLASSES = [str(digit) for digit in range(10)]
SPREAD = 3.0  # standard deviation of each logit over samples


def digits(count: int, *, vectors: bool = False) -> np.ndarray:
    """Digits of both domains, mixed: RGB (N, 16, 16, 3), or the 48 numbers of a part of each."""
    grey = np.concatenate([embedded_digits(name)[0][: count // 2] for name in ("mnist", "uci")])
    images = np.repeat(grey[..., None], 3, axis=3)[np.random.default_rng(0).permutation(len(grey))]
    return images[:, 6:10, 6:10].reshape(-1, 48).astype(np.float32) / 255 if vectors else images


def random_model(
    method: str, backbone: str, *, weights: str = "none", x: np.ndarray | None = None, **knobs: Any
) -> Model:
    """A model with a random head of its own for each method, and a random backbone unless there is a file of `weights`.

    It sees samples such as `x`, by default digits as `digits` gives them.
    """
    torch.manual_seed(zlib.crc32(method.encode()))
    vectors = backbone == "mlp"
    x = digits(24, vectors=vectors) if x is None else x
    params = resolve({"method": method, "backbone": backbone, "weights": weights} | knobs)[1]
    encoders = EncoderFactory(backbone, weights, 48 if vectors else 0)
    network = methods.get(method).build_network(encoders, len(CLASSES), params)
    model = Model(method, params, network, encoders.architecture, CLASSES, (0, 0) if vectors else x.shape[1:3])
    seen = model.views.test(torch.from_numpy(x[:24]))
    for part in network.modules():
        if isinstance(part, Classifier):
            if weights == "none":
                set_statistics(part, [seen])
            spread_logits(part, seen)
    return model


@torch.no_grad()
def spread_logits(network: Classifier, x: Tensor) -> None:
    """Scale and shift the head so that its logits have mean 0 and a deviation of `SPREAD` over these samples."""
    features = network.evaluate(x)[0]
    nn.init.normal_(network.head.weight)
    deviation = (features @ network.head.weight.T).std(0)
    network.head.weight.mul_(SPREAD / deviation.unsqueeze(1))
    network.head.bias.copy_(-(features @ network.head.weight.T).mean(0))

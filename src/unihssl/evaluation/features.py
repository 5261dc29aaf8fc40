"""The features of a trained model: what its head sees."""

import numpy as np
import torch
from torch import nn

from unihssl.data.store import Store
from unihssl.errors import UserError
from unihssl.evaluation.model import Model
from unihssl.models.classifier import Classifier, main_classifier

BATCH = 256


def classifier_of(model: Model) -> Classifier:
    """The network whose features are meant; for a routed method, the adapted one of its three."""
    network = main_classifier(model.network)
    if network is None:
        raise UserError(f"method {model.method}: its network is no Classifier, so it has no features")
    return network


@torch.inference_mode()
def store_features(network: nn.Module, model: Model, store: Store, rows: np.ndarray | None = None) -> np.ndarray:
    """Features (N, D) of rows of a decoded store (all by default), by a classifier or a bare encoder."""
    extract = network.features if isinstance(network, Classifier) else network
    chosen = torch.arange(len(store)) if rows is None else torch.from_numpy(rows)
    views = (model.views.test(store.take(part).to(model.device)) for part in torch.split(chosen, BATCH))
    return torch.cat([extract(x).float().flatten(1).cpu() for x in views]).numpy()

"""What the figures need from a finished run: predictions and features of samples."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from unihssl.data.batch_random import seed_for
from unihssl.data.store import Store
from unihssl.errors import Setting, UserError
from unihssl.evaluation.load import load_model
from unihssl.evaluation.metrics import PARTS
from unihssl.evaluation.model import Model
from unihssl.evaluation.samples import known_samples, unknown_samples
from unihssl.experiments.plots.features import MOST_POINTS
from unihssl.models.backbones import EncoderFactory
from unihssl.models.classifier import Classifier, main_classifier
from unihssl.pipeline.measure import measure
from unihssl.pipeline.settings import settings_of
from unihssl.run_folder import RunFolder

BATCH = 256


class Features(NamedTuple):
    """A row for each sample of either domain: the arguments of feature_map."""

    before: np.ndarray  # (N, D)
    after: np.ndarray  # (N, D')
    domain: np.ndarray  # (N,): 0 labeled, 1 unlabeled
    label: np.ndarray  # (N,): -1 where it is not known
    class_names: list[str]
    method: str


def run_result(
    run: str | Path, labeled: Any = None, unlabeled: Any = None, *, held_out: bool = False, device: str = "auto"
) -> dict[str, Any]:
    """The saved result of a run, or with sources that of `evaluate` on them.

    A saved result needs neither model nor data. Early versions did not save confusions: those are evaluated again.
    """
    folder = RunFolder(run)
    saved = folder.read_result() if folder.is_finished and labeled is None and unlabeled is None else {}
    known = any("confusion" in saved.get(role, {}) for role in PARTS)
    return saved if known else measure(run, labeled, unlabeled, device, held_out=held_out)


def run_features(
    run: str | Path, labeled: Any = None, unlabeled: Any = None, *, held_out: bool = False, device: str = "auto"
) -> Features:
    """Features of held-out samples, or of all samples of the sources, from the encoder before and after training.

    If no class of the unlabeled domain is known, nothing was held out of it: then some of its training samples stand
    in, with label -1.
    """
    folder = RunFolder(run)
    model, settings = load_model(run, device), settings_of(folder)
    own_data = held_out or (labeled is None and unlabeled is None)
    unknown = own_data and not folder.read_split()["unlabeled"]["test"]
    samples = known_samples(folder, model, settings, labeled, None if unknown else unlabeled, held_out=held_out)
    if unknown:
        samples["unlabeled"] = unknown_samples(folder, model, settings, unlabeled, MOST_POINTS)
    for role in ("labeled", "unlabeled"):
        if role not in samples or not len(samples[role].rows):
            raise UserError(f"{run}: no class of any {role} test image is known; give some with {Setting(role)}")
    parts = [samples["labeled"], samples["unlabeled"]]
    networks = starting_encoder(folder, model), classifier_of(model)
    before, after = (np.concatenate([_features(n, model, p.store, p.rows) for p in parts]) for n in networks)
    domain = np.repeat([0, 1], [len(part.rows) for part in parts])
    label = np.concatenate([part.labels for part in parts])
    return Features(before, after, domain, label, [str(c) for c in model.classes_], model.method)


def classifier_of(model: Model) -> Classifier:
    """The network whose features are shown; for a routed method, the adapted one of its three."""
    network = main_classifier(model.network)
    if network is None:
        raise UserError(f"method {model.method}: its network is no Classifier, so it has no features to show")
    return network


def starting_encoder(run: RunFolder, model: Model) -> nn.Module:
    """The encoder that the run began with: pretrained, from its weights file, or the random start of its seed."""
    run.read_config()  # refuses a saved model, which does not tell
    settings = settings_of(run)
    with torch.random.fork_rng([]):
        torch.manual_seed(seed_for("weights", settings.seed))
        vectors, channels = model.architecture.vector_size, model.architecture.channels
        encoder, _ = EncoderFactory(settings.backbone, settings.weights, vectors, channels, settings.input_size)()
    return encoder.to(model.device).eval()


@torch.inference_mode()
def _features(network: nn.Module, model: Model, store: Store, rows: np.ndarray) -> np.ndarray:
    extract = network.features if isinstance(network, Classifier) else network
    parts = torch.split(torch.from_numpy(rows), BATCH)
    views = (model.views.test(store.take(part).to(model.device)) for part in parts)
    return torch.cat([extract(x).float().flatten(1).cpu() for x in views]).numpy()

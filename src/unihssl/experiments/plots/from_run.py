"""What the figures need from a finished run: guesses and features for samples whose classes are known."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from unihssl.api import resolve, settings_of, stored_knobs
from unihssl.data.batch_random import seed_for
from unihssl.data.store import Store
from unihssl.errors import UserError
from unihssl.evaluation.metrics import PARTS
from unihssl.evaluation.model import Model, load_model
from unihssl.evaluation.samples import known_samples, unknown_samples
from unihssl.experiments.plots.features import MOST_POINTS
from unihssl.files import read_json
from unihssl.models.backbones import EncoderFactory
from unihssl.models.classifier import Classifier
from unihssl.training.run_directory import RESULT, read_config

BATCH = 256


class Guesses(NamedTuple):
    """By domain: true and predicted classes, as indices into the names."""

    parts: dict[str, tuple[np.ndarray, np.ndarray]]
    class_names: list[str]
    method: str


class Features(NamedTuple):
    """A row for each sample of either domain; the fields are the arguments of `feature_map`."""

    before: np.ndarray
    after: np.ndarray
    domain: np.ndarray  # 0 labeled, 1 unlabeled
    label: np.ndarray
    class_names: list[str]
    method: str


def run_guesses(
    run: str | Path, labeled: Any = None, unlabeled: Any = None, *, held_out: bool = False, device: str = "auto"
) -> Guesses:
    """Predictions on all labeled images of the sources given; with `held_out`, on those the run did not train on.

    Without sources, those on the run's held-out images: as it noted them in result.json, or else made again.
    """
    if labeled is None and unlabeled is None and (noted := _noted_guesses(Path(run))):
        return noted
    model = load_model(run, device)
    samples = known_samples(Path(run), model, settings_of(Path(run)), labeled, unlabeled, held_out=held_out)
    parts = {}
    for role, part in samples.items():
        if len(part.rows):
            guess = model.probabilities(model.predict_store(part.store, part.rows)).argmax(1)
            parts[role] = part.labels, guess
    if not parts:
        raise UserError(f"{run}: no class of any test image is known; give some with --labeled or --unlabeled")
    return Guesses(parts, [str(c) for c in model.classes_], model.method)


def _noted_guesses(run: Path) -> Guesses | None:
    """From the confusions in a run's result, which need neither model nor data. Runs of older versions lack them."""
    result = read_json(run / RESULT) if (run / RESULT).exists() else {}
    tables = {role: table for role in PARTS if (table := result.get(role, {}).get("confusion"))}
    if not tables:
        return None
    told = (name for table in tables.values() for row in table.values() for name in row)
    names = list(dict.fromkeys([*(name for table in tables.values() for name in table), *told]))
    parts = {}
    for role, table in tables.items():
        cells = [(names.index(true), names.index(other), n) for true, row in table.items() for other, n in row.items()]
        truth, guess, counts = np.array(cells).T
        parts[role] = np.repeat(truth, counts), np.repeat(guess, counts)
    return Guesses(parts, names, str(read_config(run)["method"]))


def run_features(
    run: str | Path, labeled: Any = None, unlabeled: Any = None, *, held_out: bool = False, device: str = "auto"
) -> Features:
    """Features of the same samples as in `run_guesses`: from the encoder as training found it, and as it left it.

    Of an unlabeled domain without a class that is known, samples as they are, with -1 for their label.
    """
    model, folder = load_model(run, device), Path(run)
    settings = settings_of(folder)
    own = held_out or (labeled is None and unlabeled is None)
    unknown = own and not read_json(folder / "split.json")["unlabeled"]["test"]
    samples = known_samples(folder, model, settings, labeled, None if unknown else unlabeled, held_out=held_out)
    if unknown:
        samples["unlabeled"] = unknown_samples(folder, model, settings, unlabeled, MOST_POINTS)
    for role in ("labeled", "unlabeled"):
        if role not in samples or not len(samples[role].rows):
            raise UserError(f"{run}: no class of any {role} test image is known; give some with --{role}")
    parts = [samples["labeled"], samples["unlabeled"]]
    networks = starting_encoder(folder, model), classifier_of(model)
    before, after = (np.concatenate([_features(n, model, p.store, p.rows) for p in parts]) for n in networks)
    domain = np.repeat([0, 1], [len(part.rows) for part in parts])
    label = np.concatenate([part.labels for part in parts])
    return Features(before, after, domain, label, [str(c) for c in model.classes_], model.method)


def classifier_of(model: Model) -> Classifier:
    """The network whose features tell of adaptation; of a routed method's three, the adapted one."""
    network = model.network["adapted"] if isinstance(model.network, nn.ModuleDict) else model.network
    if not isinstance(network, Classifier):
        raise UserError(f"method {model.method}: its network is no Classifier, so it has no features to show")
    return network


def starting_encoder(run: Path, model: Model) -> nn.Module:
    """The encoder as the run began: pretrained, from its weights file, or the very random start of its seed."""
    settings = resolve(stored_knobs(run))[0]  # not the defaults: a saved model alone does not tell
    with torch.random.fork_rng([]):
        torch.manual_seed(seed_for("weights", settings.seed))
        encoder, _ = EncoderFactory(settings.backbone, settings.weights, model.architecture.vector_size)()
    return encoder.to(model.device).eval()


@torch.inference_mode()
def _features(network: nn.Module, model: Model, store: Store, rows: np.ndarray) -> np.ndarray:
    extract = network.features if isinstance(network, Classifier) else network
    parts = torch.split(torch.from_numpy(rows), BATCH)
    views = (model.views.test(store.take(part).to(model.device)) for part in parts)
    return torch.cat([extract(x).float().flatten(1).cpu() for x in views]).numpy()

"""Training in a run directory, from the sources to the measured model."""

import copy
import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unihssl.config import Settings
from unihssl.data.batch_random import seed_for
from unihssl.data.cache import cache_folder
from unihssl.data.pair import DomainPair, load_pair, read_domains, vector_size
from unihssl.data.target_labels import IN_MEMORY
from unihssl.errors import Setting, UserError
from unihssl.evaluation.load import load_model
from unihssl.evaluation.model import Model
from unihssl.methods.recipe import absolute, all_knobs, resolve
from unihssl.models.backbones import Architecture, EncoderFactory, pick_device
from unihssl.pipeline.describe_run import describe_run, other_threads_note
from unihssl.pipeline.make_trainer import make_trainer
from unihssl.pipeline.measure import finish_run, reference_features
from unihssl.pipeline.memory import memory_advice
from unihssl.pipeline.settings import given_or_saved, refuse_inside, refuse_other_sources, resumed_settings
from unihssl.run_folder import RunFolder, RunLock
from unihssl.training.callbacks import Callback, running, with_own
from unihssl.training.display import Display
from unihssl.training.fabric import Fabric, autocast_dtype, make_fabric
from unihssl.training.frozen import FrozenBackbone
from unihssl.training.reproducible import deterministic_algorithms, pinned_threads, prepare_cublas
from unihssl.training.watch import Watch

_training = threading.RLock()  # torch's random state belongs to the process: runs in other threads wait


def train(
    out: Path,
    labeled: Any,
    unlabeled: Any,
    knobs: Mapping[str, Any],
    *,
    target_labels: Any = None,
    resume: bool,
    display: Display,
    concurrent_runs: int = 1,
    callbacks: Sequence[Callback] = (),
) -> Model:
    """Train in a run directory, from its checkpoint if there is one; a finished run is only loaded.

    With several processes each runs this, and the first alone writes and measures. `concurrent_runs` is how many runs
    share this machine's memory and its GPU, this one included. Runs in several threads of a process take turns.
    """
    folder = RunFolder(out)
    if isinstance(target_labels, str | Path):
        knobs, target_labels = {**knobs, "target_labels": str(target_labels)}, None
    elif target_labels is not None:
        knobs = {**knobs, "target_labels": IN_MEMORY}
    resumed = resume and folder.is_run
    if resumed:
        settings, params = resumed_settings(folder, knobs)
        labeled, unlabeled = given_or_saved(labeled, settings.labeled), given_or_saved(unlabeled, settings.unlabeled)
    elif resume and (labeled is None or (isinstance(labeled, str) and not labeled)):
        raise UserError(f"{out}: there is no run to resume")
    else:
        settings, params = resolve(knobs)
    if settings.deterministic and pick_device(settings.device) == "cuda":
        prepare_cublas()
    fabric = make_fabric(settings)
    with (
        _training,
        Watch(fabric, folder, display.spell),
        pinned_threads(settings.threads),
        deterministic_algorithms(settings.deterministic),
        RunLock(folder, resume=resume) if fabric.is_global_zero else nullcontext(),
        torch.random.fork_rng([fabric.device] if fabric.device.type == "cuda" else []),
        memory_advice(folder, settings),
    ):
        if not fabric.is_global_zero:
            display.silence()
        if folder.is_finished:
            refuse_other_sources(folder, settings, labeled=labeled, unlabeled=unlabeled)
            if fabric.is_global_zero:
                folder.remove_checkpoint()
            display.note(f"{out}: this run has finished already")
            return load_model(out, fabric.device)
        if resume and not folder.checkpoint.exists():
            display.note(f"{out}: nothing has been saved here yet: starting from the beginning")
        if settings.steps and {"epochs", "steps"} <= knobs.keys():
            decides, unused = Setting("steps", settings.steps), Setting("epochs", settings.epochs)
            display.note(f"note: {decides} says how long to train, so {unused} does nothing")
        if not resumed:
            refuse_inside(folder, labeled, unlabeled)
        source, target = read_domains(labeled, unlabeled, settings, target_labels)
        if vector_size(source) and not resumed:
            settings, params = resolve({"backbone": "mlp"} | dict(knobs))
        settings = replace(settings, labeled=absolute(source.name), unlabeled=absolute(target.name))
        torch.manual_seed(seed_for("weights", settings.seed))
        s = settings
        encoders = EncoderFactory(s.backbone, s.weights, vector_size(source), s.channels, s.input_size)
        pair = load_pair(source, target, settings, encoders.architecture.side, display.counter)
        frozen = _frozen(fabric, encoders, settings, display) if settings.train == "head" else None
        trainer = make_trainer(fabric, folder, encoders, pair, settings, params, display, concurrent_runs, frozen)
        own = with_own(callbacks, settings) if fabric.is_global_zero else []
        if fabric.is_global_zero:  # only now: what is refused above must not look like a run
            if resumed and (note := other_threads_note(folder, fabric.device)):
                display.note(f"note: {note}")
            describe_run(folder, settings, params, pair, knobs, resumed)
        with running(own, folder.path, all_knobs(settings, params), trainer.steps_done) as outcome:
            if frozen:
                frozen.compute()
            trainer.fit(pair.truth, display, own)
            network = trainer.method.network
            model = _finished_model(network, encoders.architecture, pair, settings, params, fabric.device)
            model.folder, tester, samples = out, model, pair
            if frozen:  # features of the test view are known, and need not be computed again to test its head
                tester, samples = copy.copy(model), frozen.known(pair)
                model.network = frozen.attached(network).to(fabric.device).eval()
            if fabric.is_global_zero:
                model.reference = tester.reference = reference_features(tester, samples, settings.seed)
                finish_run(model, tester, samples, settings, folder, display)
            outcome.model = model
        return model


def _finished_model(
    network: nn.Module, backbone: Architecture, pair: DomainPair, settings: Settings, params: Any, device: torch.device
) -> Model:
    windows = {role: part.windows for role, part in pair.parts.items()}
    model = Model(settings.method, params, network, backbone, pair.classes, pair.size, device, windows)
    model.settings, model.data = settings, {role: part.store.key for role, part in pair.parts.items()}
    return model


def _frozen(fabric: Fabric, encoders: EncoderFactory, settings: Settings, display: Display) -> FrozenBackbone:
    """The backbone that stays as it is."""
    if encoders.architecture.takes_vectors:
        raise UserError(
            f"{Setting('train', 'head')} freezes a backbone of images, and these are feature vectors: leave it out"
        )
    if settings.weights == "none":
        display.note(
            f"note: {Setting('train', 'head')} freezes random weights ({Setting('weights', 'none')}): little can be "
            f"learnt from their features; {Setting('weights', 'pretrained')} or a file gives trained ones"
        )
    encoder, width = encoders()
    autocast, cache = autocast_dtype(settings, fabric.device), cache_folder(settings.cache)
    return FrozenBackbone(encoder, width, encoders.architecture, fabric.device, autocast, cache, display)

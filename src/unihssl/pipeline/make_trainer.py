"""The method on its training data, ready to train."""

from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch

from unihssl import methods
from unihssl.config import Settings
from unihssl.data.pair import DomainPair
from unihssl.data.views import Views
from unihssl.methods.base import Task
from unihssl.models.backbones import EncoderFactory
from unihssl.run_folder import RunFolder
from unihssl.training.checkpoint import fingerprint
from unihssl.training.display import Display
from unihssl.training.fabric import Fabric
from unihssl.training.frozen import FrozenBackbone
from unihssl.training.loop import Trainer
from unihssl.training.rehearsal import StandIn, rehearse


def make_trainer(
    fabric: Fabric,
    folder: RunFolder,
    encoders: EncoderFactory,
    pair: DomainPair,
    settings: Settings,
    params: Any,
    display: Display,
    concurrent_runs: int,
    frozen: FrozenBackbone | None,
) -> Trainer:
    """The method on its training data, ready to train."""
    backbone, s = encoders.architecture, settings
    views = Views(backbone.side, backbone.mean, backbone.std, s.weak_view, s.flip, strong_view=s.strong_view)
    shard = (fabric.global_rank, fabric.world_size)
    kind = methods.get(settings.method)
    data, placement = pair.training_data(
        views,
        settings,
        fabric.device,
        shard,
        concurrent_runs,
        with_truth=kind.needs_truth,
        freeze=partial(frozen.freeze, count=settings.feature_views) if frozen else None,
    )
    target = pair.unlabeled.domain.has_target_label
    targets = len(data.target) if data.target else 0
    labels = pair.labeled.domain.labels[pair.labeled.split.train]
    counts = tuple(np.bincount(labels, minlength=len(pair.classes)).tolist())
    task = Task(len(pair.classes), len(data.labeled), len(data.unlabeled), targets, counts)
    method = kind(frozen.make_encoder if frozen else encoders, params, task, settings)
    if fabric.device.type == "cuda":
        method.to(memory_format=torch.channels_last)
    notes = [*(note for part in pair.parts.values() for note in part.domain.notes), *method.notes()]
    for note in [*notes, *pair.sampling_notes(settings)]:
        display.note(f"note: {note}")
    with_target = f" ({target.sum()} with target labels)" if target.any() else ""
    processes = f", {fabric.world_size} processes" if fabric.world_size > 1 else ""
    display.note(
        f"{task.num_classes} classes, {task.num_labeled} labeled and {task.num_unlabeled} unlabeled training samples"
        f"{with_target}; {settings.method} on {backbone.name}, {fabric.device}{processes}"
        f"{_sizes(pair, views)}; {placement}"
    )
    costs = None
    cuda = [fabric.device] if fabric.device.type == "cuda" else []
    with torch.random.fork_rng(cuda), frozen.rehearsal() if frozen else nullcontext():
        stand_in = kind(lambda: (StandIn(encoders.width), encoders.width), params, task, settings)
        try:
            costs = rehearse(stand_in, data, with_sweeps=frozen is not None)
        except Exception:  # such as of a method that looks into its backbone, which is not there yet
            if frozen:  # whose views it must know
                raise
            data.settle()  # it only serves the forecast of the time
    return Trainer(fabric, method, data, settings, folder, fingerprint(settings, params, pair), costs)


def _sizes(pair: DomainPair, views: Views) -> str:
    """The size of stored images, and of those that the network sees."""
    if not pair.size[0]:
        return ""
    stored = "x".join(map(str, pair.size))
    return f"; images stored at {stored}, seen at {f'{views.side}x{views.side}' if views.side else stored}"

"""One call from two domains to a trained, measured model: what `unihssl train` and `evaluate` run."""

import sys
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unihssl import methods
from unihssl.config import Settings, changes_result, parse, parse_saved
from unihssl.data.batch_random import seed_for
from unihssl.data.cache import cache_folder
from unihssl.data.pair import DomainPair, load_pair, read_domains, vector_size
from unihssl.data.target_labels import IN_MEMORY
from unihssl.data.views import Views
from unihssl.errors import Setting, Spell, UserError, python_spelling, worded
from unihssl.evaluation.collapse_check import collapse_warnings
from unihssl.evaluation.metrics import score
from unihssl.evaluation.model import Model, load_model
from unihssl.evaluation.samples import known_samples
from unihssl.methods.base import Task
from unihssl.methods.recipe import absolute, all_knobs, resolve, row_name, with_full_paths
from unihssl.models.backbones import EncoderFactory
from unihssl.run_folder import RunFolder, RunLock
from unihssl.training.checkpoint import fingerprint
from unihssl.training.display import Display
from unihssl.training.fabric import Fabric, autocast_dtype, make_fabric
from unihssl.training.frozen import FrozenBackbone
from unihssl.training.loop import Trainer
from unihssl.training.rehearsal import StandIn, rehearse
from unihssl.training.watch import Watch

CHECKED = 500  # unlabeled training samples, spread over all, that a finished run is checked on


def fit(
    labeled: Any,
    unlabeled: Any,
    out: str | Path | None = None,
    *,
    target_labels: Any = None,
    resume: bool = False,
    verbose: bool = False,
    **knobs: Any,
) -> Model:
    """Train on a labeled and an unlabeled domain and measure the model on both.

    >>> model = unihssl.fit("scans_a", "scans_b", out="runs/first", epochs=20)
    >>> model = unihssl.fit((x, y), x_unlabeled, method="mcc", backbone="mlp")
    >>> model.result["labeled"]["accuracy"]

    A domain is a path (folder, CSV, .npz) or arrays: `(x, y)` for the labeled one, `x` or `(x, y)` for the unlabeled
    one, whose labels, if any, only serve to measure. `target_labels` are labels of the unlabeled domain to train on: a
    CSV (`path,label`), `"column"` for those in an unlabeled CSV, a mapping from name, path or row number to label, or
    labels (N,) with None or -1 for samples without one. `x` holds images (N, H, W[, 3]) or feature vectors (N, D), `y`
    labels (N,). Without `out` the run directory is a temporary one. `knobs` are settings by name, such as `method`,
    `backbone`, `weights`, `seed`, `epochs`, `lr`. With `verbose`, progress and notes are printed. Otherwise skipped
    images, and an unlabeled domain that was probably not learnt, are Python warnings. Both are in the returned model's
    `result`, too ("notes", "warnings").
    """
    if resume and out is None:
        raise UserError(f"{Setting('resume', True)} needs {Setting('out')}, the folder of the run to resume")
    folder = nullcontext(str(out)) if out is not None else tempfile.TemporaryDirectory()
    with folder as path, Display(quiet=not verbose) as display:
        options: dict[str, Any] = {"target_labels": target_labels, "resume": resume, "display": display}
        model = train(Path(path), labeled, unlabeled, knobs, **options)
    if not verbose:
        for text in (*model.result.get("notes", ()), *model.result.get("warnings", ())):
            warnings.warn(text, stacklevel=2)
    return model


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
) -> Model:
    """Train in a run directory, from its checkpoint if there is one; a finished run is only loaded.

    With several processes each runs this, and the first alone writes and measures. `concurrent_runs` is how many runs
    share this machine's memory and its GPU, this one included.
    """
    folder = RunFolder(out)
    if isinstance(target_labels, str | Path):
        knobs, target_labels = {**knobs, "target_labels": str(target_labels)}, None
    elif target_labels is not None:
        knobs = {**knobs, "target_labels": IN_MEMORY}
    resumed = resume and folder.is_run
    if resumed:
        settings, params = _resumed_settings(folder, knobs)
        labeled, unlabeled = _given(labeled, settings.labeled), _given(unlabeled, settings.unlabeled)
    elif resume and (labeled is None or (isinstance(labeled, str) and not labeled)):
        raise UserError(f"{out}: there is no run to resume")
    else:
        settings, params = resolve(knobs)
    fabric = make_fabric(settings)
    with (
        Watch(fabric, folder, display.spell),
        RunLock(folder, resume=resume) if fabric.is_global_zero else nullcontext(),
        torch.random.fork_rng([fabric.device] if fabric.device.type == "cuda" else []),
    ):
        if not fabric.is_global_zero:
            display.silence()
        if folder.is_finished:
            display.note(f"{out}: this run has finished already")
            return load_model(out)
        if resume and not folder.checkpoint.exists():
            display.note(f"{out}: nothing has been saved here yet: starting from the beginning")
        source, target = read_domains(labeled, unlabeled, settings, target_labels)
        if vector_size(source) and not resumed:
            settings, params = resolve({"backbone": "mlp"} | dict(knobs))
        settings = replace(settings, labeled=absolute(source.name), unlabeled=absolute(target.name))
        torch.manual_seed(seed_for("weights", settings.seed))
        encoders = EncoderFactory(settings.backbone, settings.weights, vector_size(source), settings.input_size)
        pair = load_pair(source, target, settings, encoders.architecture.side, display.counter)
        frozen = _frozen(fabric, encoders, settings, display) if settings.train == "head" else None
        trainer = _trainer(fabric, folder, encoders, pair, settings, params, display, concurrent_runs, frozen)
        if fabric.is_global_zero:  # only now: what the trainer refuses must not look like a run
            _describe(folder, settings, params, pair, knobs, resumed)
        if frozen:
            frozen.compute()
        trainer.fit(pair.truth, display)
        network = trainer.method.network
        if frozen:
            frozen.attach(network)
        model = Model(settings.method, params, network, encoders.architecture, pair.classes, pair.size, fabric.device)
        if fabric.is_global_zero:
            _measure(model, pair, folder, display)
        return model


def evaluate(
    run: str | Path, labeled: Any = None, unlabeled: Any = None, device: str = "auto", *, held_out: bool = False
) -> dict[str, Any]:
    """Score a trained model on its own held-out images, or on all labeled images of the sources given.

    >>> unihssl.evaluate("runs/first")["pooled"]["accuracy"]

    With `held_out` the sources are the run's own (they have moved, or were arrays), and only what the run held out is
    used. The result has the keys of `result.json`. Its notes, such as on images that the run was trained on, are also
    Python warnings.
    """
    result = measure(run, labeled, unlabeled, device, held_out=held_out)
    for note in result["notes"]:
        warnings.warn(note, stacklevel=2)
    return result


def measure(
    run: str | Path,
    labeled: Any = None,
    unlabeled: Any = None,
    device: str = "auto",
    *,
    held_out: bool = False,
    spell: Spell = python_spelling,
) -> dict[str, Any]:
    """What `evaluate` returns, without warnings; notes spell settings by `spell`."""
    folder = RunFolder(run)
    model = load_model(folder.path, device)
    samples = known_samples(folder, model, settings_of(folder), labeled, unlabeled, held_out=held_out)
    parts = {role: (model.predict_store(part.store, part.rows), part.labels) for role, part in samples.items()}
    result = score(parts, model.rule, model.classes_.tolist())
    return result | {"notes": [worded(note, spell) for part in samples.values() for note in part.domain.notes]}


def settings_of(folder: RunFolder) -> Settings:
    """The settings a run was made with; the defaults for a saved model, which has none."""
    settings: Settings = parse_saved(folder.read_config(), (Settings,))[0] if folder.is_run else Settings()
    return settings


def _resumed_settings(folder: RunFolder, asked: Mapping[str, Any]) -> tuple[Settings, Any]:
    """The run's own settings; those given again must agree unless they do not change the result."""
    saved = folder.read_config()
    method = methods.get(str(saved.get("method", Settings.method)))
    kinds = (Settings, method.Params)
    before = all_knobs(*parse_saved(saved, kinds))
    for name in ("method", "preset"):  # first: other settings may not be those of another method
        if asked.get(name) not in (None, "", before[name]):
            raise UserError(f"{folder.path}: a resumed run keeps its settings, but {name} was {before[name]}")
    settings, params = parse(before | {name: value for name, value in asked.items() if name != "preset"}, kinds)
    settings = with_full_paths(settings)
    changed = [
        f"{name} was {before[name]}, now {value}"
        for name, value in all_knobs(settings, params).items()
        if changes_result(name, *kinds) and before[name] != value
    ]
    if changed:
        raise UserError(f"{folder.path}: a resumed run keeps its settings, but {'; '.join(changed)}")
    return settings, params


def _given(source: Any, saved: str) -> Any:
    """The source a resumed run was given again, else the one it began with."""
    return saved if source is None or (isinstance(source, str) and not source) else source


def _trainer(
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
    for note in [*(note for part in pair.parts.values() for note in part.domain.notes), *method.notes()]:
        display.note(f"note: {note}")
    with_target = f" ({target.sum()} with target labels)" if target.any() else ""
    processes = f", {fabric.world_size} processes" if fabric.world_size > 1 else ""
    display.note(
        f"{task.num_classes} classes, {task.num_labeled} labeled and {task.num_unlabeled} unlabeled training samples"
        f"{with_target}; {settings.method} on {backbone.name}, {fabric.device}{processes}"
        f"{_sizes(pair, views)}; {placement}"
    )
    with torch.random.fork_rng([]), frozen.rehearsal() if frozen else nullcontext():
        stand_in = kind(lambda: (StandIn(encoders.width), encoders.width), params, task, settings)
        costs = rehearse(stand_in, data, with_sweeps=frozen is not None)
    return Trainer(fabric, method, data, settings, folder, fingerprint(settings, params, pair), costs)


def _sizes(pair: DomainPair, views: Views) -> str:
    """The size of stored images, and of those that the network sees."""
    if not pair.size[0]:
        return ""
    stored = "x".join(map(str, pair.size))
    return f"; images stored at {stored}, seen at {f'{views.side}x{views.side}' if views.side else stored}"


def _frozen(fabric: Fabric, encoders: EncoderFactory, settings: Settings, display: Display) -> FrozenBackbone:
    """The backbone that stays as it is."""
    if encoders.architecture.takes_vectors:
        raise UserError(
            f"{Setting('train', 'head')} freezes a backbone of images, and these are feature vectors: leave it out"
        )
    encoder, width = encoders()
    autocast, cache = autocast_dtype(settings, fabric.device), cache_folder(settings.cache)
    return FrozenBackbone(encoder, width, encoders.architecture, fabric.device, autocast, cache, display)


def _describe(
    folder: RunFolder, settings: Settings, params: Any, pair: DomainPair, asked: Mapping[str, Any], resumed: bool
) -> None:
    """Write what the run is: every setting, every sample's name under its part, and the machine."""
    folder.write_config(all_knobs(settings, params))
    split: dict[str, dict[str, Any]] = {
        role: {
            "source": getattr(settings, role),
            "train": [part.domain.names[i] for i in part.split.train],
            "test": [part.domain.names[i] for i in part.split.test],
            "unused": [part.domain.names[i] for i in part.unused],
        }
        for role, part in pair.parts.items()
    }
    unlabeled = pair.unlabeled.domain
    if unlabeled.target_labels is not None:
        rows = np.flatnonzero(unlabeled.has_target_label)
        split["unlabeled"]["target_labels"] = {
            unlabeled.names[row]: unlabeled.classes[unlabeled.target_labels[row]] for row in rows
        }
    folder.write_split(split)
    plain = {name: value if isinstance(value, int | float) else str(value) for name, value in asked.items()}
    about = {"asked": plain, "row": row_name(settings.method, settings.preset)}
    if resumed:  # what made the run is the first command
        first = folder.read_environment()
        about |= {key: first[key] for key in ("command", "asked", "row") if key in first} | {"resumed_by": sys.argv}
    folder.write_environment(**about)


def _measure(model: Model, pair: DomainPair, folder: RunFolder, display: Display) -> None:
    """Save the model, test it once, and check whether the unlabeled domain was learnt."""
    model.save(folder.path)
    tested = {}
    for role, part in pair.parts.items():
        rows = part.split.test
        tested[role] = model.predict_store(part.store, rows), part.domain.labels[rows]
    model.result = score(tested, model.rule, pair.classes)
    notes = [note for part in pair.parts.values() for note in part.domain.notes]
    model.result |= _check_unlabeled(model, pair) | {"notes": notes}
    for warning in model.result["warnings"]:
        display.note(f"warning: {warning}")
    for kind in ("notes", "warnings"):  # saved for every reader
        model.result[kind] = [worded(text) for text in model.result[kind]]
    folder.write_result(model.result)


def _check_unlabeled(model: Model, pair: DomainPair) -> dict[str, Any]:
    """Warnings from the predictions on some unlabeled training samples, without their labels.

    Where their labels are known and did not train, also the share predicted right, for diagnosis: no test sample is
    involved.
    """
    train = pair.unlabeled.split.train
    rows = train[np.linspace(0, len(train) - 1, min(len(train), CHECKED)).astype(np.int64)]
    predicted = model.probabilities(model.predict_store(pair.unlabeled.store, rows)).argmax(1)
    advice = methods.get(model.method).advice(model.params)
    labels = pair.labeled.domain.labels[pair.labeled.split.train]
    warned = collapse_warnings(predicted, labels, pair.classes, advice)
    found: dict[str, Any] = {"warnings": warned}
    domain = pair.unlabeled.domain
    known = (domain.known & ~domain.has_target_label)[rows]
    if known.any():
        correct = (predicted == domain.labels[rows])[known]
        found["unlabeled_training"] = {"n": len(correct), "accuracy": float(correct.mean())}
    return found

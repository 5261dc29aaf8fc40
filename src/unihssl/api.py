"""One call from two domains to a trained, measured model: what `unihssl train` and `evaluate` run."""

import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch

from unihssl import methods
from unihssl.config import Settings, changes_result, describe_knobs, parse, parse_saved
from unihssl.data.batch_random import seed_for
from unihssl.data.cache import cache_folder
from unihssl.data.domain import Domain
from unihssl.data.pair import DomainPair, load_pair, read_domains, vector_size
from unihssl.data.target_labels import IN_MEMORY
from unihssl.data.views import Views
from unihssl.errors import RunInterruptedError, Setting, Spell, UserError, python_spelling, worded
from unihssl.evaluation.check_run import check_unlabeled
from unihssl.evaluation.export_int8 import export_int8
from unihssl.evaluation.export_model import export_model
from unihssl.evaluation.metrics import score, score_sources
from unihssl.evaluation.model import Model, load_model
from unihssl.evaluation.novelty import SAMPLES as REFERENCE_SAMPLES
from unihssl.evaluation.novelty import Reference
from unihssl.evaluation.predictions import Predictions
from unihssl.evaluation.samples import known_samples, reading
from unihssl.evaluation.unlabeled_check import in_words
from unihssl.knobs import Knobs
from unihssl.methods.base import Task
from unihssl.methods.recipe import absolute, all_knobs, resolve, row_name, with_full_paths
from unihssl.models.backbones import EncoderFactory
from unihssl.run_folder import RunFolder, RunLock
from unihssl.training.callbacks import Callback, running, with_own
from unihssl.training.checkpoint import fingerprint
from unihssl.training.display import Display, watched
from unihssl.training.fabric import Fabric, autocast_dtype, make_fabric
from unihssl.training.frozen import FrozenBackbone
from unihssl.training.loop import Trainer
from unihssl.training.rehearsal import StandIn, rehearse
from unihssl.training.watch import Watch

_training = threading.Lock()  # torch's random state belongs to the process: runs in other threads wait


def fit(
    labeled: Any,
    unlabeled: Any,
    *more: Any,
    out: str | Path | None = None,
    target_labels: Any = None,
    resume: bool = False,
    verbose: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **knobs: Unpack[Knobs],
) -> Model:
    """Train on a labeled and an unlabeled domain and measure the model on both.

    >>> model = unihssl.fit("scans_a", "scans_b", out="runs/first", epochs=20)
    >>> model = unihssl.fit(x, y, x_unlabeled, method="mcc", backbone="mlp")
    >>> model.result["labeled"]["accuracy"]

    A domain is a path (folder, CSV, .npz) or arrays: `(x, y)` for the labeled one, `x` or `(x, y)` for the unlabeled
    one, whose labels, if any, only serve to measure. A list of paths makes one unlabeled domain of several sources.
    Three arrays are `x`, `y` and the unlabeled `x`. `x` holds images (N, H, W[, 3]) or feature vectors (N, D), `y`
    labels (N,). `target_labels` are labels of the unlabeled domain to train on: a CSV (`path,label`), `"column"` for
    those in an unlabeled CSV, a mapping from name, path or row number to label, or labels (N,) with None or -1 for
    samples without one. Without `out` the run directory is a temporary one.

    Progress is shown in a terminal or a notebook; `verbose` decides otherwise. Notes go to the logger "unihssl". Where
    nothing is shown, skipped images, and an unlabeled domain that was probably not learnt, are Python warnings. Both
    are in the returned model's `result`, too ("notes", "warnings"). Ctrl-C saves and raises `KeyboardInterrupt`.
    `callbacks` see every step, epoch and the end.

    Settings, with their defaults (presets and backbones change some; `unihssl methods NAME` lists a method's own):
    """
    labeled, unlabeled, out = _sources(labeled, unlabeled, more, out)
    if resume and out is None:
        raise UserError(f"{Setting('resume', True)} needs {Setting('out')}, the folder of the run to resume")
    folder = nullcontext(str(out)) if out is not None else tempfile.TemporaryDirectory()
    verbose = watched() if verbose is None else verbose
    with folder as path, Display(verbose) as display:
        options: dict[str, Any] = {"target_labels": target_labels, "resume": resume, "callbacks": callbacks}
        try:
            model = train(Path(path), labeled, unlabeled, knobs, display=display, **options)
        except RunInterruptedError as stop:
            kept = str(stop) if out is not None else "stopped; nothing is kept without out"
            raise KeyboardInterrupt(kept) from None
    model.folder = Path(out).absolute() if out is not None else None
    if not verbose:
        for text in (*model.result.get("notes", ()), *model.result.get("warnings", ())):
            warnings.warn(text, stacklevel=2)
    return model


fit.__doc__ = f"{fit.__doc__}\n" + "".join(
    f"    {name} = {default or repr('')}: {about}\n" for name, default, _, about in describe_knobs(Settings)
)


def _sources(labeled: Any, unlabeled: Any, more: tuple[Any, ...], out: Any) -> tuple[Any, Any, str | Path | None]:
    """Both domains and the run's folder: of `(a, b)`, `(a, b, out)` or `(x, y, x_unlabeled)`."""
    if more and not isinstance(more[0], str | Path | None):
        labeled, unlabeled, more = (labeled, unlabeled), more[0], more[1:]
    if more and out is None:
        out, more = more[0], more[1:]
    if more:
        raise TypeError("fit takes two domains, or x, y and the unlabeled x, and then a folder")
    return labeled, unlabeled, out


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
        settings, params = _resumed_settings(folder, knobs)
        labeled, unlabeled = _given(labeled, settings.labeled), _given(unlabeled, settings.unlabeled)
    elif resume and (labeled is None or (isinstance(labeled, str) and not labeled)):
        raise UserError(f"{out}: there is no run to resume")
    else:
        settings, params = resolve(knobs)
    fabric = make_fabric(settings)
    with (
        _training,
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
        s = settings
        encoders = EncoderFactory(s.backbone, s.weights, vector_size(source), s.channels, s.input_size)
        pair = load_pair(source, target, settings, encoders.architecture.side, display.counter)
        frozen = _frozen(fabric, encoders, settings, display) if settings.train == "head" else None
        trainer = _trainer(fabric, folder, encoders, pair, settings, params, display, concurrent_runs, frozen)
        if fabric.is_global_zero:  # only now: what the trainer refuses must not look like a run
            _describe(folder, settings, params, pair, knobs, resumed)
        own = with_own(callbacks, settings) if fabric.is_global_zero else []
        with running(own, folder.path, all_knobs(settings, params), trainer.steps_done) as outcome:
            if frozen:
                frozen.compute()
            trainer.fit(pair.truth, display, own)
            network, backbone, place = trainer.method.network, encoders.architecture, fabric.device
            if frozen:
                frozen.attach(network)
            windows = {role: part.windows for role, part in pair.parts.items()}
            model = Model(settings.method, params, network, backbone, pair.classes, pair.size, place, windows)
            model.settings, model.data = settings, {role: part.store.key for role, part in pair.parts.items()}
            model.folder = out
            if fabric.is_global_zero:
                model.reference = _reference(model, pair, settings.seed)
                _measure(model, pair, settings, folder, display)
            outcome.model = model
        return model


def evaluate(
    run: str | Path | Model, labeled: Any = None, unlabeled: Any = None, device: str = "auto", *, held_out: bool = False
) -> dict[str, Any]:
    """Score a trained model on its own held-out images, or on all labeled images of the sources given.

    >>> unihssl.evaluate("runs/first")["pooled"]["accuracy"]
    >>> unihssl.evaluate(model, unlabeled=(x, y))["unlabeled"]["accuracy"]

    With `held_out` the sources are the run's own (they have moved, or were arrays), and only what the run held out is
    used. The result has the keys of `result.json`. Its notes, such as on images that the run was trained on, are also
    Python warnings.
    """
    result = measure(run, labeled, unlabeled, device, held_out=held_out)
    for note in result["notes"]:
        warnings.warn(note, stacklevel=2)
    return result


def measure(
    run: str | Path | Model,
    labeled: Any = None,
    unlabeled: Any = None,
    device: str = "auto",
    *,
    held_out: bool = False,
    spell: Spell = python_spelling,
    knobs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What `evaluate` returns, without warnings; notes spell settings by `spell`. `knobs` say how sources are read."""
    model = run if isinstance(run, Model) else load_model(run, device)
    folder = RunFolder((model.folder or "this model") if isinstance(run, Model) else run)
    settings = reading(model.settings, knobs or {})
    samples = known_samples(folder, model, settings, labeled, unlabeled, held_out=held_out)
    parts = {role: (model.predict_store(part.store, part.rows), part.labels) for role, part in samples.items()}
    result = score(parts, model.rule, model.classes_.tolist())
    if "unlabeled" in samples:
        result |= _by_source(model, *parts["unlabeled"], samples["unlabeled"].domain, samples["unlabeled"].rows)
    return result | {"notes": [worded(note, spell) for part in samples.values() for note in part.domain.notes]}


def export_run(
    run: str | Path,
    path: str | Path,
    *,
    int8: bool = False,
    labeled: Any = None,
    unlabeled: Any = None,
    max_loss: float = 1.0,
) -> dict[str, Any]:
    """Write a run's model as one file, ONNX or `.pt2`; returns the metadata in it.

    >>> unihssl.export_run("runs/first", "model.onnx", int8=True)["int8"]["unlabeled"]["int8"]
    0.912

    With `int8` it is quantised, and refused if that loses more than `max_loss` points of accuracy on what the run held
    out of either domain. `labeled` and `unlabeled` are the run's own sources, if they have moved or were arrays.
    """
    folder, target = RunFolder(run), Path(path)
    model = load_model(folder.path)
    if not int8:
        return export_model(model, target)
    if not folder.split.exists():
        raise UserError(f"{folder.path}: {Setting('int8', True)} needs the folder of a run, for its training samples")
    return export_int8(folder, model, settings_of(folder), target, labeled, unlabeled, max_loss)


def settings_of(folder: RunFolder) -> Settings:
    """The settings a run was made with; the defaults for a saved model, which has none."""
    settings: Settings = (
        parse_saved(folder.read_config(), (Settings,), str(folder.config))[0] if folder.is_run else Settings()
    )
    return settings


def _resumed_settings(folder: RunFolder, asked: Mapping[str, Any]) -> tuple[Settings, Any]:
    """The run's own settings; those given again must agree unless they do not change the result."""
    saved = folder.read_config()
    method = methods.get(str(saved.get("method", Settings.method)))
    kinds = (Settings, method.Params)
    before = all_knobs(*parse_saved(saved, kinds, str(folder.config)))
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
    about: dict[str, Any] = {"asked": plain, "row": row_name(settings.method, settings.preset)}
    about["data"] = {role: part.store.key for role, part in pair.parts.items()}  # change when a sample does
    if resumed:  # what made the run is the first command
        first = folder.read_environment()
        about |= {key: first[key] for key in ("command", "asked", "row") if key in first} | {"resumed_by": sys.argv}
    folder.write_environment(**about)


def _reference(model: Model, pair: DomainPair, seed: int) -> Reference | None:
    """Features of training samples of both domains, drawn at random; None if the network shows none."""
    rng = np.random.default_rng(seed_for("reference", seed))
    found = []
    for part in pair.parts.values():
        rows = np.sort(rng.permutation(part.split.train)[:REFERENCE_SAMPLES])
        found.append(model.predict_store(part.store, rows, keep_features=True).features)
    known = [torch.from_numpy(features) for features in found if features is not None]
    return Reference.of(torch.cat(known).to(model.device)) if known else None


def _measure(model: Model, pair: DomainPair, settings: Settings, folder: RunFolder, display: Display) -> None:
    """Save the model, test it once, and check whether the unlabeled domain was learnt."""
    model.write(folder)
    tested = {}
    for role, part in pair.parts.items():
        rows = part.split.test
        tested[role] = model.predict_store(part.store, rows), part.domain.labels[rows]
    model.result = score(tested, model.rule, pair.classes)
    model.result |= _by_source(model, *tested["unlabeled"], pair.unlabeled.domain, pair.unlabeled.split.test)
    notes = [note for part in pair.parts.values() for note in part.domain.notes]
    predicted = {role: predictions for role, (predictions, _) in tested.items()}
    found = check_unlabeled(model, pair, settings, predicted, folder.read_metrics())
    model.result |= found | {"notes": notes}
    display.note("domain B (unlabeled), no labels needed:")
    for fact in in_words(found["unlabeled_check"]):
        display.note(f"  - {fact}")
    for warning in model.result["warnings"]:
        display.note(f"warning: {warning}")
    for kind in ("notes", "warnings"):  # saved for every reader
        model.result[kind] = [worded(text) for text in model.result[kind]]
    folder.write_result(model.result)


def _by_source(
    model: Model, predictions: Predictions, labels: np.ndarray, domain: Domain, rows: np.ndarray
) -> dict[str, Any]:
    """Where the unlabeled domain is made of several sources, the scores of each."""
    if domain.sources is None or not len(rows):
        return {}
    return {"sources": score_sources(predictions, labels, domain.sources[rows], model.rule)}

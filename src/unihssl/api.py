"""One call from two domains to a trained, measured model: what `unihssl train` and `evaluate` run."""

import dataclasses
import tempfile
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unihssl import methods
from unihssl.config import Settings, knob_fields, parse
from unihssl.data.batch_random import seed_for
from unihssl.data.pair import DomainPair, Part, load_pair, read_domains, vector_size
from unihssl.data.views import Views
from unihssl.errors import UserError
from unihssl.evaluation.collapse_check import collapse_warnings
from unihssl.evaluation.metrics import score
from unihssl.evaluation.model import Model, Predictions, load_model
from unihssl.evaluation.samples import known_samples
from unihssl.files import write_json
from unihssl.methods.base import Task
from unihssl.methods.presets import RECIPES, has_preset, preset_for, preset_knobs
from unihssl.models.backbones import NO_FILE, EncoderFactory
from unihssl.training.checkpoint import CHECKPOINT
from unihssl.training.display import Display
from unihssl.training.loop import Trainer
from unihssl.training.run_directory import (
    CONFIG,
    FREE_TO_CHANGE,
    RESULT,
    RunDirectory,
    absolute,
    fingerprint,
    read_config,
)
from unihssl.training.setup import Fabric, make_fabric
from unihssl.training.watch import Watch

LOOKED_AT = 500  # unlabeled training samples, spread over all, to judge a finished run by


def fit(
    labeled: Any,
    unlabeled: Any,
    out: str | Path | None = None,
    *,
    resume: bool = False,
    verbose: bool = False,
    **knobs: Any,
) -> Model:
    """Train on a labeled and an unlabeled domain and measure the model on both.

    A domain is a path (folder, CSV, .npz) or arrays: `(x, y)` for the labeled one, `x` or `(x, y)` for the
    unlabeled one, whose labels, if any, only serve to measure. `x` holds images (N, H, W[, 3]) or feature vectors
    (N, D). Without `out` the run directory is a temporary one. `knobs` are settings by name, such as `method`,
    `backbone`, `weights`, `seed`, `epochs`, `lr`. The test results are in the returned model's `result`. Progress and
    notes are printed if `verbose`. Otherwise what was skipped, and that the unlabeled domain was probably not learnt,
    are Python warnings; both are in `result`, too ("notes", "warnings").
    """
    folder = nullcontext(str(out)) if out is not None else tempfile.TemporaryDirectory()
    with folder as path, Display(quiet=not verbose) as display:
        model = train(Path(path), labeled, unlabeled, knobs, resume=resume, display=display)
    if not verbose:
        for text in (*model.result.get("notes", ()), *model.result.get("warnings", ())):
            warnings.warn(text, stacklevel=2)
    return model


def train(out: Path, labeled: Any, unlabeled: Any, knobs: dict[str, Any], *, resume: bool, display: Display) -> Model:
    """Train in a run directory, from its checkpoint if there is one; a finished run is only loaded.

    With several processes each runs this; the first one alone writes and measures.
    """
    if resume and (out / CONFIG).exists():
        knobs = _resumed_knobs(out, knobs)
        labeled, unlabeled = _given(labeled, knobs["labeled"]), _given(unlabeled, knobs["unlabeled"])
    elif resume and _given(labeled, "") == "":
        raise UserError(f"{out}: there is no run to go on with")
    settings, _ = resolve(knobs)
    fabric = make_fabric(settings)
    with (
        Watch(fabric, out),
        RunDirectory(out, resume=resume, mine=fabric.is_global_zero) as directory,
        torch.random.fork_rng([fabric.device] if fabric.device.type == "cuda" else []),
    ):
        if not fabric.is_global_zero:
            display.silence()
        if (out / RESULT).exists():
            display.note(f"{out}: this run has finished already")
            return load_model(out)
        if resume and not (out / CHECKPOINT).exists():
            display.note(f"{out}: nothing has been saved here yet: starting from the beginning")
        source, target = read_domains(labeled, unlabeled, settings)
        if vector_size(source):
            knobs = {"backbone": "mlp"} | knobs
        settings, params = resolve(knobs | {"labeled": source.name, "unlabeled": target.name})
        torch.manual_seed(seed_for("weights", settings.seed))
        encoders = EncoderFactory(settings.backbone, settings.weights, vector_size(source))
        pair = load_pair(source, target, settings, encoders.architecture.side, display.counter)
        model = _fit_model(fabric, directory, encoders, pair, settings, params, display)
        if directory.mine:
            model.save(out)
            tested = {role: _predict_test(model, part) for role, part in pair.parts.items()}
            model.result = score(tested, model.rule, pair.classes)
            model.result["notes"] = [note for part in pair.parts.values() for note in part.domain.notes]
            model.result |= _look_at_unlabeled(model, pair)
            for warning in model.result["warnings"]:
                display.note(f"warning: {warning}")
            write_json(out / RESULT, model.result)
            (out / CHECKPOINT).unlink(missing_ok=True)
        return model


def evaluate(
    run: str | Path, labeled: Any = None, unlabeled: Any = None, device: str = "auto", *, held_out: bool = False
) -> dict[str, Any]:
    """Score a trained model on its own held-out images, or on all labeled images of the sources given.

    With `held_out` the sources are the run's own (they have moved, or were arrays): only what it held out is taken.
    """
    folder = Path(run)
    model = load_model(folder, device)
    samples = known_samples(folder, model, settings_of(folder), labeled, unlabeled, held_out=held_out)
    parts = {role: (model.predict_store(part.store, part.rows), part.labels) for role, part in samples.items()}
    result = score(parts, model.rule, model.classes_.tolist())
    return result | {"notes": [note for part in samples.values() for note in part.domain.notes]}


def settings_of(run: Path) -> Settings:
    """The settings a run was made with; the defaults for a saved model, which notes none."""
    return resolve(stored_knobs(run))[0] if (run / CONFIG).exists() else Settings()


def stored_knobs(run: Path) -> dict[str, Any]:
    """The knobs a run was made with; a preset that its method has no more, or never had, is forgotten."""
    knobs = read_config(run)
    if not has_preset(str(knobs.get("method")), str(knobs.get("preset", ""))):
        del knobs["preset"]
    return knobs


def resolve(knobs: dict[str, Any]) -> tuple[Settings, Any]:
    """Settings and method params: defaults, the method's preset, the backbone's recipe, what was asked for."""
    wish = {name: str(knobs.get(name, getattr(Settings, name))) for name in ("method", "preset", "dataset", "backbone")}
    kinds = (Settings, methods.get(wish["method"]).Params)
    recipe = {name: v for name, v in RECIPES.get(wish["backbone"], {}).items() if name in knob_fields(*kinds)}
    name = preset_for(wish["method"], wish["preset"])
    preset = preset_knobs(name, wish["method"], wish["dataset"])
    unusual = name != preset_for(wish["method"], "")
    defaults = recipe | preset if unusual else preset | recipe  # the recipe wins over the default preset alone
    for general, special in (("epochs", "steps"), ("batch_size", "unlabeled_batch")):
        if general in knobs:
            defaults.pop(special, None)  # else asking for the one would do nothing
    settings, params = parse(defaults | knobs | {"preset": name}, kinds)
    if settings.weights not in NO_FILE:
        settings = dataclasses.replace(settings, weights=absolute(settings.weights))
    return settings, params


def whole_knobs(knobs: dict[str, Any]) -> dict[str, Any]:
    """Every knob of a run by its value, but for where its data is."""
    settings, params = resolve(knobs)
    every = dataclasses.asdict(settings) | dataclasses.asdict(params)
    return {name: value for name, value in every.items() if name not in ("labeled", "unlabeled")}


def _fit_model(
    fabric: Fabric,
    directory: RunDirectory,
    encoders: EncoderFactory,
    pair: DomainPair,
    settings: Settings,
    params: Any,
    display: Display,
) -> Model:
    """Train the method; what its network has become is the model."""
    shape = encoders.architecture
    views = Views(
        shape.side, shape.mean, shape.std, settings.weak_view, settings.flip, strong_view=settings.strong_view
    )
    data, where = pair.training_data(views, settings, fabric.device, (fabric.global_rank, fabric.world_size))
    task = Task(len(pair.classes), len(data.labeled), len(data.unlabeled))
    method = methods.get(settings.method)(encoders, params, task, settings)
    if fabric.device.type == "cuda":
        method.to(memory_format=torch.channels_last)
    for part in pair.parts.values():
        for note in part.domain.notes:
            display.note(f"note: {note}")
    display.note(
        f"{task.num_classes} classes, {task.num_labeled} labeled and {task.num_unlabeled} unlabeled training samples; "
        f"{settings.method} on {shape.name}, {fabric.device}{_processes(fabric)}; {where}"
    )
    mark = fingerprint(settings, params, pair)
    trainer = Trainer(fabric, method, data, settings, directory.folder, mark)
    directory.describe(settings, params, pair)  # only now: what the trainer refuses must not look like a run
    trainer.fit(pair.truth, display)
    return Model(settings.method, params, method.network, shape, pair.classes, pair.size, fabric.device)


def _resumed_knobs(out: Path, knobs: dict[str, Any]) -> dict[str, Any]:
    """The run's own settings; those given again must agree unless they do not change what is learnt."""
    stored = stored_knobs(out)
    merged = stored | knobs
    if merged["method"] != stored["method"]:
        raise UserError(f"{out}: a resumed run keeps its settings, but method was {stored['method']}")
    then, now = (dataclasses.asdict(s) | dataclasses.asdict(p) for s, p in (resolve(stored), resolve(merged)))
    changed = [
        f"{name} was {then.get(name)}, now {value}"
        for name, value in now.items()
        if name not in FREE_TO_CHANGE and then.get(name) != value
    ]
    if changed:
        raise UserError(f"{out}: a resumed run keeps its settings, but {'; '.join(changed)}")
    return merged


def _given(source: Any, stored: str) -> Any:
    """The source a resumed run was given again, else the one it began with."""
    return stored if source is None or (isinstance(source, str) and not source) else source


def _processes(fabric: Fabric) -> str:
    return f", {fabric.world_size} processes" if fabric.world_size > 1 else ""


def _look_at_unlabeled(model: Model, pair: DomainPair) -> dict[str, Any]:
    """What some of the unlabeled training samples say: warnings, without their labels; and how many are right.

    The latter, where their labels are known, is for diagnosis: it sees no test sample.
    """
    train = pair.unlabeled.split.train
    some_rows = train[np.linspace(0, len(train) - 1, min(len(train), LOOKED_AT)).astype(np.int64)]
    guesses = model.probabilities(model.predict_store(pair.unlabeled.store, some_rows)).argmax(1)
    advice = methods.get(model.method).advice(model.params)
    labels = pair.labeled.domain.labels[pair.labeled.split.train]
    seen: dict[str, Any] = {"warnings": collapse_warnings(guesses, labels, pair.classes, advice)}
    domain = pair.unlabeled.domain
    known = domain.known[some_rows]
    if known.any():
        right = (guesses == domain.labels[some_rows])[known]
        seen["unlabeled_training"] = {"n": len(right), "accuracy": float(right.mean())}
    return seen


def _predict_test(model: Model, part: Part) -> tuple[Predictions, np.ndarray]:
    return model.predict_store(part.store, part.split.test), part.domain.labels[part.split.test]

"""The recipe of a run: every setting it trains with, from the few that were asked for.

In rising order: the knobs' defaults, the method's preset, what the backbone needs, trained or frozen, what was asked
for.
"""

import dataclasses
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unihssl import methods
from unihssl.config import COLUMN, Settings, former_names, knob_fields, parse
from unihssl.data.source import SEPARATOR
from unihssl.errors import UserError
from unihssl.methods.presets import Knobs
from unihssl.models.backbones import NO_FILE
from unihssl.plain_files import is_there

# Encoders that start from scratch need other settings than pretrained networks, and their runs are short.
_SMALL_ENCODER: Knobs = {"weights": "none", "lr": 0.03, "head_lr": 1.0, "lr_schedule": "cosine", "weak_view": "crop"}
_SMALL_ENCODER |= {"batch_size": 64, "unlabeled_batch": 0, "epochs": 20, "steps": 0, "bottleneck": 0}
_SMALL_ENCODER |= {"sup_lr": 0.03, "sup_epochs": 20, "reversal_steps": 1000.0}
_SMALL_ENCODER |= {"teacher_ema": 0.99, "decay": 0.99}  # averages of SimMatch and FreeMatch
DATASETS = typing.get_args(typing.get_type_hints(Settings)["dataset"])  # that presets may have entries for
# Small steps that change every weight alike; 0.05 is the usual decay of transformers.
OPTIMIZER_KNOBS: dict[str, Knobs] = {
    "adamw": {"lr": 1e-4, "head_lr": 10.0, "sup_lr": 1e-4, "weight_decay": 0.05, "decay_bias_and_norm": False}
}
LENGTHS = {"epochs", "steps", "max_steps"}
MOST_STEPS = 5000  # of a stage, where nobody says how long to train: 100 epochs of large domains would take days
# `apart` is Uni-HSSL's, and gains on digits (docs/recipe.md, round eleven).
_SMALL_CNN: Knobs = _SMALL_ENCODER | {"lr": 0.09, "sup_lr": 0.09, "apart": 0.15}
BACKBONE_KNOBS: dict[str, Knobs] = {"small_cnn": _SMALL_CNN, "mlp": _SMALL_ENCODER}

# With `train=head`. Features of more views take Uni-HSSL most of the time, and make up for it on some pairs only
# (docs/recipe.md, round eight).
FROZEN_KNOBS: dict[str, Knobs] = {"unihssl": {"feature_views": 0}}
# Whoever asks for one of these wants more views.
VIEW_KNOBS = {
    "labeled_view",
    "unlabeled_view",
    "weak_view",
    "strong_view",
    "lambda_consistency",
    "consistency_threshold",
    "min_affinity",
}


def resolve(asked: Mapping[str, Any]) -> tuple[Settings, Any]:
    """Settings and method params of a run, from the knobs asked for by name.

    >>> settings, params = resolve({"method": "mcc", "lr": 0.01})
    >>> settings.lr, params.bottleneck
    (0.01, 2048)
    """
    method = methods.get(str(asked.get("method", Settings.method)))
    preset = preset_name(method.name, str(asked.get("preset", "")))
    kinds = (Settings, method.Params)
    backbone = BACKBONE_KNOBS.get(str(asked.get("backbone", Settings.backbone)), {})
    backbone = backbone | OPTIMIZER_KNOBS.get(str(asked.get("optimizer", Settings.optimizer)), {})
    backbone = {name: value for name, value in backbone.items() if name in knob_fields(*kinds)}
    preset_knobs = _preset_knobs(method.name, preset, str(asked.get("dataset", "")))
    # A backbone's needs override the default preset, but not one that was asked for.
    is_default = preset == preset_name(method.name)
    knobs = preset_knobs | backbone if is_default else backbone | preset_knobs
    if is_default and asked.get("train") == "head" and not VIEW_KNOBS & asked.keys():
        knobs |= FROZEN_KNOBS.get(method.name, {})
    knobs["designed_steps"] = knobs.get("steps", 0)
    if is_default and not LENGTHS & {*knobs, *asked}:
        knobs["max_steps"] = MOST_STEPS
    for general, special in (("epochs", "steps"), ("batch_size", "unlabeled_batch")):
        if general in asked:
            knobs.pop(special, None)  # else asking for the general one would do nothing
    if asked.get("class_weight", "none") != "none":
        knobs.pop("sampling", None)  # of the preset: either makes up for the sizes of the labeled classes
    for name in asked:
        if name not in knob_fields(*kinds) and (owners := methods_with(name)):  # the nearest name would mislead
            raise UserError(f"{name} is a knob of {', '.join(owners)}, not of {method.name}")
    settings, params = parse(knobs | dict(asked) | {"preset": preset}, kinds)
    return with_full_paths(settings), params


def methods_with(knob: str) -> list[str]:
    """The methods that have a knob of this name."""
    return [method.name for method in methods.available().values() if knob in knob_fields(method.Params)]


def all_knobs(settings: Settings, params: Any) -> dict[str, Any]:
    """Every knob of a run by name."""
    return dataclasses.asdict(settings) | dataclasses.asdict(params)


def current_names(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that any version wrote, by the names that they have today."""
    renamed = former_names(Settings, methods.get(str(saved.get("method", Settings.method))).Params)
    return {renamed.get(name, name): value for name, value in saved.items()}


def has_preset(method: str, preset: str) -> bool:
    return preset in methods.get(method).presets


def preset_name(method: str, asked: str = "") -> str:
    """The preset asked for, or the method's default, which is its first; one that it lacks is refused."""
    presets = methods.get(method).presets
    if asked and asked not in presets:
        raise UserError(f"{method} has no preset '{asked}': it has {', '.join(presets)}")
    return asked or next(iter(presets))


def row_name(method: str, preset: str) -> str:
    """What a run is called in tables: its method, and its preset unless that is the default."""
    return method if preset in ("", preset_name(method)) else f"{method}:{preset}"


def with_full_paths(settings: Settings) -> Settings:
    """Settings whose files, of weights and of target labels, can be found from any folder."""
    weights = settings.weights if settings.weights in NO_FILE else absolute(settings.weights)
    target_labels = (
        absolute(settings.target_labels) if settings.target_labels not in ("", COLUMN) else settings.target_labels
    )
    return dataclasses.replace(settings, weights=weights, target_labels=target_labels)


def absolute(source: str) -> str:
    """What is on disk by its full path, so that a run can be resumed and evaluated from anywhere."""
    if is_there(Path(source)):
        return str(Path(source).resolve())
    return SEPARATOR.join(map(absolute, source.split(SEPARATOR))) if SEPARATOR in source else source


def _preset_knobs(method: str, preset: str, dataset: str) -> Knobs:
    """A data set's entry is laid over the general one, under "" ."""
    entries = methods.get(method).presets[preset]
    if unknown := entries.keys() - set(DATASETS):
        listed = f"{', '.join(sorted(unknown))}; there may be some for {', '.join(DATASETS[1:])}"
        raise UserError(f"preset '{preset}' of {method} has entries for unknown data sets: {listed}")
    return {**entries.get("", {}), **(entries.get(dataset, {}) if dataset else {})}

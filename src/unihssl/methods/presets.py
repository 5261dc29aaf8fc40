"""Settings for each method, as data: PRESETS[preset][method][data set], the entry "" serving all data sets.

finetune: pretrained ResNets on domain pairs, after TLlib's published configurations (thuml/Transfer-Learning-Library)
where it has the method, else the closest reading of the method's authors. original: the authors' own settings, most
of them for training from scratch on other data. paper, robust: Uni-HSSL as its paper has it, which is how the classes
of knobs begin, and what a search found to work (docs/recipe.md), which is the default. A data set's entry is laid over
the method's general one.
"""

from typing import Any

from unihssl.errors import UserError

Knobs = dict[str, Any]

_RESIZED = {"weak_view": "resized_crop", "area_labeled": 0.08}
_INVERSE = {"lr_schedule": "inverse", "decay_gamma": 1e-3, "weight_decay": 1e-3, "head_lr": 10.0}
_CENTRE = {"weak_view": "center"}

_FIXMATCH: dict[str, Knobs] = {
    "": {**_INVERSE, **_RESIZED, "decay_gamma": 4e-4, "lr": 3e-4, "area_unlabeled": 0.5, "steps": 20_000}
    | {"bottleneck": 1024, "unlabeled_batch": 32},
    "office-31": {"lr": 1e-4, "bottleneck": 256, "unlabeled_batch": 96},
    "visda-2017": {"bottleneck": 2048, "unlabeled_batch": 64, **_CENTRE},
}
_CDAN: dict[str, Knobs] = {
    "": {**_INVERSE, **_RESIZED, "lr": 1e-3, "steps": 30_000},
    "office-31": {"steps": 20_000},
    "visda-2017": _CENTRE,
}
_MCC: dict[str, Knobs] = {
    "": {**_INVERSE, **_RESIZED, "lr": 5e-4, "batch_size": 36, "steps": 30_000, "bottleneck": 2048},
    "office-31": {"bottleneck": 1024, "steps": 10_000},
    "visda-2017": {"bottleneck": 256, "lr": 2e-4, "temperature": 3.0, **_CENTRE},
}
_BIADAPT: Knobs = {"lr": 5e-4, "weight_decay": 5e-4, "decay_bias_and_norm": False, "nesterov": False} | {
    "lr_schedule": "constant",
    "steps": 2000,
}

_FROM_SCRATCH: Knobs = {
    "lr": 0.03,
    "weight_decay": 5e-4,
    "decay_bias_and_norm": False,
    "lr_schedule": "cosine_7_16",
} | {
    "steps": 2**20,
    "batch_size": 64,
    "unlabeled_batch": 448,
    "threshold": 0.95,
    "bottleneck": 0,
    "batch_norm": "joint",
    "ema": 0.999,
    "strong_view": "randaugment_cutout",
}
_CDAN_ORIGINAL: dict[str, Knobs] = {
    "": {**_INVERSE, **_RESIZED, "lr": 1e-3, "batch_size": 36, "steps": 100_004, "batch_norm": "separate"}
    | {"bottleneck_kind": "linear", "discriminator_dropout": True},
}
_MCC_ORIGINAL: dict[str, Knobs] = {
    "": {**_INVERSE, **_RESIZED, "lr": 3e-4, "batch_size": 28, "steps": 50_004}
    | {"bottleneck": 256, "bottleneck_kind": "bn"},
    "office-home": {"lr": 1e-3},
    "visda-2017": {"batch_size": 36, "steps": 10_004, "temperature": 3.0, **_CENTRE},
}

ROBUST: Knobs = {"initial_statistics": "unlabeled", "first_half": "fold", "lambda_confusion": 1.0, "ramp_up": 1.0} | {
    "unlabeled_view": "strong",
    "pseudo_kind": "hard",
    "beta": 0.5,
    "bottleneck": 1024,
    "lr": 1e-3,
    "head_lr": 10.0,
}

PRESETS: dict[str, dict[str, dict[str, Knobs]]] = {
    "finetune": {
        "fixmatch": _FIXMATCH | {"visda-2017": _FIXMATCH["visda-2017"] | {"threshold": 0.8}},
        "flexmatch": _FIXMATCH,
        "simmatch": {
            "": {"lr": 1e-3, "head_lr": 10.0, "weight_decay": 1e-4, "steps": 20_000, "strong_view": "moco"}
            | {"weak_view": "resized_crop", "area_labeled": 0.2, "area_unlabeled": 0.2}
        },
        "cdan": _CDAN,
        "cdan+sup": _CDAN,
        "mcc": _MCC,
        "mcc+sup": _MCC,
        "biadapt": {"": _BIADAPT},
    },
    "original": {
        "fixmatch": {"": _FROM_SCRATCH},
        "flexmatch": {"": _FROM_SCRATCH},
        "simmatch": {
            "": {"lr": 0.03, "weight_decay": 1e-4, "batch_size": 64, "unlabeled_batch": 320, "strong_view": "moco"}
            | {"epochs": 400, "epoch_length": "unlabeled", "lr_warm_up": 5 / 400}
            | {"weak_view": "resized_crop", "area_labeled": 0.2, "area_unlabeled": 0.2}
        },
        "cdan": _CDAN_ORIGINAL,
        "cdan+sup": _CDAN_ORIGINAL,
        "mcc": _MCC_ORIGINAL,
        "mcc+sup": _MCC_ORIGINAL,
        "biadapt": {"": _BIADAPT | {"batch_size": 64}},
    },
    "paper": {"unihssl": {"": {}}},
    "robust": {"unihssl": {"": ROBUST}},
}
GENERAL = "finetune"
DEFAULT = {"unihssl": "robust"}  # of other methods the general one


# Encoders that start from scratch need other settings than pretrained networks, and their runs are short.
_SMALL_ENCODER: Knobs = {
    "weights": "none",
    "lr": 0.03,
    "head_lr": 1.0,
    "lr_schedule": "cosine",
    "weak_view": "crop",
} | {
    "batch_size": 64,
    "unlabeled_batch": 0,
    "epochs": 20,
    "steps": 0,
    "bottleneck": 0,
    "sup_lr": 0.03,
    "sup_epochs": 20,
    "reversal_steps": 1000.0,
    "teacher_ema": 0.99,
}
RECIPES: dict[str, Knobs] = {"small_cnn": _SMALL_ENCODER, "mlp": _SMALL_ENCODER}


def has_preset(method: str, preset: str) -> bool:
    """The general one belongs to every method that has no default of its own."""
    return preset == "" or method in PRESETS.get(preset, {}) or (preset == GENERAL and method not in DEFAULT)


def preset_for(method: str, wish: str) -> str:
    """The preset asked for, or the method's default; one that it lacks is refused."""
    if not has_preset(method, wish):
        own = [name for name in PRESETS if method in PRESETS[name]]
        raise UserError(f"{method} has no preset '{wish}': it has {', '.join(own) or 'none'}")
    return wish or DEFAULT.get(method, GENERAL)


def preset_knobs(preset: str, method: str, dataset: str) -> Knobs:
    """The knobs a preset sets for a method on a data set."""
    entries = PRESETS.get(preset, {}).get(method, {})
    return entries.get("", {}) | (entries.get(dataset, {}) if dataset else {})

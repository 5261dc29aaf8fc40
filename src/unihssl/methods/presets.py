"""What the presets of several methods have in common. Each method's own are in its file, as `Method.presets`.

`finetune` is for pretrained ResNets on domain pairs: TLlib's published settings (thuml/Transfer-Learning-Library) where
it has the method, else the closest reading of the method's authors. `original` is what the authors used, mostly to
train from scratch on other data.
"""

from typing import Any

Knobs = dict[str, Any]

RESIZED_CROP: Knobs = {"weak_view": "resized_crop", "area_labeled": 0.08}
CENTER_CROP: Knobs = {"weak_view": "center"}
INVERSE_DECAY: Knobs = {"lr_schedule": "inverse", "decay_gamma": 1e-3, "weight_decay": 1e-3, "head_lr": 10.0}

# FixMatch and its kin.
FINETUNE_MATCH: dict[str, Knobs] = {
    "": {**INVERSE_DECAY, **RESIZED_CROP, "decay_gamma": 4e-4, "lr": 3e-4, "area_unlabeled": 0.5, "steps": 20_000}
    | {"bottleneck": 1024, "unlabeled_batch": 32},
    "office-31": {"lr": 1e-4, "bottleneck": 256, "unlabeled_batch": 96},
    "visda-2017": {"bottleneck": 2048, "unlabeled_batch": 64, **CENTER_CROP},
}
ORIGINAL_MATCH: Knobs = {
    "lr": 0.03,
    "lr_schedule": "cosine_7_16",
    "weight_decay": 5e-4,
    "decay_bias_and_norm": False,
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

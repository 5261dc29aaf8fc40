"""The settings that `unihssl.fit` takes by name. Written by scripts/build_knobs.py; do not edit."""

from typing import Literal, TypedDict


class Knobs(TypedDict, total=False):
    """Settings of every run, then those of single methods; `unihssl methods NAME` explains them."""

    method: str
    preset: str
    dataset: Literal["", "office-31", "office-home", "visda-2017", "isic-2019"]
    backbone: str
    weights: str
    train: Literal["full", "head"]
    feature_views: int
    seed: int
    target_share: float
    unlabeled_layout: Literal["auto", "classes", "flat"]
    match_classes: Literal["same", "labeled"]
    path_column: str
    label_column: str
    group_by: str
    test_fraction: float
    split: Literal["stratified", "random", "search", "reserved"]
    label_shift: float
    intensity: str
    channels: int
    image_size: int
    input_size: int
    cache: str
    weak_view: Literal["crop", "translate", "resized_crop", "center"]
    area_labeled: float
    area_unlabeled: float
    strong_view: Literal["randaugment", "randaugment_cutout", "randaugment_imagenet", "moco"]
    labeled_view: Literal["weak", "half_strong"]
    flip: bool
    epochs: int
    steps: int
    designed_steps: int
    max_steps: int
    epoch_length: Literal["max", "min", "unlabeled"]
    batch_size: int
    unlabeled_batch: int
    class_weight: Literal["none", "balanced", "logit_adjust"]
    sampling: Literal["shuffle", "balanced"]
    optimizer: Literal["sgd", "adamw"]
    lr: float
    layer_decay: float
    head_lr: float
    momentum: float
    nesterov: bool
    weight_decay: float
    decay_bias_and_norm: bool
    lr_schedule: Literal["cosine", "cosine_7_16", "constant", "inverse"]
    cosine_horizon: float
    lr_warm_up: float
    decay_gamma: float
    decay_power: float
    progress_by: Literal["iteration", "epoch"]
    placement: Literal["auto", "gpu", "host", "disk"]
    device: Literal["auto", "cpu", "cuda"]
    devices: int
    nodes: int
    sync_batch_norm: bool
    precision: Literal["auto", "bf16", "fp32"]
    graph: Literal["auto", "network", "off"]
    threads: int
    deterministic: bool
    log_every: int
    checkpoint_seconds: float
    tensorboard: bool
    track: Literal["", "mlflow", "wandb"]
    tau: float
    lambda_u: float
    bottleneck: int
    ema: float
    transfer: Literal["mmd", "coral", "adv"]
    lambda_t: float
    lambda_s: float
    reversal_steps: float
    trade_off: float
    entropy: Literal["none", "official", "tllib"]
    randomized: int
    bottleneck_kind: Literal["bn_relu", "relu", "bn", "linear"]
    batch_norm: Literal["joint", "separate"] | Literal["separate", "joint"]
    discriminator_dropout: bool
    sup_epochs: int
    sup_lr: float
    router: Literal["network", "frozen"]
    router_epochs: int
    threshold: float
    threshold_warm_up: bool
    decay: float
    lambda_fair: float
    mu: float
    temperature: float
    lambda_in: float
    smoothing: float
    align: bool
    queue: int
    projection: int
    teacher_ema: float
    pretrain_epochs: int
    pretrain_lr_schedule: Literal["constant", "cosine"]
    beta: float
    epsilon: float
    alpha: float
    lambda_cl: float
    lambda_pl: float
    lambda_pa: float
    lambda_mixup: float
    pretrain_steps: int
    initial_statistics: Literal["labeled", "unlabeled"]
    unlabeled_view: Literal["weak", "strong"]
    unlabeled_sampling: Literal["shuffle", "balanced"]
    ramp_up: float
    lambda_confusion: float
    confusion_temperature: float
    lambda_consistency: float
    consistency_threshold: float
    min_affinity: float
    initial_view: Literal["test", "train"]
    second_half: Literal["random", "zeros", "copy"]
    pseudo_update: Literal["wma", "previous"]
    pseudo_refresh: Literal["step", "epoch"]
    pseudo_kind: Literal["soft", "hard"]
    confidence: Literal["max", "unlabeled_mass"]
    first_half: Literal["keep", "fold", "drop"]
    pseudo_mean: Literal["batch", "kept"]
    prototypes: Literal["memory", "batch", "epoch", "full"]
    prototype_momentum: float
    prototype_mean: Literal["class", "literal"]
    missing_classes: Literal["skip", "zero"]
    include_positive: bool
    alignment_reduction: Literal["sum", "mean"]
    mixup_schedule: Literal["progressive", "simple", "mixmatch"]
    mixup_draw: Literal["sample", "batch"]
    mixup_gate: bool
    mixup_reduction: Literal["sum", "mean"]
    apart: float
    prediction: Literal["argmax", "sum"]

"""Every knob of a run that is not a method's own: its name, type, default, range and help, declared once.

Methods declare their knobs the same way, in a dataclass of their own. The command line, YAML files and
documentation all read these fields; `parse` is the one way values from outside become settings.
"""

import contextlib
import dataclasses
import difflib
import functools
import os
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from unihssl.errors import Setting, UserError

COLUMN = "column"  # as `target_labels`: the labels that the unlabeled source itself has


def knob(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    changes_result: bool = True,
    formerly: str = "",
) -> Any:
    """A dataclass field with its documentation and its inclusive range.

    `changes_result` is False for knobs that do not change what is learnt: a resumed run may set them anew. `formerly`
    is the name an earlier version gave the knob: files that it wrote can still be read.
    """
    about = {"help": help, "low": low, "high": high, "changes_result": changes_result, "formerly": formerly}
    return field(default=default, metadata=about)


# `preset` is one of these: it only names knobs, and each of those changes the result by itself.
neutral = functools.partial(knob, changes_result=False)


# Knobs of how a source is read, which may change after training.
READING = ("path_column", "label_column", "unlabeled_layout", "match_classes", "group_by")


@dataclass(frozen=True)
class Settings:
    """What every run has, whatever its method. Defaults are the paper's where it states one; presets come on top."""

    method: str = knob("unihssl", "Name of the training method.")
    preset: str = neutral(
        "",
        "The method's settings: `finetune` for pretrained networks or its authors' `original`; of Uni-HSSL `paper` or "
        "`robust`; empty: the method's default.",
    )
    dataset: Literal["", "office-31", "office-home", "visda-2017", "isic-2019"] = knob(
        "", "Benchmark whose own entry of the preset applies."
    )
    backbone: str = knob("resnet50", "A timm model name, or `small_cnn` (tiny images), or `mlp` (vectors).")
    weights: str = knob("pretrained", "`pretrained` (timm's hub), `none`, or a weights file.")
    train: Literal["full", "head"] = knob(
        "full", "Train all layers, or the layers behind a frozen backbone, on features that are computed once (`head`)."
    )
    feature_views: int = knob(
        1,
        "With train=head: how many weak views, and strong ones, of each image have their features computed; 0: only "
        "the test view, in the least time, which is unihssl's default (preset=robust).",
        low=0,
    )
    seed: int = knob(0, "Seeds the split, the initial weights and every random draw.", low=0)

    labeled: str = neutral("", "Source of the labeled domain: folder of class folders, CSV or .npz.")
    unlabeled: str = neutral("", "Source of the unlabeled domain: folder, CSV, .npz or .npy.")
    target_labels: str = knob(
        "",
        "Labels of the unlabeled domain to train on: a CSV (path,label), or `column` for the filled labels of an "
        "unlabeled CSV.",
    )
    target_share: float = knob(
        0.25,
        "Samples with target labels in every step, as a share of batch_size; proportionally fewer below 32 labels.",
        low=0.01,
        high=1,
    )
    unlabeled_layout: Literal["auto", "classes", "flat"] = knob(
        "auto", "Do the unlabeled folder's sub-folders name classes? `auto` looks; `flat` ignores them."
    )
    match_classes: Literal["same", "labeled"] = knob(
        "same", "Must both domains hold the same classes, or may the unlabeled one lack some (`labeled`)?"
    )
    path_column: str = knob("path", "CSV column with the image path, relative to the CSV.")
    label_column: str = knob("label", "CSV column with the class name; empty in unlabeled rows.")
    group_by: str = knob("", "CSV column whose groups (patient, lesion) never straddle the split.")
    test_fraction: float = knob(0.1, "Share of each domain held out for testing.", low=0, high=0.9)
    split: Literal["stratified", "random", "search", "reserved"] = knob(
        "stratified",
        "How test images are drawn in each domain: by class or from all; `reserved`: a fixed fifth, whatever the seed; "
        "`search`: by class, and that fifth is not touched, neither for training nor for testing.",
    )
    label_shift: float = knob(
        1.0,
        "Thin the unlabeled training classes geometrically, the last to 1/label_shift (needs truth).",
        low=1,
    )
    intensity: str = knob(
        "auto",
        "What becomes black and white in images of more than 8 bits, for each domain from its training images: `auto` "
        "(the files' windows, else the range of the values), `full` (the format's range), `percentile`, or "
        "window:LOW,HIGH.",
    )
    channels: int = knob(3, "Channels of an image: 3 takes colours and grey, 1 makes all grey.", low=1, high=512)
    image_size: int = knob(
        0, "Side of the stored square images; 0: small ones keep their size, else by backbone.", low=0, high=2048
    )
    input_size: int = knob(
        0,
        "Side of the square images that the network sees; 0: the backbone's own. Stored ones follow it.",
        low=0,
        high=2048,
    )
    cache: str = neutral(
        "", "Folder for decoded images, so that they are decoded once; empty: ~/.cache/unihssl; `none`: keep nothing."
    )
    weak_view: Literal["crop", "translate", "resized_crop", "center"] = knob(
        "crop", "Training view: random crop, shift by up to 12.5%, random resized crop, or the centre."
    )
    area_labeled: float = knob(0.08, "Least area of a resized crop, labeled domain.", low=0.01, high=1)
    area_unlabeled: float = knob(0.08, "Least area of a resized crop, unlabeled domain.", low=0.01, high=1)
    strong_view: Literal["randaugment", "randaugment_cutout", "randaugment_imagenet", "moco"] = knob(
        "randaugment", "Strong view: timm's m10-n2, TorchSSL's with Cutout, FixMatch's for ImageNet, or MoCo-v2's."
    )
    labeled_view: Literal["weak", "half_strong"] = knob(
        "weak",
        "Views of labeled samples to train on: weak ones, or strong ones of half of each step's samples.",
    )
    flip: bool = knob(True, "Flip training images left-right at random. Turn off where it changes the class.")

    epochs: int = knob(
        100, "Epochs of the main training stage; asked for, they are not capped by a default max_steps.", low=0
    )
    steps: int = knob(0, "Steps of the main training stage, in place of epochs; 0 goes by epochs.", low=0)
    designed_steps: int = knob(
        0,
        "Steps that the preset's time constants (gradient reversal, moving averages) were made for: they are scaled to "
        "the run's length; the decay of the learning rate is not. 0: used as they are.",
        low=0,
    )
    max_steps: int = knob(0, "Cap on the steps of each stage; 0 means none.", low=0)
    epoch_length: Literal["max", "min", "unlabeled"] = knob(
        "max", "An epoch passes once over the larger domain, the smaller, or the unlabeled one."
    )
    batch_size: int = knob(32, "Samples of each domain in a step.", low=2)
    unlabeled_batch: int = knob(0, "Samples of the unlabeled domain in a step, if other than batch_size.", low=0)
    class_weight: Literal["none", "balanced", "logit_adjust"] = knob(
        "none",
        "Imbalance of the labeled classes: weigh their loss by inverse frequency, or train on logits shifted by their "
        "log frequency (Menon et al., 2021).",
    )
    sampling: Literal["shuffle", "balanced"] = knob(
        "shuffle", "Labeled samples of a step: all in turn, or every class equally often."
    )
    optimizer: Literal["sgd", "adamw"] = knob("sgd", "SGD with momentum, or AdamW, which most transformers need.")
    lr: float = knob(5e-4, "Learning rate.", low=0)
    layer_decay: float = knob(
        1.0, "Multiplies the backbone's learning rate once more for each layer further from its end.", low=0.01, high=1
    )
    head_lr: float = knob(1.0, "Multiplies the learning rate of layers that are not in the backbone.", low=0)
    momentum: float = knob(0.9, "Momentum of SGD; the first beta of AdamW.", low=0, high=0.9999)
    nesterov: bool = knob(True, "Nesterov's form of the momentum.")
    weight_decay: float = knob(1e-3, "L2 regularisation.", low=0)
    decay_bias_and_norm: bool = knob(True, "Apply weight decay to biases and normalisation layers too.")
    lr_schedule: Literal["cosine", "cosine_7_16", "constant", "inverse"] = knob(
        "cosine",
        "Learning-rate schedule: cosine to 0, cos(7 pi t / 16), none, (1 + decay_gamma * step)^-decay_power.",
        formerly="schedule",
    )
    cosine_horizon: float = knob(1.0, "Length of the cosine in units of the stage; above 1 ends before 0.", low=1)
    lr_warm_up: float = knob(0.0, "Share of the stage in which the rate first rises linearly.", low=0, high=1)
    decay_gamma: float = knob(1e-3, "Speed of the inverse schedule.", low=0)
    decay_power: float = knob(0.75, "Power of the inverse schedule.", low=0)
    progress_by: Literal["iteration", "epoch"] = knob(
        "iteration", "What moves the schedule and the mixup ramp forward."
    )

    placement: Literal["auto", "gpu", "host", "disk"] = neutral(
        "auto",
        "Where decoded samples are kept: on the GPU, in host memory, memory-mapped; `auto`: the first with room.",
        formerly="home",
    )
    device: Literal["auto", "cpu", "cuda"] = neutral("auto", "Where to train.")
    devices: int = neutral(1, "GPUs (or CPU processes) per machine; taken from torchrun or SLURM.", low=1)
    nodes: int = neutral(1, "Number of machines; taken from torchrun or SLURM.", low=1)
    sync_batch_norm: bool = knob(True, "With several processes: BatchNorm's statistics are of the whole batch.")
    precision: Literal["auto", "bf16", "fp32"] = knob("auto", "`auto` is bf16 autocast on a GPU, else fp32.")
    graph: Literal["auto", "network", "off"] = neutral(
        "auto",
        "Replay training steps as CUDA graphs; whole on one GPU, if the method never waits for it; else, "
        "or with `network`, the passes through the network, unless their BatchNorm is synchronised.",
    )
    threads: int = neutral(
        0,
        "CPU threads of PyTorch in training; another number gives other last digits. 0: as PyTorch has it.",
        low=0,
        high=4096,
    )
    deterministic: bool = knob(
        False,
        "Only algorithms whose results are the same every time, at some cost in speed: on a GPU the same seed then "
        "gives the same weights. On a CPU it does anyway, with the same number of threads.",
    )
    log_every: int = neutral(50, "Steps between two lines of the log.", low=1)
    checkpoint_seconds: float = neutral(
        30.0, "Least time between two checkpoints (written at epoch ends); 0 writes one every epoch.", low=0
    )
    tensorboard: bool = neutral(True, "Write TensorBoard events beside metrics.jsonl.")
    track: Literal["", "mlflow", "wandb"] = neutral("", "Also send the readings to MLflow or Weights & Biases.")

    def __post_init__(self) -> None:
        fixed_window(self.intensity)
        if self.class_weight != "none" and self.sampling == "balanced":
            raise UserError(
                f"class_weight={self.class_weight} and sampling=balanced correct one imbalance twice: "
                f"use either ({Setting('sampling', 'shuffle')})"
            )
        if self.unlabeled_batch == 1:
            raise UserError(
                "unlabeled_batch must be 0 (as batch_size) or at least 2: BatchNorm cannot do with one sample"
            )


def fixed_window(intensity: str) -> tuple[float, float] | None:
    """LOW and HIGH of `window:LOW,HIGH`; None for a rule.

    >>> fixed_window("window:-1000,400")
    (-1000.0, 400.0)
    """
    if intensity in ("auto", "full", "percentile"):
        return None
    try:
        kind, _, ends = intensity.partition(":")
        low, high = map(_to_float, ends.split(","))
        if kind == "window" and low < high:
            return low, high
    except ValueError:
        pass
    raise UserError(f"intensity must be auto, full, percentile or window:LOW,HIGH with LOW < HIGH, got '{intensity}'")


def knob_fields(*classes: type) -> dict[str, tuple[dataclasses.Field[Any], Any]]:
    """Name -> (field, resolved type) over the given dataclasses."""
    found: dict[str, tuple[dataclasses.Field[Any], Any]] = {}
    for cls in classes:
        hints = typing.get_type_hints(cls)
        found |= {f.name: (f, hints[f.name]) for f in dataclasses.fields(cls)}
    return found


def changes_result(name: str, *classes: type) -> bool:
    """Whether a knob of Settings, or of these dataclasses, changes what is learnt; unknown ones may."""
    found = knob_fields(Settings, *classes).get(name)
    return found is None or bool(found[0].metadata.get("changes_result", True))


def deciding_knobs(*parts: Any) -> dict[str, Any]:
    """Every knob that changes what is learnt, unless at its default: a later version may have more of them."""
    return {
        spec.metadata.get("formerly") or spec.name: value  # runs of earlier versions are recognised by it
        for part in parts
        for spec in dataclasses.fields(part)
        if spec.metadata.get("changes_result", True) and (value := getattr(part, spec.name)) != spec.default
    }


def parse(values: Mapping[str, Any], classes: Sequence[type]) -> tuple[Any, ...]:
    """Build one instance of each dataclass from a flat mapping; names and values are checked.

    >>> settings, = parse({"epochs": "5"}, (Settings,))
    >>> settings.epochs
    5
    """
    fields = knob_fields(*classes)
    for name in values:
        if name not in fields:
            if name in (renamed := former_names(*classes)):
                raise UserError(f"unknown setting '{name}': it is now called '{renamed[str(name)]}'")
            near = difflib.get_close_matches(str(name), fields, n=1, cutoff=0.5)
            hint = f"did you mean '{near[0]}'?" if near else f"the knobs are: {', '.join(sorted(fields))}"
            raise UserError(f"unknown setting '{name}': {hint}")
    clean = {name: _convert(name, value, *fields[name]) for name, value in values.items()}
    return tuple(cls(**{f.name: clean[f.name] for f in dataclasses.fields(cls) if f.name in clean}) for cls in classes)


def parse_saved(values: Mapping[str, Any], classes: Sequence[type], where: str = "") -> tuple[Any, ...]:
    """The same for values from a file that any version wrote: former names are understood, unknown ones ignored.

    Errors name the file, `where`.

    >>> parse_saved({"home": "host", "gone": 1}, (Settings,))[0].placement
    'host'
    """
    renamed = former_names(*classes)
    current = {renamed.get(name, name): value for name, value in values.items()}
    if current.get("sampling") == "auto":  # gone; it drew by class only where one was rare
        current["sampling"] = "shuffle"
    try:
        return parse({name: value for name, value in current.items() if name in knob_fields(*classes)}, classes)
    except UserError as error:
        raise UserError(f"{where}: {error.args[0]}" if where else error.args[0]) from None


def former_names(*classes: type) -> dict[str, str]:
    """Former name of a knob -> its name today."""
    fields = knob_fields(*classes)
    formers = {spec.metadata.get("formerly"): name for name, (spec, _) in fields.items()}
    return {former: name for former, name in formers.items() if former and former not in fields}


def describe_knobs(*classes: type) -> list[tuple[str, str, str, str]]:
    """Name, default, allowed values and help of every knob, as text."""
    rows = []
    for name, (spec, kind) in knob_fields(*classes).items():
        low, high = spec.metadata.get("low"), spec.metadata.get("high")
        allowed = "|".join(typing.get_args(kind)) if typing.get_origin(kind) is Literal else kind.__name__
        if low is not None or high is not None:
            allowed += f" {'' if low is None else f'{low:g}'}..{'' if high is None else f'{high:g}'}"
        rows.append((name, str(spec.default), allowed, spec.metadata.get("help", "")))
    return rows


def _convert(name: str, value: Any, spec: dataclasses.Field[Any], kind: Any) -> Any:
    if typing.get_origin(kind) is Literal:
        return _choice(name, value, typing.get_args(kind))
    try:
        converted = _CONVERTERS[kind](value)
    except (ValueError, TypeError, OverflowError):
        raise UserError(f"{name} must be {_KIND_NAMES[kind]}, got {_shown(value)}") from None
    low, high = spec.metadata.get("low"), spec.metadata.get("high")
    if (low is not None and converted < low) or (high is not None and converted > high):
        bounds = f"between {low:g} and {high:g}" if None not in (low, high) else ""
        bounds = bounds or (f"at least {low:g}" if low is not None else f"at most {high:g}")
        nearest = low if low is not None and converted < low else high
        raise UserError(f"{name} must be {bounds}, got {value}; the nearest valid value is {nearest:g}")
    return converted


def _choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    if value in choices:
        return str(value)
    if value is False and "off" in choices:  # what YAML makes of it
        return "off"
    near = difflib.get_close_matches(_shown(value).strip("'"), choices, n=1, cutoff=0.7)
    hint = f" (nearest: {near[0]})" if near else ""
    raise UserError(f"{name} must be one of {', '.join(choices)}, got {_shown(value)}{hint}")


def _shown(value: Any) -> str:
    """A value for a message, cut short; Python refuses to print some."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits; a list in a list in a list
        return f"a strange {type(value).__name__}"
    return text if len(text) <= 500 else f"{text[:500]}..."


def _to_text(value: Any) -> str:
    if isinstance(value, str | os.PathLike | int | float) and not isinstance(value, bool):
        return str(value)
    raise TypeError


def _to_int(value: Any) -> int:
    with contextlib.suppress(ValueError):
        if isinstance(value, str | int) and not isinstance(value, bool):
            return _bounded(int(value))
    number = _to_float(value)
    if number != int(number):
        raise ValueError
    return _bounded(int(number))


def _bounded(number: int) -> int:
    if abs(number) >= 2**63:
        raise OverflowError
    return number


def _to_float(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    number = float(value)
    if not abs(number) <= 1e38:  # what a float32 can hold; a NaN is refused here too
        raise ValueError
    return number


def _to_bool(value: Any) -> bool:
    text = str(value).lower()
    if text in ("true", "yes", "on", "1"):
        return True
    if text in ("false", "no", "off", "0"):
        return False
    raise ValueError


_CONVERTERS: Mapping[Any, Any] = types.MappingProxyType({int: _to_int, float: _to_float, bool: _to_bool, str: _to_text})
_KIND_NAMES = {int: "a whole number", float: "a finite number", bool: "true or false", str: "text"}

"""The knobs of Uni-HSSL."""

from dataclasses import dataclass
from typing import Literal

from unihssl.config import knob
from unihssl.errors import Setting, UserError
from unihssl.methods.presets import Knobs


@dataclass(frozen=True)
class UniHSSLParams:
    """The paper's constants, and one knob for each point that it leaves open (docs/decisions.md)."""

    pretrain_epochs: int = knob(10, "Epochs of supervised pre-training.", low=0)
    pretrain_lr_schedule: Literal["constant", "cosine"] = knob(
        "constant", "Learning-rate schedule of pre-training.", formerly="pretrain_schedule"
    )
    beta: float = knob(0.8, "Share of the old pseudo-label kept in an update (Eq. 5).", low=0, high=1)
    epsilon: float = knob(0.5, "Pseudo-labels must exceed this confidence to be trusted (Eq. 6).", low=0, high=1)
    tau: float = knob(0.5, "Temperature of prototype alignment (Eq. 9).", low=0.001)
    alpha: float = knob(0.75, "Beta(alpha, alpha) of the mixup ratio (Eq. 11).", low=0.01)
    lambda_cl: float = knob(1.0, "Weight of the labeled loss.", low=0)
    lambda_pl: float = knob(1.0, "Weight of the pseudo-label loss.", low=0)
    lambda_pa: float = knob(0.01, "Weight of prototype alignment.", low=0)
    lambda_mixup: float = knob(1.0, "Weight of the mixup loss.", low=0)

    pretrain_steps: int = knob(0, "Pre-training takes at least so many steps, however few the labeled samples.", low=0)
    initial_statistics: Literal["labeled", "unlabeled"] = knob(
        "labeled",
        "BatchNorm statistics for the initial pseudo-labels: the labeled domain's, or the unlabeled one's (AdaBN).",
    )
    unlabeled_view: Literal["weak", "strong"] = knob(
        "weak",
        "What the losses but prototype alignment see of unlabeled samples; pseudo-labels and "
        "prototypes of these are always made from weak views.",
    )
    unlabeled_sampling: Literal["shuffle", "balanced"] = knob(
        "shuffle",
        "Unlabeled samples of a step: all in turn, or every class equally often, by the pseudo-labels at the start of "
        "each epoch.",
    )
    ramp_up: float = knob(
        0.0, "Share of the stage in which the pseudo-label, prototype and mixup losses rise from 0.", low=0, high=1
    )
    lambda_confusion: float = knob(0.0, "Weight of MCC's class confusion of the unlabeled batch.", low=0)
    confusion_temperature: float = knob(2.5, "Softens predictions before their confusion is taken.", low=0.01)

    lambda_consistency: float = knob(
        0.0,
        "Weight of consistency: strong views (unlabeled_view=strong) against the classes of confident pseudo-labels.",
        low=0,
    )
    consistency_threshold: float = knob(
        0.9, "Pseudo-labels must exceed this confidence for consistency to take their class.", low=0, high=1
    )
    min_affinity: float = knob(
        0.0,
        "Class confusion sees weak views if strong ones keep less than this share of the accuracy on the labeled "
        "training samples after pre-training.",
        low=0,
        high=1,
    )

    initial_view: Literal["test", "train"] = knob("test", "View that the initial pseudo-labels are made from.")
    second_half: Literal["random", "zeros", "copy"] = knob("random", "Start of the unlabeled half of the head.")
    bottleneck: int = knob(0, "Width of a layer between backbone and head; 0 for none.", low=0)
    pseudo_update: Literal["wma", "previous"] = knob(
        "wma", "Moving average (Eq. 5), or the prediction of the sample's previous visit (ablation w/o WMA)."
    )
    pseudo_refresh: Literal["step", "epoch"] = knob(
        "step", "Update a pseudo-label when its sample is drawn, or all at each epoch's start from test views."
    )
    pseudo_kind: Literal["soft", "hard"] = knob("soft", "Targets as they are, or their argmax.")
    confidence: Literal["max", "unlabeled_mass"] = knob(
        "max", "What epsilon is compared with: the largest of the 2C entries, or the unlabeled half's sum."
    )
    first_half: Literal["keep", "fold", "drop"] = knob(
        "keep",
        "Pseudo-label mass in the labeled half: leave it, add it to the other half, or distrust the sample.",
    )
    pseudo_mean: Literal["batch", "kept"] = knob(
        "batch", "Divide the pseudo-label loss by all samples, or by the trusted ones."
    )
    prototypes: Literal["memory", "batch", "epoch", "full"] = knob(
        "memory", "Prototypes from a moving average, the batch, the epoch so far or all data."
    )
    prototype_momentum: float = knob(0.9, "Share of the old prototype kept (memory).", low=0, high=0.9999)
    prototype_mean: Literal["class", "literal"] = knob("class", "Divide by the class's samples, or by all (Eq. 7).")
    missing_classes: Literal["skip", "zero"] = knob("skip", "Classes without both prototypes: left out, or zero.")
    include_positive: bool = knob(False, "Positive pair in the denominators of Eq. 9 (InfoNCE).")
    alignment_reduction: Literal["sum", "mean"] = knob("sum", "Eq. 9 over the classes.")
    mixup_schedule: Literal["progressive", "simple", "mixmatch"] = knob(
        "progressive", "Eq. 11, plain Beta (ablation w/o Prog. Mixup), or MixMatch's pooled mixing."
    )
    mixup_draw: Literal["sample", "batch"] = knob("sample", "One mixing ratio for each sample or for the batch.")
    mixup_gate: bool = knob(False, "Leave samples with untrusted pseudo-labels out of the mixup loss.")
    mixup_reduction: Literal["sum", "mean"] = knob("sum", "Eq. 12 over the 2C classes.")
    batch_norm: Literal["joint", "separate"] = knob(
        "joint", "One forward pass over labeled, unlabeled and mixed samples, or one for each."
    )
    apart: float = knob(
        0.0,
        "Share of the stage, from its start, in whose steps labeled, unlabeled and mixed samples have a pass each, "
        "where the first pseudo-labels have about even classes.",
        low=0,
        high=1,
    )
    prediction: Literal["argmax", "sum"] = knob("argmax", "Class from the 2C: argmax mod C, or sum of halves.")

    def __post_init__(self) -> None:
        if self.first_half == "fold" and self.confidence == "unlabeled_mass":
            fold, mass = Setting("first_half", "fold"), Setting("confidence", "unlabeled_mass")
            raise UserError(f"{fold} leaves no mass in the labeled half: the confidence of {mass} would always be 1")


PAPER: Knobs = {"apart": 0.0}  # whatever the backbone: `small_cnn` sets it
# The default: what a search found to work (docs/recipe.md has each knob's reason and worth).
ROBUST: Knobs = {"initial_statistics": "unlabeled", "first_half": "fold", "lambda_confusion": 1.0, "ramp_up": 1.0}
ROBUST |= {"unlabeled_view": "strong", "labeled_view": "half_strong", "lambda_consistency": 1.0}
ROBUST |= {"min_affinity": 0.93, "pseudo_kind": "hard", "beta": 0.5}
ROBUST |= {"bottleneck": 1024, "lr": 1e-3, "head_lr": 10.0, "sampling": "balanced", "unlabeled_sampling": "balanced"}

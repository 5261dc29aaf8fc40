"""What a method is: a network, its memory, and stages whose steps turn a batch into named losses."""

import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unihssl.config import Settings
from unihssl.data.batches import PairedBatch, PairedData
from unihssl.losses import soft_cross_entropy
from unihssl.methods.ema import EMA
from unihssl.methods.process_group import ProcessGroup
from unihssl.models.classifier import Classifier

Capture = Literal["step", "network", "nothing"]  # what a CUDA graph holds; `network`: forward passes alone
MakeEncoder = Callable[[], tuple[nn.Module, int]]
Presets = Mapping[str, Mapping[str, Mapping[str, Any]]]  # preset -> data set ("" for all) -> knobs
P = TypeVar("P")  # the dataclass of a method's own knobs


@dataclass(frozen=True)
class Task:
    """The sizes a method's networks and memories depend on."""

    num_classes: int
    num_labeled: int
    num_unlabeled: int
    num_target: int = 0  # slots for samples with target labels, which may hold one sample several times
    class_counts: tuple[int, ...] = ()  # labeled training samples of each class; empty: as many of each


@dataclass(frozen=True)
class NoParams:
    """A method without knobs of its own."""


class Losses:
    """A step's loss terms with their weights in the objective, and statistics to log.

    >>> losses = Losses()
    >>> losses.add("labeled", torch.tensor(2.0))
    >>> losses.add("entropy", torch.tensor(4.0), weight=0.1)
    >>> losses.total()
    tensor(2.4000)
    """

    def __init__(self) -> None:
        self.terms: dict[str, Tensor] = {}
        self.weights: dict[str, float | Tensor] = {}
        self.stats: dict[str, Tensor] = {}

    def add(self, name: str, value: Tensor, weight: float | Tensor = 1.0) -> None:
        """Add `weight * value` to the objective; the log shows the value with and without its weight."""
        if name in self.terms:
            raise ValueError(f"loss term '{name}' was added already")
        self.terms[name], self.weights[name] = value, weight

    def log(self, name: str, value: Tensor) -> None:
        """Log a statistic that is not trained on."""
        if name in self.stats:
            raise ValueError(f"statistic '{name}' was logged already")
        self.stats[name] = value

    def total(self) -> Tensor:
        """The objective: the weighted sum of all terms."""
        return torch.stack([*self.weighted.values()]).sum()

    @cached_property
    def weighted(self) -> dict[str, Tensor]:
        """Every term as it counts in the objective, once all are added."""
        return {name: self.weights[name] * term for name, term in self.terms.items()}

    def readings(self) -> dict[str, Tensor]:
        """Everything to log, detached: `terms/NAME`, `weighted/NAME` and `stats/NAME`."""
        groups = {"terms": self.terms, "weighted": self.weighted, "stats": self.stats}
        return {f"{group}/{name}": v.detach() for group, values in groups.items() for name, v in values.items()}


@dataclass(frozen=True)
class Stage:
    """A part of training with one kind of step, its own optimiser and its own schedule."""

    name: str
    step: Callable[[PairedBatch], Losses]
    settings: Settings  # its length, learning rate and schedule
    epoch_length: Literal["labeled", "max", "min", "unlabeled"]
    trains: nn.Module | None = None  # what its optimiser sees; None is everything
    optional: bool = False  # whether it may have no steps
    capture: Capture = "step"  # whole steps can be captured if all memory they touch is fixed
    begin: Callable[[PairedData], None] | None = None
    each_epoch: Callable[[PairedData, int], None] | None = None
    draw: Callable[[PairedData], None] | None = None  # after `each_epoch` and on resuming: what to draw, by its buffers
    kind: Callable[[float], str] | None = None  # of a step, from the progress: a captured one stands for its kind alone


class Output(NamedTuple):
    """Predictions of a trained network for a batch: class probabilities by each rule, and the domain."""

    probabilities: dict[str, Tensor]  # rule -> (B, C)
    unlabeled_domain: Tensor | None = None  # (B,) probability of the unlabeled domain
    oracle: tuple[str, str] | None = None  # the rules to use if the domain were known: labeled, unlabeled


class Method(nn.Module, Generic[P]):
    """Base class: `class MCC(Method[MCCParams])` sets `name`, `paper`, and defines `step`, or several `stages`.

    Whatever a method must remember between steps is a buffer, so that checkpoints carry it. Only `network` is kept
    for prediction.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    Params: ClassVar[type] = NoParams
    presets: ClassVar[Presets] = {"finetune": {}}  # the first is the default
    needs_truth: ClassVar[bool] = False  # only for ceilings: steps may see the unlabeled domain's labels
    network: Classifier
    class_shares: Tensor

    def __init_subclass__(cls, **options: Any) -> None:
        """`Method[MCCParams]` names the class of the method's knobs."""
        super().__init_subclass__(**options)
        for base in vars(cls).get("__orig_bases__", ()):
            origin, arguments = typing.get_origin(base), typing.get_args(base)
            if isinstance(origin, type) and issubclass(origin, Method) and isinstance(arguments[0], type):
                cls.Params = arguments[0]

    def __init__(self, make_encoder: MakeEncoder, params: P, task: Task, settings: Settings) -> None:
        super().__init__()
        self.params, self.task, self.settings = params, task, settings
        self.processes = ProcessGroup()
        counts = torch.tensor(task.class_counts or (1,) * task.num_classes, dtype=torch.get_default_dtype())
        self.register_buffer("class_shares", counts / counts.mean(), persistent=False)  # 1 for all if they are balanced
        self.time_scale = 1.0  # steps of the preset's design to one step of this stage
        self.ema: EMA | None = None  # of `network`
        self.network = self.make_network(make_encoder)
        self.setup(make_encoder)

    def setup(self, make_encoder: MakeEncoder) -> None:
        """Build what the method has beside its network: buffers, further networks."""

    def stages(self) -> list[Stage]:
        """What to train, in order: one stage of `step` by default."""
        return [Stage(self.name, self.step, self.settings, self.settings.epoch_length)]

    def step(self, batch: PairedBatch) -> Losses:
        """The losses of one batch of both domains."""
        raise NotImplementedError(f"{type(self).__name__} must define step, or stages of its own")

    def labeled_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy of logits (B, K) with true classes, by number (B,) or as rows (B, K), as `class_weight` says.

        K may be a multiple of the number of classes, such as 2C.
        """
        rows = targets if targets.dim() == 2 else None
        if self.settings.class_weight == "none":
            return F.cross_entropy(logits, targets) if rows is None else soft_cross_entropy(logits, rows).mean()
        shares = self.class_shares.to(logits).clamp(min=1e-12).repeat(logits.shape[1] // self.task.num_classes)
        if self.settings.class_weight == "logit_adjust":
            logits, weights = logits + shares.log(), torch.ones_like(shares)
        else:
            weights = 1 / shares
        if rows is None:
            by_sample, losses = weights[targets], F.cross_entropy(logits, targets, reduction="none")
        else:
            by_sample, losses = rows @ weights, soft_cross_entropy(logits, rows)
        return (by_sample * losses).mean() / self.processes.mean(by_sample).clamp(min=1e-12)

    def forward(self, step: Callable[[PairedBatch], Losses], batch: PairedBatch) -> tuple[Tensor, dict[str, Tensor]]:
        """One step of a stage: the objective to differentiate, and everything to log, detached."""
        losses = step(batch)
        total = losses.total()
        return total, {"loss": total.detach()} | losses.readings()

    def after_step(self) -> None:
        """Called after the optimiser's step: the moving average follows, if the method keeps one."""
        if self.ema:
            self.ema.update(self.network, self.time_scale)

    def finish(self, data: PairedData) -> None:
        """Called when training has ended; leaves in `network` what predicts: the moving average, if there is one."""
        if self.ema:
            self.ema.copy_to(self.network)

    @classmethod
    def advice(cls, settings: Settings, params: Any) -> str:
        """What to try if the unlabeled domain seems not to have been learnt; settings in it as `Setting`s."""
        return "another method"

    def notes(self) -> list[str]:
        """What a user should know of these settings on this network before it trains."""
        return []

    def pseudo_classes(self) -> Tensor | None:
        """The pseudo-label of each unlabeled training sample (N_U,), if the method keeps them."""
        return None

    def make_network(self, make_encoder: MakeEncoder) -> Any:
        """The network to train; overridden where it shares parts with what the method has beside it."""
        return self.build_network(make_encoder, self.task.num_classes, self.params)

    @classmethod
    def build_network(cls, make_encoder: MakeEncoder, num_classes: int, params: Any) -> nn.Module:
        """The network that predicts; also called, without training data, to load a saved model."""
        return Classifier(*make_encoder(), num_classes)

    @classmethod
    def output(cls, network: nn.Module, x: Tensor, params: Any) -> Output:
        """What the trained network predicts for images (B, 3, h, w) or vectors (B, D)."""
        return Output({"argmax": network(x).softmax(1)})

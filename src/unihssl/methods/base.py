"""What a method is: a network, its memory, and stages whose steps turn a batch into named losses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from unihssl.config import Settings
from unihssl.data.batches import PairedBatch, PairedData
from unihssl.methods.ema import EMA
from unihssl.methods.process_group import ProcessGroup
from unihssl.models.classifier import Classifier

Capture = Literal["step", "network", "nothing"]  # `network`: its passes alone, differentiated once each
MakeEncoder = Callable[[], tuple[nn.Module, int]]


@dataclass(frozen=True)
class Task:
    """The sizes a method's networks and memories depend on."""

    num_classes: int
    num_labeled: int
    num_unlabeled: int


@dataclass
class Losses:
    """A step's loss terms by name, as they are; their weights in the objective; and what else to log."""

    terms: dict[str, Tensor]
    weights: Mapping[str, float | Tensor] = field(default_factory=dict)
    stats: dict[str, Tensor] = field(default_factory=dict)

    def total(self) -> Tensor:
        return torch.stack([self.weights.get(name, 1.0) * term for name, term in self.terms.items()]).sum()


@dataclass(frozen=True)
class Stage:
    """A stretch of training with one kind of step, its own optimiser and its own schedule."""

    name: str
    step: Callable[[PairedBatch], Losses]
    settings: Settings  # its length, learning rate and schedule
    epoch_length: Literal["labeled", "max", "min", "unlabeled"]
    trains: nn.Module | None = None  # what its optimiser sees; None is everything
    optional: bool = False  # whether it may have no steps
    capture: Capture = "step"  # what a CUDA graph can hold: whole steps, if all memory they touch is fixed
    begin: Callable[[PairedData], None] | None = None
    each_epoch: Callable[[PairedData, int], None] | None = None


class Output(NamedTuple):
    """What a trained network says of a batch: class probabilities by each prediction rule, and the domain."""

    probabilities: dict[str, Tensor]  # rule -> (B, C)
    unlabeled_domain: Tensor | None = None  # (B,) probability of the unlabeled domain
    oracle: tuple[str, str] | None = None  # the rules to go by if the domain were known: labeled, unlabeled


class Method(nn.Module):
    """Base class. A subclass sets `name`, `paper` and `Params` and defines `step`, or several `stages`.

    Everything a method must remember between steps is a buffer, so that checkpoints carry it. Only `network` is
    kept for prediction.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    Params: ClassVar[type]

    def __init__(self, make_encoder: MakeEncoder, params: Any, task: Task, settings: Settings) -> None:
        super().__init__()
        self.params, self.task, self.settings = params, task, settings
        self.processes = ProcessGroup()
        self.ema: EMA | None = None  # of `network`
        self.network = self.make_network(make_encoder)

    def stages(self) -> list[Stage]:
        """What to train, in order: one stage of `step` unless a method says otherwise."""
        return [Stage(self.name, self.step, self.settings, self.settings.epoch_length)]

    def step(self, batch: PairedBatch) -> Losses:
        raise NotImplementedError(f"{type(self).__name__} must define step, or stages of its own")

    def forward(self, step: Callable[[PairedBatch], Losses], batch: PairedBatch) -> tuple[Tensor, dict[str, Tensor]]:
        """One step of a stage: the objective to differentiate, and everything to log, detached."""
        losses = step(batch)
        total = losses.total()
        return total, {"loss": total.detach()} | {k: v.detach() for k, v in (losses.terms | losses.stats).items()}

    def after_step(self) -> None:
        """Called when the optimiser has moved: the average follows, if a method keeps one."""
        if self.ema:
            self.ema.update(self.network)

    def finish(self) -> None:
        """Called when training has ended; leaves in `network` what predicts: the average, if there is one."""
        if self.ema:
            self.ema.copy_to(self.network)

    @classmethod
    def advice(cls, params: Any) -> str:
        """What to try where adapting with these params seems to have failed."""
        return "another method"

    def pseudo_classes(self) -> Tensor | None:
        """The class each unlabeled training sample is now believed to have, if the method keeps such beliefs."""
        return None

    def make_network(self, make_encoder: MakeEncoder) -> nn.Module:
        return self.build_network(make_encoder, self.task.num_classes, self.params)

    @classmethod
    def build_network(cls, make_encoder: MakeEncoder, num_classes: int, params: Any) -> nn.Module:
        return Classifier(*make_encoder(), num_classes)

    @classmethod
    def output(cls, network: nn.Module, x: Tensor, params: Any) -> Output:
        return Output({"argmax": network(x).softmax(1)})

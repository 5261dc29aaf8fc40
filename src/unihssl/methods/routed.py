"""An adapted model for one domain, a supervised one for the other, and a classifier that tells which to ask."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unihssl.config import Settings, knob
from unihssl.data.batches import PairedBatch
from unihssl.methods.base import Losses, MakeEncoder, Method, Output, Stage
from unihssl.methods.cdan import CDAN, CDANParams
from unihssl.methods.mcc import MCC, MCCParams
from unihssl.models.classifier import Classifier


@dataclass(frozen=True)
class RouterParams:
    sup_epochs: int = knob(100, "Epochs of the supervised model.", low=1)
    sup_lr: float = knob(
        5e-4,
        "Learning rate of the supervised model and the domain classifier; their other settings are the defaults.",
        low=0,
    )
    router: Literal["network", "frozen"] = knob(
        "network", "The domain classifier: a network of its own, or a linear layer on frozen features."
    )
    router_epochs: int = knob(10, "Epochs of the domain classifier.", low=1)


R = TypeVar("R", bound=RouterParams)


class Routed(Method[R]):
    """Three networks trained one after the other; at test time each sample goes to one of the first two."""

    Adapter: ClassVar[type[Method[Any]]]
    network: nn.ModuleDict  # type: ignore[assignment]

    def make_network(self, make_encoder: MakeEncoder) -> nn.ModuleDict:
        self.adapter = self.Adapter(make_encoder, self.params, self.task, self.settings)
        return self._assemble(self.adapter.network, make_encoder, self.task.num_classes)

    @classmethod
    def build_network(cls, make_encoder: MakeEncoder, num_classes: int, params: Any) -> nn.Module:
        adapted = cls.Adapter.build_network(make_encoder, num_classes, params)
        return cls._assemble(adapted, make_encoder, num_classes)

    @staticmethod
    def _assemble(adapted: nn.Module, make_encoder: MakeEncoder, num_classes: int) -> nn.ModuleDict:
        supervised, domain = Classifier(*make_encoder(), num_classes), Classifier(*make_encoder(), 1)
        return nn.ModuleDict({"adapted": adapted, "supervised": supervised, "domain": domain})

    def stages(self) -> list[Stage]:
        p, domain = self.params, self.network["domain"]
        trained = domain.get_submodule("head") if p.router == "frozen" else domain
        s = self.settings
        like_supervised = replace(
            Settings(), lr=p.sup_lr, max_steps=s.max_steps, optimizer=s.optimizer, layer_decay=s.layer_decay
        )
        learn_labels = replace(like_supervised, epochs=p.sup_epochs)
        learn_domain = replace(like_supervised, epochs=p.router_epochs)
        return [
            *(replace(stage, trains=self.adapter) for stage in self.adapter.stages()),
            Stage("supervised", self.learn_labels, learn_labels, "labeled", trains=self.network["supervised"]),
            Stage("router", self.learn_domain, learn_domain, "max", trains=trained),
        ]

    def learn_labels(self, batch: PairedBatch) -> Losses:
        losses = Losses()
        losses.add("labeled", self.labeled_loss(self.network["supervised"](batch.labeled.crop), batch.labeled.y))
        return losses

    def learn_domain(self, batch: PairedBatch) -> Losses:
        """Labeled against unlabeled samples, both domains with the same weight."""
        domain: Any = self.network["domain"]
        if self.params.router == "frozen":
            labeled, unlabeled = (domain.head(domain.evaluate(s.crop)[0]) for s in (batch.labeled, batch.unlabeled))
        else:
            _, logits = domain.forward_views({"labeled": batch.labeled.crop, "unlabeled": batch.unlabeled.crop})
            labeled, unlabeled = logits["labeled"], logits["unlabeled"]
        losses = Losses()
        losses.add("domain", (F.softplus(-labeled).mean() + F.softplus(unlabeled).mean()) / 2)
        losses.log("router_accuracy", ((labeled > 0).float().mean() + (unlabeled <= 0).float().mean()) / 2)
        return losses

    @classmethod
    def output(cls, network: nn.Module, x: Tensor, params: Any) -> Output:
        """`argmax` is the routed prediction; the two models' own stand beside it, for routing by an oracle."""
        supervised, adapted = (network.get_submodule(n)(x).softmax(1) for n in ("supervised", "adapted"))
        labeled = network.get_submodule("domain")(x).sigmoid()
        routed = torch.where(labeled >= 0.5, supervised, adapted)
        rules = {"argmax": routed, "supervised": supervised, "adapted": adapted}
        return Output(rules, 1 - labeled.squeeze(1), oracle=("supervised", "adapted"))


@dataclass(frozen=True)
class CDANSupParams(CDANParams, RouterParams):
    """CDAN's knobs and the router's."""


class CDANSup(Routed[CDANSupParams]):
    """CDAN for the unlabeled domain, Supervised for the labeled one."""

    name = "cdan+sup"
    paper = CDAN.paper
    presets = CDAN.presets
    Adapter = CDAN


@dataclass(frozen=True)
class MCCSupParams(MCCParams, RouterParams):
    """MCC's knobs and the router's."""


class MCCSup(Routed[MCCSupParams]):
    """MCC for the unlabeled domain, Supervised for the labeled one."""

    name = "mcc+sup"
    paper = MCC.paper
    presets = MCC.presets
    Adapter = MCC

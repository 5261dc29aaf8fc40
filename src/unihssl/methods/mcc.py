"""MCC: minimum class confusion on the unlabeled domain (Jin et al., 2020)."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unihssl.config import knob
from unihssl.data.batches import PairedBatch
from unihssl.methods.base import Losses, MakeEncoder, Method
from unihssl.models.classifier import Classifier


@dataclass(frozen=True)
class MCCParams:
    mu: float = knob(1.0, "Weight of the class confusion.", low=0)
    temperature: float = knob(2.5, "Softens predictions before their confusion is taken.", low=0.01)
    bottleneck: int = knob(1024, "Width of the layer between backbone and head; 0 for none.", low=0)
    bottleneck_kind: Literal["bn_relu", "relu", "bn", "linear"] = knob("bn_relu", "What follows that layer.")


class MCC(Method):
    """Cross-entropy on labeled samples, and predictions on unlabeled ones that do not confuse classes."""

    name = "mcc"
    paper = "Jin et al., Minimum Class Confusion, ECCV 2020 (arXiv 1912.03699)"
    Params = MCCParams
    params: MCCParams
    network: Classifier

    @classmethod
    def build_network(cls, make_encoder: MakeEncoder, num_classes: int, params: MCCParams) -> nn.Module:
        return Classifier(*make_encoder(), num_classes, params.bottleneck, params.bottleneck_kind)

    def step(self, batch: PairedBatch) -> Losses:
        _, (labeled, unlabeled) = self.network.parts([batch.labeled.weak, batch.unlabeled.weak])
        with torch.autocast(labeled.device.type, enabled=False):
            confusion = class_confusion(self.processes.gather(unlabeled), self.params.temperature)
        terms = {"labeled": F.cross_entropy(labeled, batch.labeled.y), "confusion": confusion}
        return Losses(terms, {"confusion": self.params.mu})


def class_confusion(logits: Tensor, temperature: float) -> Tensor:
    """Eqs. 3-7: how much pairs of classes are predicted together, certain samples weighing more."""
    predictions = (logits / temperature).softmax(1)
    entropy = -(predictions * (predictions + 1e-5).log()).sum(1)
    weights = (1 + (-entropy).exp()).detach()
    weights = len(logits) * weights / weights.sum()
    confusion = (predictions * weights.unsqueeze(1)).T @ predictions
    confusion = confusion / confusion.sum(1, keepdim=True).clamp(min=1e-12)  # a class nobody is believed to be
    return (confusion.sum() - confusion.diagonal().sum()) / logits.shape[1]  # trace()'s gradient makes the GPU wait

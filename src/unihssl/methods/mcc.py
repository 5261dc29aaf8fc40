"""MCC: minimum class confusion on the unlabeled domain (Jin et al., 2020)."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from unihssl.config import knob
from unihssl.data.batches import PairedBatch
from unihssl.methods.base import Losses, MakeEncoder, Method
from unihssl.methods.presets import CENTER_CROP, INVERSE_DECAY, RESIZED_CROP
from unihssl.models.classifier import Classifier


@dataclass(frozen=True)
class MCCParams:
    mu: float = knob(1.0, "Weight of the class confusion.", low=0)
    temperature: float = knob(2.5, "Softens predictions before their confusion is taken.", low=0.01)
    bottleneck: int = knob(1024, "Width of the layer between backbone and head; 0 for none.", low=0)
    bottleneck_kind: Literal["bn_relu", "relu", "bn", "linear"] = knob("bn_relu", "What follows that layer.")


class MCC(Method[MCCParams]):
    """Cross-entropy on labeled samples, and predictions on unlabeled ones that do not confuse classes."""

    name = "mcc"
    paper = "Jin et al., Minimum Class Confusion, ECCV 2020 (arXiv 1912.03699)"
    presets = {
        "finetune": {
            "": {**INVERSE_DECAY, **RESIZED_CROP, "lr": 5e-4, "batch_size": 36, "steps": 30_000, "bottleneck": 2048},
            "office-31": {"bottleneck": 1024, "steps": 10_000},
            "visda-2017": {"bottleneck": 256, "lr": 2e-4, "temperature": 3.0, **CENTER_CROP},
        },
        "original": {
            "": {**INVERSE_DECAY, **RESIZED_CROP, "lr": 3e-4, "batch_size": 28, "steps": 50_004}
            | {"bottleneck": 256, "bottleneck_kind": "bn"},
            "office-home": {"lr": 1e-3},
            "visda-2017": {"batch_size": 36, "steps": 10_004, "temperature": 3.0, **CENTER_CROP},
        },
    }

    @classmethod
    def build_network(cls, make_encoder: MakeEncoder, num_classes: int, params: MCCParams) -> nn.Module:
        return Classifier(*make_encoder(), num_classes, params.bottleneck, params.bottleneck_kind)

    def step(self, batch: PairedBatch) -> Losses:
        labeled = batch.all_labeled
        _, logits = self.network.forward_views({"labeled": labeled.labeled_view, "unlabeled": batch.unlabeled.weak})
        confusion = class_confusion(self.processes.gather(logits["unlabeled"]), self.params.temperature)
        losses = Losses()
        losses.add("labeled", self.labeled_loss(logits["labeled"], labeled.y))
        losses.add("confusion", confusion, self.params.mu)
        return losses


def class_confusion(logits: Tensor, temperature: float) -> Tensor:
    """Eqs. 3-7: how much pairs of classes are predicted together, certain samples weighing more. `logits` is (B, C)."""
    predictions = (logits / temperature).softmax(1)
    entropy = -(predictions * (predictions + 1e-5).log()).sum(1)
    weights = (1 + (-entropy).exp()).detach()
    weights = len(logits) * weights / weights.sum()
    confusion = (predictions * weights.unsqueeze(1)).T @ predictions
    confusion = confusion / confusion.sum(1, keepdim=True).clamp(min=1e-12)  # a class that no sample is predicted as
    return (confusion.sum() - confusion.diagonal().sum()) / logits.shape[1]  # trace()'s gradient makes the GPU wait

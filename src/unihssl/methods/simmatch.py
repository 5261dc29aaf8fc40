"""SimMatch: the strong view must agree on the class and on which labeled samples it resembles (Zheng et al., 2022)."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unihssl.config import knob
from unihssl.data.batches import PairedBatch
from unihssl.losses import soft_cross_entropy, trusted_cross_entropy
from unihssl.methods.base import Losses, MakeEncoder, Method
from unihssl.methods.ema import EMA
from unihssl.methods.presets import Knobs


@dataclass(frozen=True)
class SimMatchParams:
    threshold: float = knob(0.7, "Confidence above which a pseudo-label is trusted.", low=0, high=1)
    lambda_u: float = knob(10.0, "Weight of the semantic (class) consistency.", low=0)
    lambda_in: float = knob(5.0, "Weight of the instance consistency.", low=0)
    temperature: float = knob(0.1, "Temperature of the similarities, student's and teacher's.", low=0.001)
    smoothing: float = knob(
        0.9, "Share of the prediction in a pseudo-label; the rest is its neighbours'.", low=0, high=1
    )
    align: bool = knob(True, "Distribution alignment: divide predictions by their running mean.")
    queue: int = knob(256, "Batches behind that mean.", low=1)
    projection: int = knob(128, "Width of the embedding.", low=1)
    teacher_ema: float = knob(0.999, "Decay of the teacher's weights.", low=0, high=1)


_MOCO_CROPS: Knobs = {"strong_view": "moco", "weak_view": "resized_crop", "area_labeled": 0.2, "area_unlabeled": 0.2}


class SimMatch(Method[SimMatchParams]):
    """A teacher's class and similarity predictions on weak views teach the student's on strong ones."""

    name = "simmatch"
    paper = "Zheng et al., SimMatch, CVPR 2022 (arXiv 2203.06915)"
    presets = {
        "finetune": {"": _MOCO_CROPS | {"lr": 1e-3, "head_lr": 10.0, "weight_decay": 1e-4, "steps": 20_000}},
        "original": {
            "": _MOCO_CROPS
            | {"lr": 0.03, "lr_warm_up": 5 / 400, "weight_decay": 1e-4, "batch_size": 64, "unlabeled_batch": 320}
            | {"epochs": 400, "epoch_length": "unlabeled", "teacher_ema": 0.999}
        },
    }
    bank: Tensor
    bank_labels: Tensor
    means: Tensor
    filled: Tensor

    def setup(self, make_encoder: MakeEncoder) -> None:
        p, task, width = self.params, self.task, self.network.feature_dim
        slots = task.num_labeled + task.num_target
        self.projector = nn.Sequential(nn.Linear(width, width), nn.ReLU(inplace=True), nn.Linear(width, p.projection))
        self.teacher = EMA(nn.ModuleList([self.network, self.projector]), p.teacher_ema)
        self.register_buffer("bank", F.normalize(torch.randn(slots, p.projection), dim=1))
        self.register_buffer("bank_labels", torch.zeros(slots, dtype=torch.long))
        self.register_buffer("means", torch.zeros(p.queue, task.num_classes))
        self.register_buffer("filled", torch.zeros(slots, dtype=torch.bool))

    def step(self, batch: PairedBatch) -> Losses:
        p, labeled, unlabeled = self.params, batch.all_labeled, batch.unlabeled
        student_views = {"labeled": labeled.labeled_view, "strong": unlabeled.strong}
        student, logits = self._embed(self.network, self.projector, student_views)
        with torch.no_grad():
            teacher_views = {"labeled": labeled.weak, "weak": unlabeled.weak}
            network, projector = self.teacher.network.children()
            teacher, teacher_logits = self._embed(network, projector, teacher_views)
        prediction = self._aligned(teacher_logits["weak"].softmax(1), batch.step)
        similarity = (teacher["weak"] @ self.bank.T / p.temperature).softmax(1)
        pseudo, instance = propagate(prediction, similarity, self.bank_labels, p.smoothing)
        # Until every slot has been written once, the bank is not used.
        ready = self.filled.all().to(pseudo.dtype)
        pseudo = ready * pseudo + (1 - ready) * prediction
        trusted = pseudo.amax(1) >= p.threshold
        resemblance = student["strong"] @ self.bank.T / p.temperature
        self._new_keys = (labeled.rows, teacher["labeled"], labeled.y)
        losses = Losses()
        losses.add("labeled", self.labeled_loss(logits["labeled"], labeled.y))
        losses.add("pseudo", trusted_cross_entropy(logits["strong"], pseudo, trusted), p.lambda_u)
        losses.add("instance", ready * soft_cross_entropy(resemblance, instance).mean(), p.lambda_in)
        losses.log("mask_rate", trusted.float().mean())
        return losses

    def after_step(self) -> None:
        """The teacher follows; the bank takes this step's keys only now, as the backward pass needs the old ones."""
        self.teacher.update(nn.ModuleList([self.network, self.projector]), self.time_scale)
        rows, keys, labels = map(self.processes.gather, self._new_keys)
        self.bank[rows], self.bank_labels[rows] = keys, labels
        self.filled.index_fill_(0, rows, True)  # filled[rows] = True would make the GPU wait

    @staticmethod
    def _embed(network: Any, projector: Any, views: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Unit embeddings and logits of each view."""
        features, logits = network.forward_views(views)
        return {name: F.normalize(projector(f), dim=1) for name, f in features.items()}, logits

    def _aligned(self, prediction: Tensor, step: Tensor) -> Tensor:
        """Distribution alignment: towards uniform, by the mean of the last batches."""
        if not self.params.align:
            return prediction
        mean = self.processes.gather(prediction).mean(0, keepdim=True)
        self.means.index_copy_(0, (step % self.params.queue).view(1), mean)
        aligned = prediction / self.means.mean(0).clamp(min=1e-12)
        return aligned / aligned.sum(1, keepdim=True)


def propagate(prediction: Tensor, similarity: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Label propagation, Eqs. 7-11: pseudo-labels with the neighbours' say, similarities with the prediction's.

    `prediction` (B, C), `similarity` (B, K) over the bank, `labels` (K,) of its slots.
    """
    membership = F.one_hot(labels, prediction.shape[1]).to(similarity.dtype)
    neighbours = similarity @ membership
    instance = similarity * (prediction @ membership.T)
    instance = instance / instance.sum(1, keepdim=True).clamp(min=1e-12)
    return smoothing * prediction + (1 - smoothing) * neighbours, instance

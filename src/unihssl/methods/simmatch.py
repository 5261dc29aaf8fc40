"""SimMatch: the strong view must agree on the class and on which labeled samples it resembles (Zheng et al., 2022)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unihssl.config import Settings, knob
from unihssl.data.batches import PairedBatch
from unihssl.losses import soft_cross_entropy, trusted_cross_entropy
from unihssl.methods.base import Losses, MakeEncoder, Method, Task
from unihssl.methods.ema import EMA
from unihssl.models.classifier import Classifier, full_precision


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


class SimMatch(Method):
    """A teacher's class and similarity predictions on weak views teach the student's on strong ones."""

    name = "simmatch"
    paper = "Zheng et al., SimMatch, CVPR 2022 (arXiv 2203.06915)"
    Params = SimMatchParams
    params: SimMatchParams
    network: Classifier
    bank: Tensor
    bank_labels: Tensor
    means: Tensor
    filled: Tensor

    def __init__(self, make_encoder: MakeEncoder, params: SimMatchParams, task: Task, settings: Settings) -> None:
        super().__init__(make_encoder, params, task, settings)
        width = self.network.feature_dim
        self.projector = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(inplace=True), nn.Linear(width, params.projection)
        )
        self.teacher = EMA(nn.ModuleList([self.network, self.projector]), params.teacher_ema)
        self.register_buffer("bank", F.normalize(torch.randn(task.num_labeled, params.projection), dim=1))
        self.register_buffer("bank_labels", torch.zeros(task.num_labeled, dtype=torch.long))
        self.register_buffer("means", torch.zeros(params.queue, task.num_classes))
        self.register_buffer("filled", torch.zeros(task.num_labeled, dtype=torch.bool))

    def step(self, batch: PairedBatch) -> Losses:
        p, labeled, unlabeled = self.params, batch.labeled, batch.unlabeled
        (_, student), (labeled_logits, strong_logits) = self._embed(
            self.network, self.projector, [labeled.weak, unlabeled.strong]
        )
        with torch.no_grad():
            teacher, projector = self.teacher.network.children()
            (keys, queries), (_, weak_logits) = self._embed(teacher, projector, [labeled.weak, unlabeled.weak])
        with torch.autocast(weak_logits.device.type, enabled=False):
            prediction = self._aligned(weak_logits.softmax(1), batch.step)
            similarity = (queries @ self.bank.T / p.temperature).softmax(1)
            pseudo, instance = propagate(prediction, similarity, self.bank_labels, p.smoothing)
            # Until every slot has been written once, the bank says nothing.
            ready = self.filled.all().to(pseudo.dtype)
            pseudo = ready * pseudo + (1 - ready) * prediction
            trusted = pseudo.amax(1) >= p.threshold
            resemblance = student @ self.bank.T / p.temperature
            terms = {
                "labeled": F.cross_entropy(labeled_logits, labeled.y),
                "pseudo": trusted_cross_entropy(strong_logits, pseudo, trusted),
                "instance": ready * soft_cross_entropy(resemblance, instance).mean(),
            }
        self._seen = (labeled.rows, keys, labeled.y)
        stats = {"mask_rate": trusted.float().mean()}
        return Losses(terms, {"pseudo": p.lambda_u, "instance": p.lambda_in}, stats)

    def after_step(self) -> None:
        """The teacher follows; the bank takes this step's keys, which the backward pass must not see change."""
        self.teacher.update(nn.ModuleList([self.network, self.projector]))
        rows, keys, labels = map(self.processes.gather, self._seen)
        self.bank[rows], self.bank_labels[rows] = keys, labels
        self.filled.index_fill_(0, rows, True)  # filled[rows] = True would make the GPU wait

    def _embed(
        self, network: nn.Module, projector: nn.Module, parts: list[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Unit embeddings and logits of each part."""
        features, logits = network.parts(parts)  # type: ignore[operator]
        return [F.normalize(full_precision(projector(f)), dim=1) for f in features], logits

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

"""Uni-HSSL: one classifier over 2C classes, C as seen in each domain (arXiv 2503.00286)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unihssl import losses
from unihssl.config import Settings, knob
from unihssl.data.batches import PairedBatch, PairedData, Samples
from unihssl.methods.base import Losses, MakeEncoder, Method, Output, Stage, Task
from unihssl.methods.mixing import draw_mixing
from unihssl.methods.prototypes import Prototypes
from unihssl.methods.pseudo_labels import PseudoLabels
from unihssl.models.classifier import Classifier


@dataclass(frozen=True)
class UniHSSLParams:
    """The paper's constants, and one knob for each point it leaves open (docs/decisions.md tells why)."""

    pretrain_epochs: int = knob(10, "Epochs of supervised pre-training.", low=0)
    pretrain_schedule: Literal["constant", "cosine"] = knob("constant", "Learning-rate schedule of pre-training.")
    beta: float = knob(0.8, "Share of the old pseudo-label kept in an update (Eq. 5).", low=0, high=1)
    epsilon: float = knob(0.5, "Pseudo-labels must exceed this confidence to be trusted (Eq. 6).", low=0, high=1)
    tau: float = knob(0.5, "Temperature of prototype alignment (Eq. 9).", low=0.001)
    alpha: float = knob(0.75, "Beta(alpha, alpha) of the mixup ratio (Eq. 11).", low=0.01)
    lambda_cl: float = knob(1.0, "Weight of the labeled loss.", low=0)
    lambda_pl: float = knob(1.0, "Weight of the pseudo-label loss.", low=0)
    lambda_pa: float = knob(0.01, "Weight of prototype alignment.", low=0)
    lambda_mixup: float = knob(1.0, "Weight of the mixup loss.", low=0)

    initial_view: Literal["test", "train"] = knob("test", "View behind the initial pseudo-labels.")
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
    pseudo_mean: Literal["batch", "kept"] = knob("batch", "Divide the pseudo-label loss by all samples or trusted.")
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
    prediction: Literal["argmax", "sum"] = knob("argmax", "Class from the 2C: argmax mod C, or sum of halves.")


class UniHSSL(Method):
    """Pre-train on the labeled domain, then learn 2C classes with pseudo-labels, alignment and mixup."""

    name = "unihssl"
    paper = "Heidari et al., Uni-HSSL, CVPR 2025 (arXiv 2503.00286)"
    Params = UniHSSLParams
    params: UniHSSLParams
    network: Classifier

    def __init__(self, make_encoder: MakeEncoder, params: UniHSSLParams, task: Task, settings: Settings) -> None:
        super().__init__(make_encoder, params, task, settings)
        self.num_classes = task.num_classes
        p = params
        self.pseudo_labels = PseudoLabels(task.num_unlabeled, task.num_classes, p)
        prototypes = [
            Prototypes(
                self.num_classes,
                self.network.feature_dim,
                p.prototypes,
                p.prototype_momentum,
                p.prototype_mean == "literal",
            )
            for _ in range(2)
        ]
        self.labeled_prototypes, self.unlabeled_prototypes = prototypes

    @classmethod
    def build_network(cls, make_encoder: MakeEncoder, num_classes: int, params: UniHSSLParams) -> nn.Module:
        return Classifier(*make_encoder(), 2 * num_classes, params.bottleneck)

    def stages(self) -> list[Stage]:
        s, p = self.settings, self.params
        pretraining = replace(s, epochs=p.pretrain_epochs, steps=0, schedule=p.pretrain_schedule)
        return [
            Stage("pretrain", self.pretrain, pretraining, "labeled"),
            Stage("adapt", self.adapt, s, s.epoch_length, begin=self.begin_adapt, each_epoch=self.each_epoch),
        ]

    def pretrain(self, batch: PairedBatch) -> Losses:
        """Eq. 1. The first C outputs are the C-class model; the others wait for stage 2."""
        logits = self.network(batch.labeled.weak)[:, : self.num_classes].float()
        return Losses({"labeled": F.cross_entropy(logits, batch.labeled.y)})

    def begin_adapt(self, data: PairedData) -> None:
        """Eqs. 2-3: initial pseudo-labels in the unlabeled half, and the start of that half of the head."""
        for samples, logits in self._sweep(data, self.params.initial_view):
            initial = logits[:, : self.num_classes].softmax(1)
            self.pseudo_labels.table[samples.rows] = losses.expand_labels(initial, self.num_classes, domain=1)
        self._start_second_half()

    def _start_second_half(self) -> None:
        head, half = self.network.head, self.num_classes
        fresh = nn.Linear(head.in_features, head.out_features, device=head.weight.device)
        with torch.no_grad():
            for parameter, random in zip(head.parameters(), fresh.parameters(), strict=True):
                zeros = torch.zeros_like(parameter[:half])
                starts = {"random": random[half:], "zeros": zeros, "copy": parameter[:half].clone()}
                parameter[half:] = starts[self.params.second_half]

    def each_epoch(self, data: PairedData, epoch: int) -> None:
        if self.params.prototypes == "epoch":
            self.labeled_prototypes.restart()
            self.unlabeled_prototypes.restart()
        if self.params.pseudo_refresh == "epoch" and epoch > 0:
            for samples, logits in self._sweep(data, "test"):
                self.pseudo_labels.update(samples.rows, logits.softmax(1))

    def adapt(self, batch: PairedBatch) -> Losses:
        """One step of Algorithm 1."""
        p, labeled, unlabeled = self.params, batch.labeled, batch.unlabeled
        mix = draw_mixing(batch, p.alpha, p.mixup_schedule, p.mixup_draw) if p.lambda_mixup else None
        parts = [labeled.weak, unlabeled.weak] + ([mix(labeled.weak, unlabeled.weak)] if mix else [])
        features, logits = self.network.parts(parts, joint=p.batch_norm == "joint")
        with torch.autocast(logits[0].device.type, enabled=False):
            labels = F.one_hot(labeled.y, self.num_classes).to(logits[0].dtype)
            labels = losses.expand_labels(labels, self.num_classes, domain=0)
            prediction = logits[1].detach().softmax(1)
            all_beliefs = self._beliefs(self.peers.gather(unlabeled.rows), self.peers.gather(prediction))
            beliefs = self.peers.own(all_beliefs)
            trusted, targets = self.pseudo_labels.trusted(beliefs), self.pseudo_labels.targets(beliefs)
            terms = {
                "labeled": losses.soft_cross_entropy(logits[0], labels).mean(),
                "pseudo": losses.trusted_cross_entropy(logits[1], targets, trusted, kept_only=p.pseudo_mean == "kept"),
            }
            if p.lambda_pa:
                terms["prototype"] = self._alignment(batch, features, all_beliefs)
            if mix:
                # Mixing ones with the trust keeps a full 1 only where the unlabeled side is trusted.
                gate = mix(torch.ones_like(labels[:, 0]), trusted.to(labels)) >= 1 if p.mixup_gate else None
                terms["mixup"] = losses.mixup_loss(
                    logits[2], mix(labels, targets), weights=gate, reduction=p.mixup_reduction
                )
        weights = {
            "labeled": p.lambda_cl,
            "pseudo": p.lambda_pl,
            "prototype": p.lambda_pa,
            "mixup": p.lambda_mixup,
        }
        stats = {
            "mask_rate": trusted.float().mean(),
            "pseudo_agreement": (self._classes(beliefs) == self._classes(prediction)).float().mean(),
            "unlabeled_half": beliefs[:, self.num_classes :].sum(1).mean(),
        }
        return Losses(terms, weights, stats)

    def _beliefs(self, rows: Tensor, prediction: Tensor) -> Tensor:
        """The pseudo-labels to train on now, with the predictions taken in if that is done at every step."""
        if self.params.pseudo_refresh == "epoch":
            return self.pseudo_labels.table[rows]
        return self.pseudo_labels.update(rows, prediction)

    def _alignment(self, batch: PairedBatch, features: list[Tensor], beliefs: Tensor) -> Tensor:
        """Eqs. 7-9. A pseudo-label in the labeled half names no class of the unlabeled domain and is left out."""
        p = self.params
        if p.prototypes == "full":
            self._recompute_prototypes(batch.data)
        gather, trusted = self.peers.gather, self.pseudo_labels.trusted(beliefs)
        labeled, seen = self.labeled_prototypes(gather(features[0]), gather(batch.labeled.y))
        unlabeled_class = beliefs.argmax(1) - self.num_classes
        unlabeled, unlabeled_seen = self.unlabeled_prototypes(gather(features[1]), unlabeled_class, trusted)
        return losses.prototype_alignment_loss(
            labeled,
            unlabeled,
            p.tau,
            valid=seen & unlabeled_seen if p.missing_classes == "skip" else None,
            include_positive=p.include_positive,
            reduction=p.alignment_reduction,
        )

    @torch.no_grad()
    def _recompute_prototypes(self, data: PairedData) -> None:
        for prototypes, domain in (
            (self.labeled_prototypes, data.labeled),
            (self.unlabeled_prototypes, data.unlabeled),
        ):
            prototypes.restart()
            for samples in domain.sweep(data.generator):
                features = self.network.evaluate(samples.test)[0]
                if domain is data.labeled:
                    prototypes.add(features, samples.y)
                else:
                    beliefs = self.pseudo_labels.table[samples.rows]
                    trusted = self.pseudo_labels.trusted(beliefs)
                    prototypes.add(features, beliefs.argmax(1) - self.num_classes, trusted)

    def _sweep(self, data: PairedData, view: str) -> Iterator[tuple[Samples, Tensor]]:
        """Every unlabeled training sample's logits in evaluation mode."""
        for samples in data.unlabeled.sweep(data.generator):
            yield samples, self.network.evaluate(samples.test if view == "test" else samples.weak)[1]

    def _classes(self, joint: Tensor) -> Tensor:
        return joint.argmax(1) % self.num_classes

    def pseudo_classes(self) -> Tensor:
        return self._classes(self.pseudo_labels.table)

    @classmethod
    def output(cls, network: nn.Module, x: Tensor, params: Any) -> Output:
        """Both ways from 2C to C classes. The larger half, normalised, has its peak at argmax mod C."""
        halves = network(x).float().softmax(1).unflatten(1, (2, -1))
        larger = halves.amax(1)
        rules = {"argmax": larger / larger.sum(1, keepdim=True), "sum": halves.sum(1)}
        return Output(rules, halves[:, 1].sum(1))

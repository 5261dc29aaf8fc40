"""Uni-HSSL: one classifier over 2C classes, C as seen in each domain (arXiv 2503.00286)."""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unihssl import losses
from unihssl.config import Settings
from unihssl.data.batches import PairedBatch, PairedData, Samples
from unihssl.methods.alignment import PrototypeAlignment
from unihssl.methods.base import Losses, MakeEncoder, Method, Output, Stage, Task
from unihssl.methods.batch_norm_stats import statistics_of
from unihssl.methods.mcc import class_confusion
from unihssl.methods.mixing import draw_mixing
from unihssl.methods.pseudo_labels import PseudoLabels
from unihssl.methods.unihssl_params import UniHSSLParams
from unihssl.models.classifier import Classifier


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
        self.pseudo_labels = PseudoLabels(task.num_unlabeled, task.num_classes, params)
        self.alignment = PrototypeAlignment(task.num_classes, self.network.feature_dim, params)

    @classmethod
    def build_network(cls, make_encoder: MakeEncoder, num_classes: int, params: UniHSSLParams) -> nn.Module:
        return Classifier(*make_encoder(), 2 * num_classes, params.bottleneck)

    def stages(self) -> list[Stage]:
        s, p = self.settings, self.params
        per_epoch = math.ceil(self.task.num_labeled / min(s.batch_size, self.task.num_labeled))
        epochs = max(p.pretrain_epochs, math.ceil(p.pretrain_steps / per_epoch))
        pretraining = replace(s, epochs=epochs, steps=0, lr_schedule=p.pretrain_lr_schedule)
        return [
            Stage("pretrain", self.pretrain, pretraining, "labeled", optional=True),
            Stage(
                "adapt",
                self.adapt,
                s,
                s.epoch_length,
                capture="network" if p.prototypes == "full" else "step",  # that passes over all data in every step
                begin=self.begin_adapt,
                each_epoch=self.each_epoch,
            ),
        ]

    def pretrain(self, batch: PairedBatch) -> Losses:
        """Eq. 1. The first C outputs are the C-class model; the others wait for stage 2."""
        logits = self.network(batch.labeled.weak)[:, : self.num_classes]
        return Losses({"labeled": F.cross_entropy(logits, batch.labeled.y)})

    def begin_adapt(self, data: PairedData) -> None:
        """Eqs. 2-3: initial pseudo-labels in the unlabeled half, and the start of that half of the head."""
        own = self.params.initial_statistics == "unlabeled"
        mixed = (samples.test for samples in data.unlabeled.sweep(data.random, shuffled=True))
        with statistics_of(self.network, mixed) if own else nullcontext():
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
        self.alignment.begin_epoch()
        if self.params.pseudo_refresh == "epoch" and epoch > 0:
            for samples, logits in self._sweep(data, "test"):
                self.pseudo_labels.update(samples.rows, logits.softmax(1))

    def adapt(self, batch: PairedBatch) -> Losses:
        """One step of Algorithm 1."""
        p, labeled, unlabeled = self.params, batch.labeled, batch.unlabeled
        mix = draw_mixing(batch, p.alpha, p.mixup_schedule, p.mixup_draw) if p.lambda_mixup else None
        first, second = labeled.weak, unlabeled.weak  # drawn when asked for: the order of asking decides what is drawn
        view = second if p.unlabeled_view == "weak" else unlabeled.strong
        another = view is not second  # vectors have but one
        parts = [first, second] + ([mix(first, view)] if mix else []) + ([view] if another else [])
        features, logits = self.network.parts(parts, joint=p.batch_norm == "joint")
        with torch.autocast(logits[0].device.type, enabled=False):
            # What concerns pseudo-labels is computed for the whole batch, on every process.
            labels = F.one_hot(labeled.y, self.num_classes).to(logits[0].dtype)
            labels = losses.expand_labels(labels, self.num_classes, domain=0)
            prediction = self.processes.gather(logits[1].detach().softmax(1))
            taught = self.processes.gather(logits[-1 if another else 1])
            beliefs = self._beliefs(self.processes.gather(unlabeled.rows), prediction)
            trusted, targets = self.pseudo_labels.trusted(beliefs), self.pseudo_labels.targets(beliefs)
            terms = {
                "labeled": losses.soft_cross_entropy(logits[0], labels).mean(),
                "pseudo": losses.trusted_cross_entropy(taught, targets, trusted, kept_only=p.pseudo_mean == "kept"),
            }
            if p.lambda_confusion:
                of_classes = torch.logaddexp(*taught.chunk(2, dim=1))
                terms["confusion"] = class_confusion(of_classes, p.confusion_temperature)
            if p.lambda_pa:
                terms["prototype"] = self._alignment(batch, features, beliefs, trusted)
            if mix:
                own_targets, own_trusted = self.processes.own(targets), self.processes.own(trusted)
                # Mixing ones with the trust keeps a full 1 only where the unlabeled side is trusted.
                gate = mix(torch.ones_like(labels[:, 0]), own_trusted.to(labels)) >= 1 if p.mixup_gate else None
                terms["mixup"] = losses.mixup_loss(
                    logits[2], mix(labels, own_targets), weights=gate, reduction=p.mixup_reduction
                )
        rise = ramp(batch.progress, p.ramp_up) if p.ramp_up else 1.0
        weights = {
            "labeled": p.lambda_cl,
            "pseudo": p.lambda_pl * rise,
            "prototype": p.lambda_pa * rise,
            "mixup": p.lambda_mixup * rise,
            "confusion": p.lambda_confusion,
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

    def _alignment(self, batch: PairedBatch, features: list[Tensor], beliefs: Tensor, trusted: Tensor) -> Tensor:
        if self.params.prototypes == "full":
            self.alignment.recompute(self.network, batch.data, self.pseudo_labels, self.processes)
        gather = self.processes.gather
        loss: Tensor = self.alignment(
            gather(features[0]), gather(batch.labeled.y), gather(features[1]), beliefs, trusted
        )
        return loss

    def _sweep(self, data: PairedData, view: str) -> Iterator[tuple[Samples, Tensor]]:
        """Every unlabeled training sample's logits in evaluation mode."""
        for samples in data.unlabeled.sweep(data.random):
            yield samples, self.network.evaluate(samples.test if view == "test" else samples.weak)[1]

    def _classes(self, joint: Tensor) -> Tensor:
        return joint.argmax(1) % self.num_classes

    def pseudo_classes(self) -> Tensor:
        return self._classes(self.pseudo_labels.table)

    @classmethod
    def advice(cls, params: UniHSSLParams) -> str:
        ways = [] if params.initial_statistics == "unlabeled" and params.lambda_confusion else ["--set preset=robust"]
        ways += ["--set unlabeled_view=weak"] if params.unlabeled_view == "strong" else []
        return ", ".join([*ways, "longer training (epochs, pretrain_epochs)", "or another method (--method mcc+sup)"])

    @classmethod
    def output(cls, network: nn.Module, x: Tensor, params: Any) -> Output:
        """Both ways from 2C to C classes. The larger half, normalised, has its peak at argmax mod C."""
        halves = network(x).softmax(1).unflatten(1, (2, -1))
        larger = halves.amax(1)
        rules = {"argmax": larger / larger.sum(1, keepdim=True), "sum": halves.sum(1)}
        return Output(rules, halves[:, 1].sum(1))


def ramp(progress: Tensor, share: float) -> Tensor:
    """From near 0 to 1 over the first `share` of a stage, slowly at first (Laine and Aila, 2017)."""
    return torch.exp(-5 * (1 - (progress / share).clamp(max=1)).square())

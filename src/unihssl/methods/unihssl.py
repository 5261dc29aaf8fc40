"""Uni-HSSL: one classifier over 2C classes, C as seen in each domain (arXiv 2503.00286)."""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unihssl.config import Settings
from unihssl.data.batches import PairedBatch, PairedData, Samples
from unihssl.errors import Setting
from unihssl.losses import expand_labels, mixup_loss, trusted_cross_entropy
from unihssl.methods.base import Losses, MakeEncoder, Method, Output, Stage
from unihssl.methods.batch_norm_stats import has_batch_norm, statistics_of
from unihssl.methods.mcc import class_confusion
from unihssl.methods.mixing import Mix, draw_mixing
from unihssl.methods.prototypes import PrototypeAlignment
from unihssl.methods.pseudo_labels import PseudoLabels
from unihssl.methods.unihssl_params import PAPER, ROBUST, UniHSSLParams
from unihssl.models.classifier import Classifier

EVEN = 0.15  # first pseudo-labels whose shares are nearer than this to equal ones (total variation) have even classes


class UniHSSL(Method[UniHSSLParams]):
    """Pre-train on the labeled domain, then learn 2C classes with pseudo-labels, alignment and mixup."""

    name = "unihssl"
    paper = "Heidari et al., Uni-HSSL, CVPR 2025 (arXiv 2503.00286)"
    presets = {"robust": {"": ROBUST}, "paper": {"": PAPER}}
    affinity: Tensor
    drawn_classes: Tensor
    unevenness: Tensor

    def setup(self, make_encoder: MakeEncoder) -> None:
        self.num_classes = self.task.num_classes
        exact = self.task.num_target > 0
        self.pseudo_labels = PseudoLabels(self.task.num_unlabeled, self.num_classes, self.params, some_exact=exact)
        if self.params.min_affinity:
            self.register_buffer("affinity", torch.ones(()))
        if self.params.unlabeled_sampling == "balanced":
            self.register_buffer("drawn_classes", torch.zeros(self.task.num_unlabeled, dtype=torch.int64))
        if self.params.apart:
            self.register_buffer("unevenness", torch.zeros(()))
        self._is_even: bool | None = None  # of `unevenness`, which is read once
        self.alignment = PrototypeAlignment(self.num_classes, self.network.feature_dim, self.params)

    @classmethod
    def build_network(cls, make_encoder: MakeEncoder, num_classes: int, params: UniHSSLParams) -> nn.Module:
        return Classifier(*make_encoder(), 2 * num_classes, params.bottleneck)

    def notes(self) -> list[str]:
        is_frozen = self.settings.train == "head"
        if self.params.initial_statistics != "unlabeled" or is_frozen or has_batch_norm(self.network.encoder):
            return []
        where = "only that behind the backbone is set" if has_batch_norm(self.network) else "it does nothing here"
        setting = Setting("initial_statistics", "unlabeled")
        return [f"{setting} is about BatchNorm, of which the backbone trains none: {where}"]

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
                capture="network" if p.prototypes == "full" else "step",  # `full` passes over all data in every step
                begin=self.begin_adapt,
                each_epoch=self.each_epoch,
                draw=self.draw_by_class if p.unlabeled_sampling == "balanced" else None,
                kind=self.passes if p.apart and p.batch_norm == "joint" else None,
            ),
        ]

    def pretrain(self, batch: PairedBatch) -> Losses:
        """Eq. 1. The first C outputs are the C-class model; the others are not trained before stage 2."""
        logits = self.network(batch.all_labeled.labeled_view)[:, : self.num_classes]
        losses = Losses()
        losses.add("labeled", self.labeled_loss(logits, batch.all_labeled.y))
        return losses

    def begin_adapt(self, data: PairedData) -> None:
        """Eqs. 2-3: initial pseudo-labels in the unlabeled half, and the start of that half of the head."""
        adabn = self.params.initial_statistics == "unlabeled"
        shuffled = (samples.test for samples in data.unlabeled.sweep(data.random, shuffled=True))
        with statistics_of(self.network, shuffled) if adabn else nullcontext():
            for samples, logits in self._sweep(data, self.params.initial_view):
                initial = logits[:, : self.num_classes].softmax(1)
                self.pseudo_labels.table[samples.rows] = expand_labels(initial, self.num_classes, domain=1)
        known = data.target_classes()
        if known is not None:
            self.pseudo_labels.fix(known)
        self._start_second_half()
        p = self.params
        if p.apart:
            shares = F.one_hot(self.pseudo_classes(), self.num_classes).float().mean(0)
            self.unevenness.copy_((shares - 1 / self.num_classes).abs().sum() / 2)
            self._is_even = None
        if p.min_affinity and p.lambda_confusion and p.unlabeled_view == "strong":
            self.affinity.copy_(self._strong_affinity(data))

    def passes(self, progress: float) -> str:
        """How a step's views pass through the network: apart at first, if the unlabeled classes are about even.

        Apart, first pseudo-labels settle under the domain's own BatchNorm statistics, under which they were made. Where
        some classes are rare these mislead: normalised by itself, any domain looks like one with even classes.
        """
        if progress >= self.params.apart:
            return "joint"
        if self._is_even is None:
            self._is_even = bool(self.unevenness < EVEN)
        return "apart" if self._is_even else "joint"

    def _strong_affinity(self, data: PairedData) -> Tensor:
        """Accuracy of the pre-trained classes on strong views of the labeled samples, as a share of that on test views.

        Low where strong views break what tells the classes apart (Gontijo-Lopes et al., 2020, call it affinity).
        """
        right = {"test": self.affinity.new_zeros(()), "strong": self.affinity.new_zeros(())}
        for samples in data.labeled.sweep(data.random):
            for view in right if samples.has_strong else ():
                logits = self.network.evaluate(getattr(samples, view))[1][:, : self.num_classes]
                right[view] += (logits.argmax(1) == samples.y).sum()
        return torch.where(right["test"] > 0, right["strong"] / right["test"].clamp(min=1), 1.0)

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
        if self.params.unlabeled_sampling == "balanced":
            self.drawn_classes.copy_(self.pseudo_classes())

    def draw_by_class(self, data: PairedData) -> None:
        """Draw the classes of the epoch's first pseudo-labels equally often (Jiang et al., ICML 2020).

        So no class gets lost because it is rare, and both domains' batches have the same classes where labeled ones are
        balanced.
        """
        data.unlabeled.balance(self.drawn_classes)

    def adapt(self, batch: PairedBatch) -> Losses:
        """One step of Algorithm 1."""
        p, labeled, unlabeled, gather = self.params, batch.labeled, batch.unlabeled, self.processes.gather
        target = batch.target  # true labels of the unlabeled domain, if there are any
        mix = draw_mixing(batch, p.alpha, p.mixup_schedule, p.mixup_draw) if p.lambda_mixup else None
        views = {"labeled": labeled.labeled_view, "weak": unlabeled.weak}
        # Weak views make the pseudo-labels; these views learn from them.
        student = "strong" if p.unlabeled_view == "strong" and unlabeled.has_strong else "weak"
        if mix:
            side = getattr(unlabeled, student)
            views["mixed"] = mix(labeled.weak, replace_first(side, target.weak) if target else side)
        if student == "strong":
            views["strong"] = unlabeled.strong
        if target:
            views["weak"] = torch.cat([unlabeled.weak, target.weak])
        features, logits = self.network.forward_views(views, joint=p.batch_norm == "joint" and batch.kind != "apart")
        logits["weak"], target_logits = logits["weak"].tensor_split([len(unlabeled)])

        # The pseudo-label memory takes in the whole batch, on every process.
        prediction = gather(logits["weak"].detach().softmax(1))
        rows = gather(unlabeled.rows)
        pseudo = self._update_pseudo_labels(rows, prediction)
        trusted, targets = self.pseudo_labels.trusted(pseudo, rows), self.pseudo_labels.targets(pseudo)
        labels = self._labels(labeled.y, logits["labeled"].dtype)
        target_labels = self._labels(target.y, labels.dtype, domain=1) if target else labels[:0]
        student_logits = gather(logits[student])
        rise = ramp(batch.progress, p.ramp_up) if p.ramp_up else 1.0

        losses = Losses()
        true_logits, true_labels = torch.cat([logits["labeled"], target_logits]), torch.cat([labels, target_labels])
        losses.add("labeled", self.labeled_loss(true_logits, true_labels), p.lambda_cl)
        kept_only = p.pseudo_mean == "kept"
        pseudo_loss = trusted_cross_entropy(student_logits, targets, trusted, kept_only=kept_only)
        losses.add("pseudo", pseudo_loss, p.lambda_pl * rise)
        if p.lambda_confusion:
            seen = by_class(self._confusion_logits(student_logits, logits["weak"]))
            losses.add("confusion", class_confusion(seen, p.confusion_temperature), p.lambda_confusion)
        if p.lambda_consistency and student == "strong":
            losses.add("consistency", self._consistency_loss(student_logits, pseudo), p.lambda_consistency)
        if p.lambda_pa:
            losses.add("prototype", self._alignment_loss(batch, features, pseudo, trusted), p.lambda_pa * rise)
        if mix:
            own_targets = replace_first(self.processes.own(targets), target_labels)
            own_trusted = replace_first(self.processes.own(trusted), target_labels.sum(1) > 0)
            loss = self._mixup_loss(logits["mixed"], mix, labels, own_targets, own_trusted)
            losses.add("mixup", loss, p.lambda_mixup * rise)
        if p.min_affinity:
            losses.log("affinity", self.affinity)
        losses.log("mask_rate", trusted.float().mean())
        losses.log("pseudo_agreement", (self._classes(pseudo) == self._classes(prediction)).float().mean())
        losses.log("unlabeled_half", pseudo[:, self.num_classes :].sum(1).mean())
        return losses

    def _confusion_logits(self, student: Tensor, weak: Tensor) -> Tensor:
        """The logits (B, 2C) whose class confusion is taken: of weak views where strong ones lose the classes."""
        least = self.params.min_affinity
        return torch.where(self.affinity < least, self.processes.gather(weak), student) if least else student

    def _consistency_loss(self, student: Tensor, pseudo: Tensor) -> Tensor:
        """FixMatch's loss over the classes, whichever the domain, with averaged pseudo-labels in place of weak views.

        Weak views of the first steps, normalised together with the labeled domain, may all be predicted as one class;
        with them as targets it would stay so.
        """
        classes = self.pseudo_labels.classes(pseudo)
        sure = classes.amax(1) > self.params.consistency_threshold
        return trusted_cross_entropy(by_class(student), F.one_hot(classes.argmax(1), self.num_classes), sure)

    def _labels(self, y: Tensor, dtype: torch.dtype, domain: int = 0) -> Tensor:
        """Eq. 4: labels as one-hot rows over 2C classes (B, 2C), by default of the labeled domain."""
        return expand_labels(F.one_hot(y, self.num_classes).to(dtype), self.num_classes, domain)

    def _update_pseudo_labels(self, rows: Tensor, prediction: Tensor) -> Tensor:
        """The pseudo-labels (B, 2C) to train on, with the predictions taken in if every step does so (Eq. 5)."""
        if self.params.pseudo_refresh == "epoch":
            return self.pseudo_labels.table[rows]
        return self.pseudo_labels.update(rows, prediction)

    def _alignment_loss(
        self, batch: PairedBatch, features: dict[str, Tensor], pseudo: Tensor, trusted: Tensor
    ) -> Tensor:
        """Eqs. 7-9, over the whole batch."""
        if self.params.prototypes == "full":
            self.alignment.recompute(self.network, batch.data, self.pseudo_labels, self.processes)
        labeled, y, unlabeled = map(self.processes.gather, (features["labeled"], batch.labeled.y, features["weak"]))
        if batch.target:  # their features follow those of the unlabeled batch
            known = self._labels(self.processes.gather(batch.target.y), pseudo.dtype, domain=1)
            pseudo, trusted = torch.cat([pseudo, known]), torch.cat([trusted, known.sum(1) > 0])
        loss: Tensor = self.alignment(labeled, y, unlabeled, pseudo, trusted)
        return loss

    def _mixup_loss(self, logits: Tensor, mix: Mix, labels: Tensor, targets: Tensor, trusted: Tensor) -> Tensor:
        """Eq. 12, over this process's samples."""
        # Mixed with 1, the trust (0 or 1) stays 1 only where the unlabeled sample is trusted.
        gate = mix(torch.ones_like(labels[:, 0]), trusted.to(labels)) >= 1 if self.params.mixup_gate else None
        return mixup_loss(logits, mix(labels, targets), weights=gate, reduction=self.params.mixup_reduction)

    def _sweep(self, data: PairedData, view: str) -> Iterator[tuple[Samples, Tensor]]:
        """Every unlabeled training sample's logits in evaluation mode."""
        for samples in data.unlabeled.sweep(data.random):
            yield samples, self.network.evaluate(samples.test if view == "test" else samples.weak)[1]

    def _classes(self, joint: Tensor) -> Tensor:
        return joint.argmax(1) % self.num_classes

    def pseudo_classes(self) -> Tensor:
        return self._classes(self.pseudo_labels.table)

    @classmethod
    def advice(cls, settings: Settings, params: UniHSSLParams) -> str:
        robust = params.initial_statistics == "unlabeled" and params.lambda_confusion
        ways = [] if robust else [Setting("preset", "robust")]
        views = {"unlabeled_view": params.unlabeled_view, "labeled_view": settings.labeled_view}
        # A frozen backbone sees the test view alone, unless its views were asked for; feature vectors have no views.
        if settings.train == "full" and settings.backbone != "mlp":
            ways += [Setting(name, "weak") for name, view in views.items() if view != "weak"]
        longer = f"longer training ({Setting('epochs')}, {Setting('pretrain_epochs')})"
        another = f"or another method ({Setting('method', 'mcc+sup')})"
        return ", ".join([*(f"{way}" for way in ways), longer, another])

    @classmethod
    def output(cls, network: nn.Module, x: Tensor, params: Any) -> Output:
        """Two ways from 2C to C classes: the larger half, normalised (its peak is argmax mod C); the halves' sum."""
        halves = network(x).softmax(1).unflatten(1, (2, -1))
        larger = halves.amax(1)
        rules = {"argmax": larger / larger.sum(1, keepdim=True), "sum": halves.sum(1)}
        return Output(rules, halves[:, 1].sum(1))


def by_class(logits: Tensor) -> Tensor:
    """Logits (B, C) of the classes, whichever the domain, from those of all 2C."""
    return torch.logaddexp(*logits.chunk(2, dim=1))


def replace_first(rows: Tensor, first: Tensor) -> Tensor:
    """The rows, the first of them replaced by others: mixup then sees these in place of as many unlabeled samples."""
    return torch.cat([first[: len(rows)], rows[len(first) :]])


def ramp(progress: Tensor, share: float) -> Tensor:
    """Rises from near 0 to 1 over the first `share` of a stage, slowly at first (Laine and Aila, 2017)."""
    return torch.exp(-5 * (1 - (progress / share).clamp(max=1)).square())

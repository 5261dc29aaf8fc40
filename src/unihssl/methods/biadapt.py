"""BiAdapt: adapt to the unlabeled domain, label it, and learn from both on the way back (Jia et al., 2023)."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unihssl.config import knob
from unihssl.data.batches import PairedBatch, PairedData
from unihssl.losses import soft_cross_entropy
from unihssl.methods.base import Losses, MakeEncoder, Method, Stage
from unihssl.methods.batch_norm_stats import keep_running_statistics
from unihssl.methods.cdan import domain_discriminator, domain_labels, reversal_coefficient, reverse_gradient
from unihssl.methods.presets import Knobs
from unihssl.models.classifier import Classifier


@dataclass(frozen=True)
class BiAdaptParams:
    transfer: Literal["mmd", "coral", "adv"] = knob("mmd", "How stage 1 draws the domains together.")
    lambda_t: float = knob(0.5, "Weight of the transfer loss (stage 1).", low=0)
    lambda_s: float = knob(0.1, "Weight of the pseudo-label loss (stage 2).", low=0)
    bottleneck: int = knob(256, "Width of the layer between backbone and head; 0 for none.", low=0)
    reversal_steps: float = knob(10_000, "Scale of the steps over which gradient reversal rises (adv).", low=1)


_FINETUNE: Knobs = {"lr": 5e-4, "lr_schedule": "constant", "steps": 2000, "nesterov": False}
_FINETUNE |= {"weight_decay": 5e-4, "decay_bias_and_norm": False}


class BiAdapt(Method[BiAdaptParams]):
    """Stage 1 trains a labeler that is thrown away; stage 2 a fresh network on labels and weighted pseudo-labels."""

    name = "biadapt"
    paper = "Jia et al., Bidirectional Adaptation for Robust Semi-Supervised Learning, ICML 2023"
    presets = {"finetune": {"": _FINETUNE}, "original": {"": _FINETUNE | {"batch_size": 64}}}
    soft_labels: Tensor
    class_weights: Tensor
    belief_sums: Tensor
    belief_counts: Tensor

    def setup(self, make_encoder: MakeEncoder) -> None:
        classes = self.task.num_classes
        self.labeler = self.build_network(make_encoder, classes, self.params)
        adversarial = self.params.transfer == "adv"
        self.discriminator = domain_discriminator(self.labeler.feature_dim) if adversarial else nn.Identity()
        self.register_buffer("soft_labels", torch.zeros(self.task.num_unlabeled, classes))
        for name in ("class_weights", "belief_sums", "belief_counts"):
            self.register_buffer(name, torch.zeros(classes))

    @classmethod
    def build_network(cls, make_encoder: MakeEncoder, num_classes: int, params: BiAdaptParams) -> Classifier:
        return Classifier(*make_encoder(), num_classes, params.bottleneck, "relu")

    def stages(self) -> list[Stage]:
        s = self.settings
        first = nn.ModuleList([self.labeler, self.discriminator])
        return [
            Stage("adapt", self.adapt, s, s.epoch_length, trains=first),
            Stage("return", self.come_back, s, s.epoch_length, trains=self.network, begin=self.label_all),
        ]

    def adapt(self, batch: PairedBatch) -> Losses:
        """Stage 1: labeled cross-entropy, and features of both domains drawn together."""
        views = {"labeled": batch.all_labeled.labeled_view, "unlabeled": batch.unlabeled.weak}
        features, logits = self.labeler.forward_views(views, joint=False)
        losses = Losses()
        losses.add("labeled", self.labeled_loss(logits["labeled"], batch.all_labeled.y))
        source = features["labeled"][: len(batch.labeled.y)]  # target labels are not of the labeled domain
        transfer = self._transfer(source, features["unlabeled"], batch.step)
        losses.add("transfer", transfer, self.params.lambda_t)
        return losses

    def label_all(self, data: PairedData) -> None:
        """Between the stages: soft labels for all unlabeled samples, and the classes' weights."""
        for samples in data.unlabeled.sweep(data.random):
            self.soft_labels[samples.rows] = self.labeler.evaluate(samples.test)[1].softmax(1)
        classes = self.task.num_classes
        known = data.target_classes()
        if known is not None:
            self.soft_labels[known >= 0] = F.one_hot(known[known >= 0], classes).to(self.soft_labels)
        labels = data.labeled.labels
        assert labels is not None
        self.class_weights.copy_(class_weights(labels, self.soft_labels.argmax(1), classes))

    def come_back(self, batch: PairedBatch) -> Losses:
        """Stage 2: labeled cross-entropy, and stage 1's labels weighted by class and by the student's belief."""
        labeled = self.network(batch.all_labeled.labeled_view)
        with keep_running_statistics(self.network):
            unlabeled = self.network(batch.unlabeled.weak)
        targets = self.soft_labels[batch.unlabeled.rows]
        hard = targets.argmax(1)
        belief = unlabeled.detach().softmax(1).gather(1, hard.unsqueeze(1)).squeeze(1)
        weights = self._sample_weights(belief, hard) * self.class_weights[hard]
        losses = Losses()
        losses.add("labeled", self.labeled_loss(labeled, batch.all_labeled.y))
        losses.add("pseudo", (weights * soft_cross_entropy(unlabeled, targets)).mean(), self.params.lambda_s)
        losses.log("belief", belief.mean())
        return losses

    def pseudo_classes(self) -> Tensor:
        return self.soft_labels.argmax(1)

    def _sample_weights(self, belief: Tensor, hard: Tensor) -> Tensor:
        """The student's belief, relative to its cumulative mean for the class; mean 1 over the batch."""
        all_beliefs, labels = self.processes.gather(belief), self.processes.gather(hard)
        self.belief_sums.scatter_add_(0, labels, all_beliefs)
        self.belief_counts.scatter_add_(0, labels, torch.ones_like(all_beliefs))
        per_class = self.belief_sums / self.belief_counts.clamp(min=1)
        overall = self.belief_sums.sum() / self.belief_counts.sum()
        weights = belief * overall / per_class[hard].clamp(min=1e-12)
        return weights / self.processes.mean(weights).clamp(min=1e-12)

    def _transfer(self, labeled: Tensor, unlabeled: Tensor, step: Tensor) -> Tensor:
        if self.params.transfer == "mmd":
            return mmd(self.processes.gather(labeled), self.processes.gather(unlabeled))
        if self.params.transfer == "coral":
            return coral(self.processes.gather(labeled), self.processes.gather(unlabeled))
        features = torch.cat([labeled, unlabeled])
        coefficient = reversal_coefficient(step, self.params.reversal_steps / self.time_scale)
        logits = self.discriminator(reverse_gradient(features, coefficient)).squeeze(1)
        return F.binary_cross_entropy_with_logits(logits, domain_labels(len(labeled), len(unlabeled), logits))


def class_weights(labels: Tensor, pseudo: Tensor, num_classes: int) -> Tensor:
    """How much more frequent each class is among the labels than among the pseudo-labels (C,)."""
    labeled = torch.bincount(labels, minlength=num_classes) / len(labels)
    unlabeled = torch.bincount(pseudo, minlength=num_classes).clamp(min=1) / len(pseudo)
    return labeled / unlabeled


def mmd(first: Tensor, second: Tensor, kernels: int = 5, spread: float = 2.0) -> Tensor:
    """Maximum mean discrepancy under a sum of Gaussian kernels around the mean squared distance (biased)."""
    both = torch.cat([first, second])
    n = len(first)
    distances = (both.unsqueeze(0) - both.unsqueeze(1)).square().sum(2)
    scale = distances.detach().sum() / (len(both) ** 2 - len(both)) / spread ** (kernels // 2)
    kernel = torch.stack([(-distances / (scale * spread**k).clamp(min=1e-12)).exp() for k in range(kernels)]).sum(0)
    return kernel[:n, :n].mean() + kernel[n:, n:].mean() - kernel[:n, n:].mean() - kernel[n:, :n].mean()


def coral(first: Tensor, second: Tensor) -> Tensor:
    """Squared distance of the two covariances (Sun and Saenko, 2016)."""
    return (first.T.cov() - second.T.cov()).square().sum() / (4 * first.shape[1] ** 2)

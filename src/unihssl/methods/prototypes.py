"""Class prototypes of both domains and their alignment (Eqs. 7-9).

Prototypes are kept between steps: Eqs. 7-8 are means over a data set, and a batch is only a sample of it.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from unihssl.data.batches import PairedData
from unihssl.losses import class_means, class_sums, prototype_alignment_loss
from unihssl.methods.process_group import ProcessGroup
from unihssl.methods.pseudo_labels import PseudoLabels
from unihssl.methods.unihssl_params import UniHSSLParams
from unihssl.models.classifier import Classifier

Mode = Literal["memory", "batch", "epoch", "full"]


class Prototypes(nn.Module):
    """The prototypes of one domain (C, D). Their gradient is that of the current batch's class means.

    Those estimate the means over all data, so their gradient does too. The batch's share of a prototype would pass on a
    tenth of it (memory, at a momentum of 0.9) or less.

    memory: a moving average of batch means, starting from the first. batch: the batch alone. epoch: the mean over the
    epoch so far. full: the mean over the data set, recomputed by `restart` and `add` before every step.
    """

    values: Tensor
    mass: Tensor
    count: Tensor

    def __init__(self, num_classes: int, width: int, mode: Mode, momentum: float, literal_mean: bool) -> None:
        super().__init__()
        self.num_classes, self.mode, self.momentum, self.literal_mean = num_classes, mode, momentum, literal_mean
        self.register_buffer("values", torch.zeros(num_classes, width))  # means (memory) or sums (epoch, full)
        self.register_buffer("mass", torch.zeros(num_classes))  # samples behind each (memory: batches)
        # Samples in the sums, whatever their classes; only the literal mean asks.
        self.register_buffer("count", torch.zeros(()), persistent=literal_mean)

    def restart(self) -> None:
        self.values.zero_()
        self.mass.zero_()
        self.count.zero_()

    def add(self, features: Tensor, classes: Tensor, weights: Tensor | None = None) -> None:
        """Add samples to the sums without a gradient (epoch and full)."""
        sums, mass = class_sums(features.detach(), classes, self.num_classes, weights)
        self.values += sums
        self.mass += mass
        self.count += len(features)

    def forward(self, features: Tensor, classes: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Prototypes (C, D) that include this batch, and which classes have one (C,)."""
        sums, mass = class_sums(features, classes, self.num_classes, weights)
        means, here = self._mean(sums, mass, len(features)), mass > 0
        if self.mode == "batch":
            return means, here
        if self.mode == "memory":
            self._move(means.detach(), here)
            kept = self.values.clone()
        else:
            if self.mode == "epoch":  # `full` has the batch in its sums already
                self.add(features, classes, weights)
            kept = self._mean(self.values, self.mass, self.count)
        return kept + torch.where(here.unsqueeze(1), means - means.detach(), 0.0), self.mass > 0

    def _move(self, means: Tensor, here: Tensor) -> None:
        """Move the averages of the classes that are here towards these means; the first one is taken as it is."""
        seen = (self.mass > 0).unsqueeze(1)
        moved = torch.where(seen, self.momentum * self.values + (1 - self.momentum) * means, means)
        self.values.copy_(torch.where(here.unsqueeze(1), moved, self.values))
        self.mass += here

    def _mean(self, sums: Tensor, mass: Tensor, count: int | Tensor) -> Tensor:
        return sums / count if self.literal_mean else class_means(sums, mass)


class PrototypeAlignment(nn.Module):
    """Both domains' prototypes, drawn together class by class.

    A pseudo-label in the labeled half names no class of the unlabeled domain and is left out.
    """

    def __init__(self, num_classes: int, width: int, params: UniHSSLParams) -> None:
        super().__init__()
        self.num_classes, self.params = num_classes, params
        kind = (params.prototypes, params.prototype_momentum, params.prototype_mean == "literal")
        self.labeled, self.unlabeled = Prototypes(num_classes, width, *kind), Prototypes(num_classes, width, *kind)

    def begin_epoch(self) -> None:
        if self.params.prototypes == "epoch":
            self._restart()

    def forward(
        self, features: Tensor, labels: Tensor, unlabeled_features: Tensor, pseudo_labels: Tensor, trusted: Tensor
    ) -> Tensor:
        """Eq. 9 on a whole batch: features (B, D) with labels (B,), and (B', D) with pseudo-labels (B', 2C)."""
        p = self.params
        labeled, seen = self.labeled(features, labels)
        unlabeled, unlabeled_seen = self.unlabeled(unlabeled_features, self._unlabeled_classes(pseudo_labels), trusted)
        return prototype_alignment_loss(
            labeled,
            unlabeled,
            p.tau,
            valid=seen & unlabeled_seen if p.missing_classes == "skip" else None,
            include_positive=p.include_positive,
            reduction=p.alignment_reduction,
        )

    @torch.no_grad()
    def recompute(
        self, network: Classifier, data: PairedData, pseudo_labels: PseudoLabels, processes: ProcessGroup
    ) -> None:
        """Prototypes of all data, for `prototypes=full`."""
        self._restart()
        for samples in data.labeled.sweep(data.random):
            self.labeled.add(network.evaluate(samples.test)[0], samples.y)
        for samples in data.unlabeled.sweep(data.random):
            rows = pseudo_labels.table[samples.rows]
            features = network.evaluate(samples.test)[0]
            self.unlabeled.add(features, self._unlabeled_classes(rows), pseudo_labels.trusted(rows, samples.rows))
        for prototypes in (self.labeled, self.unlabeled):
            # Without synchronised BatchNorm, processes compute different features.
            prototypes.values.copy_(processes.gather(prototypes.values.unsqueeze(0)).mean(0))

    def _unlabeled_classes(self, pseudo_labels: Tensor) -> Tensor:
        return pseudo_labels.argmax(1) - self.num_classes

    def _restart(self) -> None:
        self.labeled.restart()
        self.unlabeled.restart()

"""Both domains' prototypes, drawn together class by class (Eqs. 7-9)."""

import torch
from torch import Tensor, nn

from unihssl.data.batches import PairedData
from unihssl.losses import prototype_alignment_loss
from unihssl.methods.process_group import ProcessGroup
from unihssl.methods.prototypes import Prototypes
from unihssl.methods.pseudo_labels import PseudoLabels
from unihssl.methods.unihssl_params import UniHSSLParams
from unihssl.models.classifier import Classifier


class PrototypeAlignment(nn.Module):
    """A pseudo-label in the labeled half names no class of the unlabeled domain and is left out."""

    def __init__(self, num_classes: int, width: int, params: UniHSSLParams) -> None:
        super().__init__()
        self.num_classes, self.params = num_classes, params
        kind = (params.prototypes, params.prototype_momentum, params.prototype_mean == "literal")
        self.labeled, self.unlabeled = Prototypes(num_classes, width, *kind), Prototypes(num_classes, width, *kind)

    def begin_epoch(self) -> None:
        if self.params.prototypes == "epoch":
            self._restart()

    def forward(
        self, features: Tensor, labels: Tensor, unlabeled_features: Tensor, beliefs: Tensor, trusted: Tensor
    ) -> Tensor:
        """The loss of a whole batch: labeled features with labels, unlabeled ones with beliefs and trust in them."""
        p = self.params
        labeled, seen = self.labeled(features, labels)
        unlabeled, unlabeled_seen = self.unlabeled(unlabeled_features, self._unlabeled_classes(beliefs), trusted)
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
        """From all data, for `prototypes=full`."""
        self._restart()
        for samples in data.labeled.sweep(data.random):
            self.labeled.add(network.evaluate(samples.test)[0], samples.y)
        for samples in data.unlabeled.sweep(data.random):
            beliefs = pseudo_labels.table[samples.rows]
            features = network.evaluate(samples.test)[0]
            self.unlabeled.add(features, self._unlabeled_classes(beliefs), pseudo_labels.trusted(beliefs))
        for prototypes in (self.labeled, self.unlabeled):
            # Processes whose BatchNorm is not synchronised see features of their own.
            prototypes.values.copy_(processes.gather(prototypes.values.unsqueeze(0)).mean(0))

    def _unlabeled_classes(self, beliefs: Tensor) -> Tensor:
        return beliefs.argmax(1) - self.num_classes

    def _restart(self) -> None:
        self.labeled.restart()
        self.unlabeled.restart()

"""The memory of pseudo-labels, one row of 2C for each unlabeled training sample, and when to trust a row."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unihssl.losses import expand_labels, wma_update
from unihssl.methods.unihssl_params import UniHSSLParams


class PseudoLabels(nn.Module):
    """Beliefs about the unlabeled samples, updated by Eq. 5 as predictions come in."""

    table: Tensor

    def __init__(self, num_samples: int, num_classes: int, params: UniHSSLParams) -> None:
        super().__init__()
        self.num_classes, self.params = num_classes, params
        self.register_buffer("table", torch.zeros(num_samples, 2 * num_classes))

    def update(self, rows: Tensor, prediction: Tensor) -> Tensor:
        """Take in predictions for these rows; the beliefs to train on now."""
        previous, prediction = self.table[rows], prediction.to(self.table)
        if self.params.first_half == "fold":
            prediction = expand_labels(self.classes(prediction), self.num_classes, domain=1)
        if self.params.pseudo_update == "previous":
            self.table[rows] = prediction
            return previous
        current = wma_update(previous, prediction, self.params.beta)
        self.table[rows] = current
        return current

    def trusted(self, beliefs: Tensor) -> Tensor:
        """The indicator of Eqs. 6 and 8."""
        if self.params.confidence == "max":
            trusted = beliefs.amax(1) > self.params.epsilon
        else:
            trusted = beliefs[:, self.num_classes :].sum(1) > self.params.epsilon
        if self.params.first_half == "drop":
            return trusted & (beliefs.argmax(1) >= self.num_classes)
        return trusted

    def classes(self, joint: Tensor) -> Tensor:
        """Both halves added up, (B, C)."""
        return joint[:, : self.num_classes] + joint[:, self.num_classes :]

    def targets(self, beliefs: Tensor) -> Tensor:
        if self.params.pseudo_kind == "soft":
            return beliefs
        return F.one_hot(beliefs.argmax(1), 2 * self.num_classes).to(beliefs)

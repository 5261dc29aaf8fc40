"""The memory of pseudo-labels, a row of 2C for each unlabeled training sample, and when to trust a row."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unihssl.losses import expand_labels, wma_update
from unihssl.methods.unihssl_params import UniHSSLParams


class PseudoLabels(nn.Module):
    """Pseudo-labels of all unlabeled training samples (N_U, 2C), updated by Eq. 5 as predictions come in."""

    table: Tensor

    def __init__(self, num_samples: int, num_classes: int, params: UniHSSLParams) -> None:
        super().__init__()
        self.num_classes, self.params = num_classes, params
        self.register_buffer("table", torch.zeros(num_samples, 2 * num_classes))

    def update(self, rows: Tensor, prediction: Tensor) -> Tensor:
        """Take in predictions (B, 2C) for these rows; returns the pseudo-labels to train on (B, 2C)."""
        previous, prediction = self.table[rows], prediction.to(self.table)
        if self.params.first_half == "fold":
            prediction = expand_labels(self.classes(prediction), self.num_classes, domain=1)
        if self.params.pseudo_update == "previous":
            self.table[rows] = prediction
            return previous
        current = wma_update(previous, prediction, self.params.beta)
        self.table[rows] = current
        return current

    def trusted(self, pseudo_labels: Tensor) -> Tensor:
        """The indicator of Eqs. 6 and 8 (B,)."""
        if self.params.confidence == "max":
            trusted = pseudo_labels.amax(1) > self.params.epsilon
        else:
            trusted = pseudo_labels[:, self.num_classes :].sum(1) > self.params.epsilon
        if self.params.first_half == "drop":
            return trusted & (pseudo_labels.argmax(1) >= self.num_classes)
        return trusted

    def classes(self, joint: Tensor) -> Tensor:
        """Both halves of (B, 2C) added up, (B, C)."""
        return joint[:, : self.num_classes] + joint[:, self.num_classes :]

    def targets(self, pseudo_labels: Tensor) -> Tensor:
        """What to train towards (B, 2C): the pseudo-labels as they are, or their argmax."""
        if self.params.pseudo_kind == "soft":
            return pseudo_labels
        return F.one_hot(pseudo_labels.argmax(1), 2 * self.num_classes).to(pseudo_labels)

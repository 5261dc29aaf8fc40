"""The memory of pseudo-labels, a row of 2C for each unlabeled training sample, and when to trust a row."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unihssl.losses import expand_labels, wma_update
from unihssl.methods.unihssl_params import UniHSSLParams


class PseudoLabels(nn.Module):
    """Pseudo-labels of all unlabeled training samples (N_U, 2C), updated by Eq. 5 as predictions come in."""

    table: Tensor
    exact: Tensor | None  # (N_U,) bool: rows that are true labels

    def __init__(self, num_samples: int, num_classes: int, params: UniHSSLParams, *, some_exact: bool = False) -> None:
        super().__init__()
        self.num_classes, self.params = num_classes, params
        self.register_buffer("table", torch.zeros(num_samples, 2 * num_classes))
        self.register_buffer("exact", torch.zeros(num_samples, dtype=torch.bool) if some_exact else None)

    def fix(self, classes: Tensor) -> None:
        """Rows of known class (N_U,), -1 for the others, become exact: one-hot, always trusted, never changed again."""
        known = classes >= 0
        true = F.one_hot(self.num_classes + classes.clamp(min=0), 2 * self.num_classes)
        self.table.copy_(torch.where(known.unsqueeze(1), true.to(self.table), self.table))
        assert self.exact is not None
        self.exact.copy_(known)

    def update(self, rows: Tensor, prediction: Tensor) -> Tensor:
        """Take in predictions (B, 2C) for these rows; returns the pseudo-labels to train on (B, 2C)."""
        previous, prediction = self.table[rows], prediction.to(self.table)
        if self.params.first_half == "fold":
            prediction = expand_labels(self.classes(prediction), self.num_classes, domain=1)
        by_average = self.params.pseudo_update == "wma"
        current = wma_update(previous, prediction, self.params.beta) if by_average else prediction
        if self.exact is not None:
            current = torch.where(self.exact[rows].unsqueeze(1), previous, current)
        kept = current
        if self.params.unlabeled_sampling == "balanced":  # a row can be drawn twice: its first prediction is kept
            kept = current[(rows.unsqueeze(1) == rows).int().argmax(1)]
        self.table[rows] = kept
        return current if by_average else previous

    def trusted(self, pseudo_labels: Tensor, rows: Tensor | None = None) -> Tensor:
        """The indicator of Eqs. 6 and 8 (B,); with their rows, exact ones are trusted whatever epsilon is."""
        if self.params.confidence == "max":
            trusted = pseudo_labels.amax(1) > self.params.epsilon
        else:
            trusted = pseudo_labels[:, self.num_classes :].sum(1) > self.params.epsilon
        if self.params.first_half == "drop":
            trusted = trusted & (pseudo_labels.argmax(1) >= self.num_classes)
        return trusted if self.exact is None or rows is None else trusted | self.exact[rows]

    def classes(self, joint: Tensor) -> Tensor:
        """Both halves of (B, 2C) added up, (B, C)."""
        return joint[:, : self.num_classes] + joint[:, self.num_classes :]

    def targets(self, pseudo_labels: Tensor) -> Tensor:
        """What to train towards (B, 2C): the pseudo-labels as they are, or their argmax."""
        if self.params.pseudo_kind == "soft":
            return pseudo_labels
        return F.one_hot(pseudo_labels.argmax(1), 2 * self.num_classes).to(pseudo_labels)

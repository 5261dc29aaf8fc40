"""The ceiling of every table: supervised training on both domains, with the labels that no other method may see."""

import torch.nn.functional as F

from unihssl.data.batches import PairedBatch
from unihssl.methods.base import Losses, Method, NoParams


class Oracle(Method[NoParams]):
    """Cross-entropy on both domains, the unlabeled one with its true labels: what labels there would be worth."""

    name = "oracle"
    paper = "Supervised on the union of both domains"
    needs_truth = True

    def step(self, batch: PairedBatch) -> Losses:
        views = {"labeled": batch.labeled.labeled_view, "unlabeled": batch.unlabeled.labeled_view}
        _, logits = self.network.forward_views(views)
        losses = Losses()
        losses.add("labeled", self.labeled_loss(logits["labeled"], batch.labeled.y))
        losses.add("unlabeled", F.cross_entropy(logits["unlabeled"], batch.unlabeled.y))
        return losses

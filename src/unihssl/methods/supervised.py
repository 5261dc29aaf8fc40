"""The baseline that every claim is measured against: labeled data alone."""

from unihssl.data.batches import PairedBatch
from unihssl.methods.base import Losses, Method, NoParams, Stage


class Supervised(Method[NoParams]):
    """Cross-entropy on the labeled domain and on target labels; unlabeled samples are never seen."""

    name = "supervised"
    paper = "Section 4 of Uni-HSSL (arXiv 2503.00286)"

    def stages(self) -> list[Stage]:
        return [Stage(self.name, self.step, self.settings, "labeled")]

    def step(self, batch: PairedBatch) -> Losses:
        losses = Losses()
        losses.add("labeled", self.labeled_loss(self.network(batch.all_labeled.labeled_view), batch.all_labeled.y))
        return losses

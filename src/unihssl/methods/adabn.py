"""AdaBN: trained on labeled data alone, then BatchNorm statistics of the unlabeled domain (Li et al., 2016)."""

from typing import Any

from torch import Tensor, nn

from unihssl.data.batches import PairedBatch, PairedData
from unihssl.methods.base import Losses, MakeEncoder, Method, NoParams, Output, Stage
from unihssl.methods.batch_norm_stats import has_batch_norm, set_statistics
from unihssl.models.classifier import Classifier


class AdaBN(Method[NoParams]):
    """Supervised, read out under the unlabeled domain's BatchNorm statistics; no step sees that domain."""

    name = "supervised+adabn"
    paper = "Li et al., Revisiting Batch Normalization for Practical Domain Adaptation, 2016 (arXiv 1603.04779)"
    network: nn.ModuleDict  # type: ignore[assignment]

    @classmethod
    def build_network(cls, make_encoder: MakeEncoder, num_classes: int, params: NoParams) -> nn.Module:
        return nn.ModuleDict({name: Classifier(*make_encoder(), num_classes) for name in ("supervised", "adapted")})

    def notes(self) -> list[str]:
        none = not has_batch_norm(self.network)
        return [f"{self.name} is about BatchNorm, of which nothing trains here: it equals supervised"] if none else []

    def stages(self) -> list[Stage]:
        return [Stage("supervised", self.step, self.settings, "labeled", trains=self.network["supervised"])]

    def step(self, batch: PairedBatch) -> Losses:
        losses, labeled = Losses(), batch.all_labeled
        losses.add("labeled", self.labeled_loss(self.network["supervised"](labeled.labeled_view), labeled.y))
        return losses

    def finish(self, data: PairedData) -> None:
        adapted = self.network["adapted"]
        adapted.load_state_dict(self.network["supervised"].state_dict())
        set_statistics(adapted, (samples.test for samples in data.unlabeled.sweep(data.random, shuffled=True)))

    @classmethod
    def output(cls, network: nn.Module, x: Tensor, params: Any) -> Output:
        """`argmax` is under the unlabeled domain's statistics for all samples; the labeled domain's stand beside it."""
        adapted, supervised = (network.get_submodule(name)(x).softmax(1) for name in ("adapted", "supervised"))
        return Output({"argmax": adapted, "supervised": supervised}, oracle=("supervised", "argmax"))

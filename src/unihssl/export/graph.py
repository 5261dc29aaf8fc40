"""All that a model answers, as one module: from decoded samples to named outputs."""

from typing import Any

from torch import Tensor, nn

from unihssl.data.views import Views
from unihssl.export.resizing import resize
from unihssl.methods.base import Method

FLOOR = 1e-12  # of a probability, before its logarithm


class InferenceGraph(nn.Module):
    """Maps uint8 images (N, H, W, C) or float vectors (N, D) to outputs by name.

    `probabilities` (N, C) are by the model's rule, `probabilities_RULE` by each one where there are several, and
    `unlabeled_domain` (N,) is there if the method tells the domains apart. After an audit: `calibrated` (N, C), its
    maximum `confidence` (N,), and `abstain` (N,) bool.
    """

    def __init__(
        self,
        network: nn.Module,
        method: type[Method[Any]],
        params: Any,
        views: Views,
        rule: str,
        stored_size: tuple[int, int] | None,
        audit: dict[str, Any] | None = None,
    ) -> None:
        """`stored_size`, to which images are resized; None if they have it already, and for vectors."""
        super().__init__()
        self.stored_size = stored_size
        self.network = network
        self.method, self.params, self.views, self.rule, self.audit = method, params, views, rule, audit

    def forward(self, samples: Tensor) -> dict[str, Tensor]:
        if self.stored_size:
            samples = resize(samples, *self.stored_size)
        output = self.method.output(self.network, self.views.test(samples), self.params)
        raw, domain = output.probabilities[self.rule], output.unlabeled_domain
        found = {"probabilities": raw}
        if len(output.probabilities) > 1:
            found |= {f"probabilities_{rule}": p.clone() for rule, p in output.probabilities.items()}
        if domain is not None:
            found["unlabeled_domain"] = domain
        if self.audit is not None:
            calibrated = self._calibrated(self.audit, raw, domain)
            found |= {"calibrated": calibrated, "confidence": calibrated.amax(1)}
            threshold = self.audit["threshold"]
            found["abstain"] = raw.amax(1) < (float("inf") if threshold is None else threshold)
        return found

    def _calibrated(self, audit: dict[str, Any], raw: Tensor, domain: Tensor | None) -> Tensor:
        """As `evaluation.audit.calibrated`."""
        audited = temper(raw, audit["temperature"])
        if domain is None or audit["labeled_temperature"] is None:
            return audited.float()
        weight = domain.double().unsqueeze(1)
        return (weight * audited + (1 - weight) * temper(raw, audit["labeled_temperature"])).float()


def temper(probabilities: Tensor, temperature: float) -> Tensor:
    """softmax(log p / temperature) for each row of (N, C), in double precision."""
    return (probabilities.double().clamp(min=FLOOR).log() / temperature).softmax(1)

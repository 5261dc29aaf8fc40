"""Where a convolutional network looks: Grad-CAM (Selvaraju et al., 2017) on its last feature map."""

import torch
from torch import Tensor, nn

from unihssl.models.classifier import Classifier


def last_feature_map(network: Classifier, x: Tensor) -> nn.Module | None:
    """The module whose output is the last map (B, C, h, w) before pooling; None for transformers and vectors."""
    if x.dim() != 4 or any("Attention" in type(part).__name__ for part in network.modules()):
        return None
    seen: list[nn.Module] = []

    def note(module: nn.Module, inputs: object, output: object) -> None:
        if isinstance(output, Tensor) and output.dim() == 4 and min(output.shape[2:]) > 1:
            seen.append(module)

    hooks = [part.register_forward_hook(note) for part in network.encoder.modules()]
    with torch.no_grad():
        network.evaluate(x[:1])
    for hook in hooks:
        hook.remove()
    return seen[-1] if seen else None


def heat_maps(network: Classifier, layer: nn.Module, x: Tensor, classes: Tensor, num_classes: int) -> Tensor:
    """For images (B, 3, H, W) and classes (B,), how much each place speaks for the class: (B, H, W) in 0..1.

    A head of several outputs for each class, as that of Uni-HSSL, is read by their log-sum.
    """
    maps: list[Tensor] = []
    hook = layer.register_forward_hook(lambda module, inputs, output: maps.append(output))
    try:
        with torch.enable_grad():
            logits = network(x.clone().requires_grad_()).unflatten(1, (-1, num_classes)).logsumexp(1)
            chosen = logits.gather(1, classes.unsqueeze(1)).sum()
            (gradient,) = torch.autograd.grad(chosen, maps[-1])
    finally:
        hook.remove()
    weights = gradient.mean((2, 3), keepdim=True)
    heat = (weights * maps[-1].detach()).sum(1, keepdim=True).relu()
    heat = nn.functional.interpolate(heat, size=x.shape[2:], mode="bilinear", align_corners=False).squeeze(1)
    return heat / heat.amax((1, 2), keepdim=True).clamp(min=1e-12)

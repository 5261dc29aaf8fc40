"""Grad-CAM against what it must be where it can be derived."""

import torch
from torch import nn

from unihssl.models.classifier import Classifier
from unihssl.report.heat import heat_maps, last_feature_map


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 5, 3, padding=1)

    def forward(self, x):
        return self.last(self.first(x).relu()).mean((2, 3))


def test_under_average_pooling_and_a_linear_head_it_is_the_class_activation_map():
    """Zhou et al., 2016: the head's weights of the class, applied to the map at each place."""
    torch.manual_seed(0)
    network = Classifier(Pooled(), 5, 3).eval()
    x, classes = torch.randn(2, 3, 6, 6), torch.tensor([2, 0])
    layer = last_feature_map(network, x)
    assert layer is network.encoder.last
    found = heat_maps(network, layer, x, classes, num_classes=3)
    maps = network.encoder.last(network.encoder.first(x).relu())
    for i, c in enumerate(classes):
        expected = sum(network.head.weight[c, k] * maps[i, k] for k in range(5)).relu()
        assert torch.allclose(found[i], expected / expected.max(), atol=1e-5)
    assert all(p.grad is None for p in network.parameters())


def test_vectors_and_transformers_have_no_map():
    class Attention(nn.Linear):
        pass

    assert last_feature_map(Classifier(nn.Linear(4, 5), 5, 3), torch.randn(2, 4)) is None
    assert last_feature_map(Classifier(nn.Sequential(Attention(5, 5)), 5, 3), torch.randn(2, 3, 5, 5)) is None

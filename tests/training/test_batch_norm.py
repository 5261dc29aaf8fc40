"""What synchronising does to a method's networks; what the layers compute is told by tests/system/test_processes.py."""

import pytest
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from unihssl import methods
from unihssl.config import Settings
from unihssl.methods.base import Task
from unihssl.models.backbones import SmallCNN
from unihssl.training.distributed import HostSyncBatchNorm, synchronise_batch_norm


@pytest.mark.parametrize("name", methods.available())
@pytest.mark.parametrize(("device", "kind"), [("cpu", HostSyncBatchNorm), ("cuda", nn.SyncBatchNorm)])
def test_every_batch_norm_of_a_method_is_replaced_around_the_same_tensors(name, device, kind):
    kind_of = methods.get(name)
    method = kind_of(lambda: (SmallCNN(), SmallCNN.feature_dim), kind_of.Params(), Task(3, 12, 12), Settings())
    method.eval()
    x = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        before = kind_of.output(method.network, x, method.params).probabilities
    tensors = dict(method.state_dict(keep_vars=True))
    synchronise_batch_norm(method, torch.device(device))
    layers = [module for module in method.modules() if isinstance(module, _BatchNorm)]
    assert layers and all(isinstance(layer, kind) for layer in layers)
    after = dict(method.state_dict(keep_vars=True))
    assert list(after) == list(tensors) and all(after[key] is tensors[key] for key in tensors)
    with torch.no_grad():
        again = kind_of.output(method.network, x, method.params).probabilities
    for rule in before:
        torch.testing.assert_close(again[rule], before[rule], rtol=0, atol=0)


def test_without_other_processes_it_is_plain_batch_norm():
    x = torch.randn(6, 4)
    plain, network = nn.BatchNorm1d(4), nn.Sequential(nn.BatchNorm1d(4))
    synchronise_batch_norm(network, torch.device("cpu"))
    torch.testing.assert_close(network(x), plain(x), rtol=0, atol=0)
    torch.testing.assert_close(network[0].running_var, plain.running_var, rtol=0, atol=0)

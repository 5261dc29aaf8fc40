"""BatchNorm statistics of one's choice, for a while."""

import pytest
import torch
from torch import nn

from unihssl.methods.batch_norm_stats import keep_running_statistics, statistics_of

pytestmark = pytest.mark.usefixtures("doubles")


@pytest.fixture
def network(doubles) -> nn.Sequential:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))
    network.train()
    for _ in range(5):
        network(torch.randn(16, 4))
    return network


def test_statistics_of_other_batches_while_entered_and_as_before_after(network):
    before = {name: value.clone() for name, value in network.state_dict().items()}
    x = 5 + 3 * torch.randn(40, 4)
    hidden = network[0](x)
    network.eval()
    with statistics_of(network, [x[:20], x[20:]]):
        halves = (hidden[:20], hidden[20:])
        torch.testing.assert_close(network[1].running_mean, hidden.mean(0))
        torch.testing.assert_close(network[1].running_var, torch.stack([h.var(0) for h in halves]).mean(0))
        assert not network.training and not network[1]._forward_pre_hooks
    after = network.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert network[1].momentum == 0.1 and not network.training


def test_statistics_come_back_after_an_error(network):
    before = network[1].running_mean.clone()
    with pytest.raises(RuntimeError), statistics_of(network, [torch.randn(8, 4)]):
        raise RuntimeError
    assert torch.equal(network[1].running_mean, before) and network.training


def test_a_network_without_batch_norm_is_not_asked(network):
    with statistics_of(nn.Linear(4, 2), (pytest.fail("asked") for _ in range(1))):
        pass


def test_running_statistics_can_stay(network):
    before = network[1].running_mean.clone()
    with keep_running_statistics(network):
        network(torch.randn(16, 4) + 9)
    assert torch.equal(network[1].running_mean, before)
    network(torch.randn(16, 4) + 9)
    assert not torch.equal(network[1].running_mean, before)

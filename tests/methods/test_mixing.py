"""Who is mixed with whom. Mixing zeros with ones shows the ratios themselves."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from unihssl.data.batch_random import BatchRandom
from unihssl.methods.mixing import draw_mixing


def draw(labeled: int, unlabeled: int, schedule: str, per: str = "sample", progress: float = 0.0, seed: int = 0):
    sides = {"labeled": range(labeled), "unlabeled": range(unlabeled)}
    return draw_mixing(
        SimpleNamespace(**sides, progress=progress, random={"mixup": BatchRandom(seed=seed)}), 0.75, schedule, per
    )


def ratios(labeled: int, unlabeled: int, *args: object, **options: object) -> Tensor:
    """The unlabeled share of each mixed sample."""
    return draw(labeled, unlabeled, *args, **options)(torch.zeros(labeled), torch.ones(unlabeled))


@pytest.mark.parametrize(("progress", "most"), [(0.0, 0.5), (0.5, 0.75), (1.0, 1.0)])
def test_the_unlabeled_share_grows_with_progress(progress, most):
    share = ratios(2000, 2000, "progressive", progress=progress)
    assert share.max() <= most and share.max() > 0.97 * most and share.min() >= 0
    assert share.mean() == pytest.approx(most / 2, abs=0.02)
    assert torch.allclose(share / most, ratios(2000, 2000, "simple"))


def test_one_ratio_for_the_batch_or_one_for_each_sample():
    assert len(ratios(8, 8, "progressive", "batch").unique()) == 1
    assert len(ratios(8, 8, "progressive", "sample").unique()) == 8


@pytest.mark.parametrize(("labeled", "unlabeled"), [(5, 3), (3, 5), (4, 4)])
def test_the_smaller_batch_is_repeated(labeled, unlabeled):
    mix, share = draw(labeled, unlabeled, "simple"), ratios(labeled, unlabeled, "simple")
    x, u = torch.arange(labeled) + 1.0, 10 * (torch.arange(unlabeled) + 1.0)
    expected = [(1 - r) * x[i % labeled] + r * u[i % unlabeled] for i, r in enumerate(share)]
    torch.testing.assert_close(mix(x, u), torch.stack(expected))
    torch.testing.assert_close(mix(x, u), mix(x, u))  # images and labels are mixed alike


def test_mixmatch_mixes_both_domains_with_both_and_keeps_the_larger_share():
    labeled, unlabeled = 6, 10
    mixed = draw(labeled, unlabeled, "mixmatch")(*torch.eye(labeled + unlabeled).split([labeled, unlabeled]))
    assert mixed.shape == (16, 16)
    assert (mixed.diagonal() >= 0.5).all()
    torch.testing.assert_close(mixed.sum(1), torch.ones(16))
    assert ((mixed > 0).sum(1) <= 2).all()
    partners = (mixed - torch.diag(mixed.diagonal())).sum(0) > 0
    assert partners[:labeled].any() and partners[labeled:].any()

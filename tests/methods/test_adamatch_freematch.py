"""AdaMatch and FreeMatch against slow loops written from their papers."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from unihssl.cli.options import as_options
from unihssl.config import Settings
from unihssl.data.batch_random import RandomStreams
from unihssl.errors import worded
from unihssl.methods import adamatch, freematch
from unihssl.methods.base import Task

CLASSES, LABELED, UNLABELED = 3, 6, 8


class Encoder(nn.Module):
    """Batch-dependent features, so that a pass over both domains differs from one over the labeled one."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.norm(x)
        return features


def draw(seed: int, count: int) -> Tensor:
    return 2 * torch.randn(count, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def batch_of(seed: int, progress: float = 0.3) -> SimpleNamespace:
    weak, strong = draw(seed, LABELED), draw(seed + 1, LABELED)
    labeled = SimpleNamespace(weak=weak, labeled_view=weak, strong=strong, y=torch.arange(LABELED) % CLASSES)
    unlabeled = SimpleNamespace(
        weak=draw(seed + 2, UNLABELED) + 1, strong=draw(seed + 3, UNLABELED), rows=torch.arange(UNLABELED)
    )
    random = RandomStreams()
    random.reseed(seed)
    return SimpleNamespace(
        labeled=labeled, all_labeled=labeled, unlabeled=unlabeled, progress=torch.tensor(progress), random=random
    )


def make(kind, **knobs):
    method = kind(
        lambda: (Encoder(), 4), kind.Params(bottleneck=0, **knobs), Task(CLASSES, LABELED, UNLABELED), Settings()
    )
    return method.double().train()


def softmax(row: list[float]) -> list[float]:
    total = sum(math.exp(v) for v in row)
    return [math.exp(v) / total for v in row]


def mean(rows: list[list[float]]) -> list[float]:
    return [sum(row[c] for row in rows) / len(rows) for c in range(CLASSES)]


def normalised(row: list[float]) -> list[float]:
    return [v / sum(row) for v in row]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("progress", [0.1, 0.3, 0.8])
def test_adamatch_is_the_papers(seed, progress):
    torch.manual_seed(seed)
    method, batch = make(adamatch.AdaMatch, tau=0.9, lambda_u=2.0), batch_of(10 * seed, progress)
    head, source = method.network.head, torch.cat([batch.labeled.weak, batch.labeled.strong])
    everything = torch.cat([source, batch.unlabeled.weak, batch.unlabeled.strong])

    def logits(x: Tensor) -> list[list[float]]:
        scaled = (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt()  # the encoder's BatchNorm, freshly made
        return head(scaled).tolist()

    together, alone = logits(everything), logits(source)
    stream = RandomStreams()
    stream.reseed(10 * seed)
    shares = torch.cat([stream["interpolation"].uniform(LABELED, CLASSES) for _ in range(2)]).double().tolist()
    mixed = [
        [shares[i][c] * together[i][c] + (1 - shares[i][c]) * alone[i][c] for c in range(CLASSES)]
        for i in range(2 * LABELED)
    ]
    y = batch.labeled.y.tolist() * 2
    labeled = sum(-math.log(softmax(row)[c]) for row, c in zip(mixed, y, strict=True)) / LABELED  # both views added
    weak_source = [softmax(row) for row in mixed[:LABELED]]
    weak_target = [softmax(row) for row in together[2 * LABELED : 2 * LABELED + UNLABELED]]
    ratio = [a / b for a, b in zip(mean(weak_source), mean(weak_target), strict=True)]
    pseudo = [normalised([q * r for q, r in zip(row, ratio, strict=True)]) for row in weak_target]
    threshold = 0.9 * sum(max(row) for row in weak_source) / LABELED
    unlabeled, counted = 0.0, 0
    for row, strong in zip(pseudo, together[2 * LABELED + UNLABELED :], strict=True):
        if max(row) >= threshold:
            counted += 1
            unlabeled -= sum(q * math.log(p) for q, p in zip(row, softmax(strong), strict=True)) / UNLABELED
    weight = 0.5 - math.cos(min(math.pi, 2 * math.pi * progress)) / 2

    losses = method.step(batch)
    assert losses.terms["labeled"].item() == pytest.approx(labeled, abs=1e-9)
    assert losses.terms["pseudo"].item() == pytest.approx(unlabeled, abs=1e-9)
    assert losses.total().item() == pytest.approx(labeled + 2 * weight * unlabeled, abs=1e-6)
    assert losses.stats["mask_rate"].item() == pytest.approx(counted / UNLABELED)


def test_adamatch_keeps_the_statistics_of_the_joint_pass():
    method, batch = make(adamatch.AdaMatch), batch_of(0)
    method.step(batch)
    parts = [batch.labeled.weak, batch.labeled.strong, batch.unlabeled.weak, batch.unlabeled.strong]
    torch.testing.assert_close(method.network.encoder.norm.running_mean, 0.1 * torch.cat(parts).mean(0))


@pytest.mark.parametrize("seed", range(6))
def test_freematch_is_the_papers(seed):
    torch.manual_seed(seed)
    method = make(freematch.FreeMatch, decay=0.9, lambda_fair=0.05, lambda_u=2.0, batch_norm="joint")
    confidence, means, histogram = 1 / CLASSES, [1 / CLASSES] * CLASSES, [1 / CLASSES] * CLASSES
    for step in range(3):
        batch = batch_of(10 * seed + 100 * step)
        x = torch.cat([batch.labeled.weak, batch.unlabeled.weak, batch.unlabeled.strong])
        scaled = (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt()
        p = [softmax(row) for row in method.network.head(scaled).tolist()]
        weak, strong = p[LABELED : LABELED + UNLABELED], p[LABELED + UNLABELED :]
        guesses = [row.index(max(row)) for row in weak]
        confidence = 0.9 * confidence + 0.1 * sum(map(max, weak)) / UNLABELED
        means = [0.9 * m + 0.1 * v for m, v in zip(means, mean(weak), strict=True)]
        shares = [guesses.count(c) / UNLABELED for c in range(CLASSES)]
        histogram = [0.9 * h + 0.1 * v for h, v in zip(histogram, shares, strict=True)]
        counted = [i for i in range(UNLABELED) if max(weak[i]) >= confidence * means[guesses[i]] / max(means)]
        pseudo = sum(-math.log(strong[i][guesses[i]]) for i in counted) / UNLABELED
        predicted = [strong[i].index(max(strong[i])) for i in counted]
        here = [predicted.count(c) / len(counted) for c in range(CLASSES)]
        batch_mean = mean([strong[i] for i in counted])
        expected = normalised([m / h for m, h in zip(means, histogram, strict=True)])
        found = normalised([m / h if h else 0.0 for m, h in zip(batch_mean, here, strict=True)])
        fairness = sum(e * math.log(f + 1e-12) for e, f in zip(expected, found, strict=True))

        losses = method.step(batch)
        assert counted and losses.terms["pseudo"].item() == pytest.approx(pseudo, abs=1e-9)
        assert losses.terms["fairness"].item() == pytest.approx(fairness, abs=1e-6)  # buffers begin in float32
        assert losses.total().item() == pytest.approx(
            losses.terms["labeled"].item() + 2 * pseudo + 0.05 * fairness, abs=1e-6
        )


def test_freematch_without_a_counted_sample_is_not_unfair():
    logits = torch.randn(4, 3, requires_grad=True)
    third = torch.full((3,), 1 / 3)
    loss = freematch.fairness_loss(logits, torch.zeros(4, dtype=torch.bool), third, third)
    loss.backward()
    assert loss == 0 and logits.grad.isfinite().all()


def test_adamatch_says_that_it_sees_both_views_of_labeled_samples_anyway():
    method = make(adamatch.AdaMatch)
    assert not method.notes()
    method.settings = Settings(labeled_view="half_strong")
    assert [worded(note, as_options) for note in method.notes()] == [
        "--set labeled_view=half_strong does nothing here: adamatch sees both views of every sample"
    ]

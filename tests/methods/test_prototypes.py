"""Prototypes against a slow loop over samples."""

import pytest
import torch
from torch import Tensor

from unihssl.methods.prototypes import Prototypes

C, WIDTH, MOMENTUM = 4, 3, 0.9


def batches(seed: int = 0) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Features, classes and trust of three batches: class 3 never comes, class 2 only once, -1 names no class."""
    generator = torch.Generator().manual_seed(seed)
    classes = [torch.tensor(c) for c in ([0, 0, 1, -1, 1], [2, 0, 1, -2, 0], [1, 1, 0, 1, 0])]
    weights = [torch.tensor(w) for w in ([1, 1, 1, 1, 0], [1, 0, 1, 1, 1], [1, 0, 1, 1, 1])]
    return [
        (torch.randn(5, WIDTH, generator=generator, dtype=torch.float64), c, w.bool())
        for c, w in zip(classes, weights, strict=True)
    ]


def members(seen: list[tuple[Tensor, Tensor, Tensor]], k: int) -> list[Tensor]:
    return [f[i] for f, c, w in seen for i in range(len(c)) if c[i] == k and w[i]]


def slow(mode: str, literal: bool) -> list[list[Tensor | None]]:
    """After each batch, every class's prototype, or None."""
    data, memory, history = batches(), [None] * C, []
    for number, batch in enumerate(data):
        current: list[Tensor | None] = []
        for k in range(C):
            seen = {"memory": [batch], "batch": [batch], "epoch": data[: number + 1], "full": data}[mode]
            own = members(seen, k)
            count = sum(len(b[1]) for b in seen) if literal else len(own)
            mean = torch.stack(own).sum(0) / count if own else None
            if mode == "memory" and memory[k] is not None:
                mean = memory[k] if mean is None else MOMENTUM * memory[k] + (1 - MOMENTUM) * mean
            current.append(mean)
        memory = current
        history.append(current)
    return history


def make(mode: str, literal: bool = False) -> Prototypes:
    return Prototypes(C, WIDTH, mode, MOMENTUM, literal).double()


def through(prototypes: Prototypes) -> list[tuple[Tensor, Tensor]]:
    if prototypes.mode == "full":
        for batch in batches():
            prototypes.add(*batch)
    return [prototypes(*batch) for batch in batches()]


@pytest.mark.parametrize("mode", ["memory", "batch", "epoch", "full"])
@pytest.mark.parametrize("literal", [False, True])
def test_every_mode_agrees_with_the_slow_loop(mode, literal):
    for (values, present), expected in zip(through(make(mode, literal)), slow(mode, literal), strict=True):
        assert present.tolist() == [e is not None for e in expected]
        wanted = torch.stack([torch.zeros(WIDTH).double() if e is None else e for e in expected])
        torch.testing.assert_close(values, wanted)


@pytest.mark.parametrize("mode", ["memory", "batch", "epoch", "full"])
def test_the_gradient_is_that_of_the_current_batchs_mean(mode):
    """Class 0: two trusted samples in the last batch, five in all; class 2 is not in it."""
    prototypes, data = make(mode), batches()
    if mode == "full":
        for batch in data:
            prototypes.add(*batch)
    leaves = [batch[0].requires_grad_() for batch in data]
    for features, (_, classes, weights) in zip(leaves, data, strict=True):
        values, _ = prototypes(features, classes, weights)
    values[[0, 2]].sum().backward()
    assert leaves[0].grad is None and leaves[1].grad is None
    expected = torch.zeros(5, WIDTH, dtype=torch.float64)
    expected[[2, 4]] = 1 / 2
    torch.testing.assert_close(leaves[2].grad, expected)


@pytest.mark.parametrize("mode", ["memory", "batch", "epoch", "full"])
def test_the_first_batch_seeds_the_memory_and_restart_forgets(mode):
    prototypes = make(mode)
    first = through(prototypes)[0]
    prototypes.restart()
    again = through(prototypes)[0]
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])


def test_without_weights_every_sample_counts():
    features, classes, _ = batches()[0]
    values, _ = make("batch")(features, classes)
    torch.testing.assert_close(values[1], (features[2] + features[4]) / 2)


def test_memory_survives_in_the_state_dict():
    old, new = make("memory"), make("memory")
    through(old)
    new.load_state_dict(old.state_dict())
    batch = batches(seed=1)[0]
    assert torch.equal(old(*batch)[0], new(*batch)[0])

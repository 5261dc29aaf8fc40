"""A batch is a pure function of the seed and the step."""

import numpy as np
import pytest
import torch

from unihssl.data.batch_random import RandomStreams, seed_for
from unihssl.data.batches import PairedData, TrainingDomain
from unihssl.data.store import Store
from unihssl.data.views import Views

VIEWS = Views(None, (0.0,) * 3, (1.0,) * 3)


def training(count, batch, seed=0, labeled=True, vectors=True, first=100, shard=(0, 1), **more):
    """Samples first, first + 1, ... of a larger domain; each vector holds its number, its label is number % 5."""
    total = first + count
    samples = torch.arange(total, dtype=torch.float32).view(-1, 1)
    if not vectors:
        samples = torch.randint(256, (total, 16, 16, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(9))
    labels = torch.arange(total) % 5 if labeled else None
    return TrainingDomain(Store(samples), np.arange(first, total), VIEWS, batch, seed, labels, shard, **more)


def paired(labeled=50, unlabeled=30, batch=8, seed=0):
    domains = (
        training(labeled, batch, seed_for("domain", seed, 1), vectors=False),
        training(unlabeled, batch, seed_for("domain", seed, 2), labeled=False, vectors=False),
    )
    return PairedData(*domains, seed)


def loaded(domain, stage, step):
    domain.load(stage, step)
    return domain.samples(RandomStreams())


def rows_at(domain, step):
    return loaded(domain, 0, step).rows.tolist()


@pytest.mark.parametrize("step", [0, 3, 11, 1000])
def test_a_batch_depends_on_seed_and_step_alone(step):
    fresh = rows_at(training(50, 8, seed=4), step)
    used = training(50, 8, seed=4)
    for other in (0, 17, 2, 999):
        rows_at(used, other)
    assert rows_at(used, step) == fresh
    assert rows_at(training(50, 8, seed=5), step) != fresh
    assert rows_at(training(50, 8, seed=4), step + 1) != fresh


@pytest.mark.parametrize(("count", "batch"), [(48, 8), (50, 8), (7, 7), (9, 2)])
def test_each_pass_shows_a_sample_once_and_drops_the_rest(count, batch):
    domain = training(count, batch)
    per_pass = count // batch
    passes = [[rows_at(domain, p * per_pass + i) for i in range(per_pass)] for p in range(3)]
    for batches in passes:
        assert all(len(rows) == batch for rows in batches)
        seen = [row for rows in batches for row in rows]
        assert len(set(seen)) == len(seen) == per_pass * batch
        assert set(seen) <= set(range(count))
    assert passes[0] != passes[1] != passes[2]


def test_no_sample_is_dropped_for_ever():
    domain = training(50, 8)
    assert {row for step in range(60) for row in rows_at(domain, step)} == set(range(50))


@pytest.mark.parametrize("count", [2, 5])
def test_a_batch_larger_than_its_domain_shrinks(count):
    domain = training(count, 32)
    assert domain.batch == count
    assert [sorted(rows_at(domain, step)) for step in range(3)] == [list(range(count))] * 3


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_share_one_batch(processes):
    domains = [training(50, 8, shard=(rank, processes)) for rank in range(processes)]
    for step in (0, 5, 20):
        shares = [rows_at(domain, step) for domain in domains]
        assert {len(share) for share in shares} == {8 // processes}
        assert sorted(row for share in shares for row in share) == sorted(rows_at(training(50, 8), step))


@pytest.mark.parametrize(("count", "batch", "processes"), [(48, 8, 2), (50, 8, 4), (12, 6, 3)])
def test_a_pass_over_all_processes_is_that_of_one_without_repeats(count, batch, processes):
    domains = [training(count, batch, shard=(rank, processes)) for rank in range(processes)]
    alone, per_pass = training(count, batch), count // batch
    for number in range(2):
        steps = range(number * per_pass, (number + 1) * per_pass)
        seen = [row for domain in domains for step in steps for row in rows_at(domain, step)]
        assert len(seen) == len(set(seen)) == per_pass * batch
        assert sorted(seen) == sorted(row for step in steps for row in rows_at(alone, step))


def test_a_sweep_is_the_same_on_every_process():
    def swept(shard):
        domain = training(50, 8, vectors=False, shard=shard)
        return torch.cat([part.weak for part in domain.sweep(RandomStreams(shard=shard), 20)])

    assert torch.equal(swept((0, 2)), swept((0, 1)))
    assert torch.equal(swept((1, 2)), swept((0, 1)))


@pytest.mark.parametrize("processes", [2, 4])
def test_a_sample_looks_the_same_however_many_processes_share_its_batch(processes):
    def look(shard):
        data = PairedData(training(50, 8, vectors=False, shard=shard), training(50, 8, labeled=False, shard=shard), 0)
        data.reseed(1, 3)
        data.load(1, 3, 0.5)
        samples = data.batch().labeled
        return dict(zip(samples.rows.tolist(), samples.weak.clone(), strict=True)), float(torch.rand(1))

    whole, _ = look((0, 1))
    shares, dropouts = zip(*(look((rank, processes)) for rank in range(processes)), strict=True)
    assert len(set(dropouts)) == processes
    assert sorted(row for share in shares for row in share) == sorted(whole)
    for share in shares:
        assert all(torch.equal(view, whole[row]) for row, view in share.items())


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("batch", [8, 9])
def test_losses_on_labels_see_strong_views_of_half_of_the_whole_batch(processes, batch):
    seen = {}
    for rank in range(processes):
        domain = training(50, batch, vectors=False, shard=(rank, processes), half_strong=True)
        samples = loaded(domain, 1, 3)
        for row, view, weak, strong in zip(
            samples.rows.tolist(), samples.labeled_view, samples.weak, samples.strong, strict=True
        ):
            assert not torch.equal(weak, strong)
            seen[row] = "strong" if torch.equal(view, strong) else "weak" if torch.equal(view, weak) else "neither"
    whole = loaded(training(50, batch), 1, 3).rows.tolist()
    assert [seen[row] for row in whole] == ["strong"] * (batch // 2) + ["weak"] * (batch - batch // 2)


def test_losses_on_labels_see_weak_views_by_default_and_where_there_are_no_strong_ones():
    for domain in (training(50, 8, vectors=False), training(50, 8, half_strong=True)):
        samples = loaded(domain, 1, 3)
        assert torch.equal(samples.labeled_view, samples.weak)


def test_rows_labels_and_samples_belong_together():
    samples = loaded(training(50, 8), 0, 3)
    assert samples.images.flatten().tolist() == [100 + row for row in samples.rows.tolist()]
    assert samples.y.tolist() == [(100 + row) % 5 for row in samples.rows.tolist()]
    assert len(samples) == 8


def test_unlabeled_samples_have_no_labels():
    domain = training(20, 4, labeled=False)
    for samples in (loaded(domain, 0, 0), next(domain.sweep(RandomStreams()))):
        with pytest.raises(AttributeError, match="unlabeled: no label of theirs may be used"):
            samples.y  # noqa: B018


@pytest.mark.parametrize(("count", "batch", "sizes"), [(50, 20, [17, 17, 16]), (40, 20, [20, 20]), (5, 256, [5])])
def test_sweep_covers_all_in_order_and_evenly(count, batch, sizes):
    parts = list(training(count, 8).sweep(RandomStreams(), batch))
    assert [len(part) for part in parts] == sizes
    assert [row for part in parts for row in part.rows.tolist()] == list(range(count))
    assert [int(x) for part in parts for x in part.images.flatten()] == list(range(100, 100 + count))


def test_the_order_of_asking_for_views_changes_nothing():
    """Each domain and view has a random stream of its own."""

    def views(names: list[str]) -> dict[str, torch.Tensor]:
        data = paired()
        data.reseed(0, 3)
        data.load(0, 3, 0.0)
        batch = data.batch()
        return {name: getattr(getattr(batch, name.split(".")[0]), name.split(".")[1]) for name in names}

    names = [f"{domain}.{view}" for domain in ("labeled", "unlabeled") for view in ("weak", "strong", "crop")]
    forwards, backwards = views(names), views(names[::-1])
    for name in names:
        assert torch.equal(forwards[name], backwards[name]) and torch.equal(views([name])[name], forwards[name]), name
    assert not torch.equal(forwards["labeled.weak"], forwards["labeled.crop"])


def test_views_of_a_batch_are_drawn_once():
    data = paired()
    data.reseed(0, 0)
    data.load(0, 0, 0.0)
    samples = data.batch().labeled
    assert samples.weak is samples.weak
    assert samples.test is samples.test
    assert samples.weak.shape == samples.test.shape == (8, 3, 16, 16)


def test_a_step_can_be_repeated():
    def drawn(data, stage, step):
        data.reseed(stage, step)
        data.load(stage, step, 0.0)
        batch = data.batch()
        return torch.cat([batch.labeled.weak, batch.unlabeled.weak, torch.rand(1).expand(1, 3, 16, 16)])

    first, resumed = paired(), paired()
    expected = [drawn(first, 1, step) for step in range(20)]
    for step in (17, 3):
        torch.testing.assert_close(drawn(resumed, 1, step), expected[step], rtol=0, atol=0)
    assert not torch.equal(drawn(first, 2, 3), expected[3])
    assert not torch.equal(drawn(paired(seed=1), 1, 3), expected[3])
    assert not torch.equal(expected[3], expected[4])


def test_a_batch_carries_its_place_in_the_stage():
    data = paired()
    data.load(1, 3, 0.25)
    batch = data.batch()
    assert (int(batch.step), float(batch.progress)) == (3, 0.25)
    assert len(batch.labeled) == len(batch.unlabeled) == 8
    assert batch.labeled is batch.labeled
    assert batch.images == 16


@pytest.mark.parametrize(
    ("sizes", "batch", "expected"),
    [
        ((2535, 715), 32, {"labeled": 80, "unlabeled": 23, "max": 80, "min": 23}),
        ((448, 715), 32, {"labeled": 14, "unlabeled": 23, "max": 23, "min": 14}),
        ((64, 20), 32, {"labeled": 2, "unlabeled": 1, "max": 2, "min": 1}),
    ],
)
def test_steps_per_epoch(sizes, batch, expected):
    data = PairedData(training(sizes[0], batch), training(sizes[1], batch, labeled=False), 0)
    assert {length: data.steps_per_epoch(length) for length in expected} == expected


def test_seeds_are_mixed_well():
    seeds = {seed_for("test", a, b, c) for a in range(10) for b in range(3) for c in range(50)}
    assert len(seeds) == 1500
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert seed_for("test", 1, 2) == seed_for("test", 1, 2)
    different = [("test", 1, 2), ("test", 2, 1), ("test", 1), ("test", 2), ("test", 1, 0), ("other", 1)]
    assert len({seed_for(*parts) for parts in different}) == len(different)


def test_a_domain_is_whole_and_shuffled_by_default():
    samples, labels = torch.arange(20.0).view(-1, 1), torch.tensor([0] * 18 + [1] * 2)
    domain = TrainingDomain(Store(samples), np.arange(20), VIEWS, 5, 0, labels)
    assert domain.name == "labeled" and len(domain.batch_rows) == 5
    assert sorted(row for step in range(4) for row in rows_at(domain, step)) == list(range(20))
    assert TrainingDomain(Store(samples), np.arange(20), VIEWS, 5, 0, balanced=True).name == "unlabeled"


def test_a_domain_draws_by_the_classes_it_was_given_last():
    samples = torch.arange(20.0).view(-1, 1)
    domain = TrainingDomain(Store(samples), np.arange(20), VIEWS, 5, 0)
    rows_at(domain, 0)
    for rare in ({18, 19}, {0, 1}):
        domain.balance(torch.tensor([int(row in rare) for row in range(20)]))
        drawn = [row for step in range(4) for row in rows_at(domain, step)]
        assert sum(row in rare for row in drawn) == 10 and rare <= set(drawn)


def test_what_is_random_before_a_stage_depends_on_the_stage_alone():
    data = paired()
    drawn = []
    for stage in (0, 1, 0):
        data.reseed_before(stage)
        views = [sample.weak for sample in data.labeled.sweep(data.random)]
        drawn.append((torch.rand(3), torch.cat(views)))
    assert all(torch.equal(a, b) for a, b in zip(drawn[0], drawn[2], strict=True))
    assert not torch.equal(drawn[0][0], drawn[1][0]) and not torch.equal(drawn[0][1], drawn[1][1])


class Recorder:
    """In place of the prefetcher, which needs a GPU."""

    def __init__(self, samples, batch, device):
        self.samples, self.images, self.calls = samples, torch.empty(batch, *samples.shape[1:]), []

    def load(self, key, rows, next_key, next_rows):
        self.calls.append((key, rows.tolist(), next_key, next_rows.tolist()))
        self.images = self.samples[rows]

    def settle(self):
        self.calls.append("settled")


def test_samples_elsewhere_are_fetched_once_a_step_and_the_next_ones_ahead(monkeypatch):
    monkeypatch.setattr("unihssl.data.batches.Prefetcher", Recorder)
    store, elsewhere = Store(torch.arange(40.0).view(-1, 1)), torch.device("cpu:0")  # is not `cpu` by its name
    checked = []
    monkeypatch.setattr(Store, "check", lambda of: checked.append(of is store))
    shard = (0, 2)
    domain = TrainingDomain(store, np.arange(10, 40), VIEWS, 8, 0, device=elsewhere, shard=shard)
    local = TrainingDomain(Store(store.samples), np.arange(10, 40), VIEWS, 8, 0, shard=shard)
    calls = domain._prefetcher.calls

    def rows(stage, step):
        return (10 + loaded(local, stage, step).rows).tolist()

    for stage in (1, 0):
        domain.load(stage, 0)
        assert calls == []  # a stage may end before its first step uses anything
    for _ in range(2):
        assert domain.samples(RandomStreams()).test[:, 0].tolist() == rows(0, 0)
    assert calls == [((0, 0, 0), rows(0, 0), (0, 1, 0), rows(0, 1))]
    domain.load(0, 1)
    assert calls[1:] == [((0, 1, 0), rows(0, 1), (0, 2, 0), rows(0, 2))]
    assert domain.samples(RandomStreams()).test[:, 0].tolist() == rows(0, 1) and len(calls) == 2
    domain.load(1, 1)
    assert len(calls) == 2
    domain.samples(RandomStreams())
    assert calls[2:] == [((1, 1, 0), rows(1, 1), (1, 2, 0), rows(1, 2))] and sum(checked) == 3
    for drawn in (domain, local):
        drawn.balance(torch.arange(30) % 2)
    domain.load(1, 2)  # what was fetched ahead is not what is drawn now
    assert calls[3:] == [((1, 2, 1), rows(1, 2), (1, 3, 1), rows(1, 3))]
    for drawn in (domain, local):
        drawn.balance(torch.arange(30) % 3)
    domain.load(1, 2)  # the same step again, as after a rehearsal: other rows, so other samples
    assert domain.samples(RandomStreams()).test[:, 0].tolist() == rows(1, 2) and calls[4][0] == (1, 2, 2)
    PairedData(domain, local, 0).settle()
    assert calls[5:] == ["settled"]

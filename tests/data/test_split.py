"""Who trains and who tests: sizes, shares, seeds, groups."""

import zlib
from dataclasses import replace

import numpy as np
import pytest

from unihssl.data.copies import contents, drop_trained_copies
from unihssl.data.domain import Domain
from unihssl.data.split import Split, split_domain, thin_classes
from unihssl.errors import UserError

# Images per class of Office-31, classes in alphabetical order.
OFFICE31 = {
    "amazon": "92 82 72 82 36 94 91 97 97 81 99 100 100 98 100 99 100 94 96 95 93 100 98 98 90 75 100 99 99 96 64",
    "dslr": "12 21 24 12 16 12 13 14 15 15 13 10 24 16 31 22 12 8 10 10 13 15 23 18 10 7 18 26 21 22 15",
    "webcam": "29 21 28 12 16 31 40 18 21 19 27 27 30 19 30 43 30 27 28 32 16 20 30 27 40 11 25 30 24 23 21",
}
COUNTS = {name: np.array(counts.split(), dtype=int) for name, counts in OFFICE31.items()}


def domain(labels, groups=None):
    labels = np.asarray(labels, dtype=np.int64)
    names = tuple(str(i) for i in range(len(labels)))
    groups = None if groups is None else np.asarray(groups)
    return Domain("shapes", np.zeros((len(labels), 2)), names, labels, tuple(range(int(labels.max()) + 1)), groups)


def labels_of(counts, seed=0):
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))


def assert_disjoint_and_complete(split, total):
    assert len(np.intersect1d(split.train, split.test)) == 0
    np.testing.assert_array_equal(np.sort(np.concatenate([split.train, split.test])), np.arange(total))
    for part in (split.train, split.test):
        np.testing.assert_array_equal(part, np.sort(part))


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("name", "train", "test"), [("amazon", 2535, 282), ("dslr", 448, 50), ("webcam", 715, 80)])
def test_office31_sizes_and_shares(name, train, test, seed):
    counts = COUNTS[name]
    labels = labels_of(counts)
    split = split_domain(domain(labels), 0.1, seed)
    assert (len(split.train), len(split.test)) == (train, test)
    assert_disjoint_and_complete(split, train + test)
    in_test = np.bincount(labels[split.test], minlength=31)
    assert np.abs(in_test - counts * test / counts.sum()).max() < 1


@pytest.mark.parametrize("total", [3, 9, 10, 11, 20, 30, 99, 100, 1797, 2427, 12413])
@pytest.mark.parametrize("kind", ["stratified", "random"])
def test_int_of_nine_tenths_trains(total, kind):
    split = split_domain(domain(np.arange(total) % 2), 0.1, 0, kind)
    assert len(split.train) == total * 9 // 10
    assert_disjoint_and_complete(split, total)


@pytest.mark.parametrize(("fraction", "train"), [(0.2, 80), (0.25, 75), (0.3, 70), (0.5, 50), (0.7, 30), (0.9, 10)])
def test_fractions_are_exact(fraction, train):
    assert len(split_domain(domain(np.arange(100) % 4), fraction, 0).train) == train


def test_the_largest_remainders_give_one_more():
    labels = labels_of([18, 12, 10])  # exact shares 1.8, 1.2, 1.0
    for seed in range(3):
        assert np.bincount(labels[split_domain(domain(labels), 0.1, seed).test]).tolist() == [2, 1, 1]


def test_random_split_ignores_classes():
    labels = np.repeat([0, 1], 100)
    shares = {int((labels[split_domain(domain(labels), 0.1, seed, "random").test] == 0).sum()) for seed in range(20)}
    assert len(shares) > 1


def test_every_class_of_every_source_has_its_share():
    labels, sources = np.arange(120) % 2, np.where(np.arange(120) < 20, "a", "b")
    for seed in range(5):
        split = split_domain(replace(domain(labels), sources=sources), 0.1, seed)
        drawn = [(sources[row], labels[row]) for row in split.test]
        assert {found: drawn.count(found) for found in drawn} == {("a", 0): 1, ("a", 1): 1, ("b", 0): 5, ("b", 1): 5}


def test_sources_of_a_few_samples_are_drawn_by_class_alone():
    labels = np.arange(100) % 2
    split = split_domain(replace(domain(labels), sources=np.arange(100).astype(str)), 0.1, 0)
    assert np.bincount(labels[split.test]).tolist() == [5, 5]


def test_groups_are_drawn_by_class():
    with pytest.raises(UserError, match="split='random' and group_by cannot be combined"):
        split_domain(domain(np.arange(40) % 2, np.arange(40)), 0.1, 0, "random")


@pytest.mark.parametrize("groups", [None, np.arange(300) // 3])
def test_the_seed_decides(groups):
    data = domain(np.arange(300) % 3, groups)
    first, again, other = (split_domain(data, 0.1, seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.test, again.test)
    np.testing.assert_array_equal(first.train, again.train)
    assert set(first.test) != set(other.test)


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("counts", [[1, 1, 50], [1, 2, 3, 4], [2] * 20, [1, 300], [1] * 5])
def test_tiny_classes_stay_in_training(counts, fraction):
    labels = labels_of(counts)
    for seed in range(5):
        split = split_domain(domain(labels), fraction, seed)
        assert set(labels[split.train]) == set(range(len(counts)))
        assert_disjoint_and_complete(split, len(labels))


def test_unknown_labels_all_train():
    labels = np.where(np.arange(200) < 100, -1, np.arange(200) % 2)
    split = split_domain(domain(labels), 0.1, 0)
    assert len(split.test) == 10
    assert (labels[split.test] >= 0).all()
    assert set(np.flatnonzero(labels < 0)) <= set(split.train)


def test_nothing_known_nothing_tested():
    labels = np.full(20, -1)
    split = split_domain(Domain("shapes", np.zeros((20, 2)), tuple("abcdefghijklmnopqrst"), labels, (0, 1)), 0.1, 0)
    assert (len(split.train), len(split.test)) == (20, 0)


@pytest.mark.parametrize("groups", [None, np.arange(40) // 2])
def test_fraction_zero_keeps_all(groups):
    split = split_domain(domain(np.arange(40) % 2, groups), 0.0, 0)
    assert (len(split.train), len(split.test)) == (40, 0)


def test_a_split_knows_of_no_copies_at_first():
    assert split_domain(domain(np.arange(20) % 2), 0.1, 0).copies.tolist() == []


def test_too_few_to_train():
    with pytest.raises(UserError, match=r"shapes: 1 training images are left .* 2 are needed"):
        split_domain(domain([0]), 0.1, 0)


@pytest.mark.parametrize("seed", range(5))
def test_groups_never_straddle(seed):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 150, 600)
    labels = (groups % 3).astype(np.int64)
    split = split_domain(domain(labels, groups), 0.1, seed)
    assert not set(groups[split.train]) & set(groups[split.test])
    assert_disjoint_and_complete(split, 600)
    assert 0.07 < len(split.test) / 600 < 0.13
    assert (np.bincount(labels[split.test], minlength=3) > 0).all()


def test_groups_never_straddle_where_some_labels_are_unknown():
    groups = np.arange(300) // 3
    labels = np.where((np.arange(300) % 3 == 0) & (groups % 3 == 0), -1, groups % 2)
    for seed in range(3):
        split = split_domain(domain(labels, groups), 0.1, seed)
        assert not set(groups[split.train]) & set(groups[split.test])
        assert (labels[split.test] >= 0).all()
        assert len(split.test)


@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.3, 0.4, 0.7, 0.9])
def test_grouped_share_is_near_the_fraction(fraction):
    split = split_domain(domain(np.arange(600) // 3 % 3, np.arange(600) // 3), fraction, 0)
    assert len(split.test) / 600 == pytest.approx(fraction, abs=0.05)


def test_a_class_of_one_group_stays_in_training():
    labels = np.array([0] * 50 + [1] * 50 + [2] * 5)
    groups = np.minimum(np.arange(105), 100)
    for seed in range(10):
        split = split_domain(domain(labels, groups), 0.1, seed)
        assert 2 in labels[split.train] and set(labels[split.test]) == {0, 1}


def test_no_class_loses_its_last_group_of_one_sample():
    labels = np.array([0] * 2 + [1] * 8)
    for seed in range(10):
        assert set(labels[split_domain(domain(labels, np.arange(10)), 0.9, seed).train]) == {0, 1}


def test_all_classes_together_take_half_a_group_too_much_at_most():
    """Each of the classes alone would have room for one group more."""
    sizes = np.tile([7, 9, 10, 12, 13], 8)
    groups = np.repeat(np.arange(40), sizes)
    labels = groups // 5
    for seed in range(50):
        test = split_domain(domain(labels, groups), 0.12, seed).test
        assert len(test) - 0.12 * len(groups) <= max(sizes) / 2
        assert 13 not in sizes[groups[test]]  # more than twice the 6.12 that its class has room for


def test_a_class_of_one_group_stays_in_training_even_if_it_fits():
    labels = np.array([0] * 50 + [1] * 50 + [2] * 5)
    for seed in range(10):
        assert 2 in labels[split_domain(domain(labels, np.minimum(np.arange(105), 100)), 0.6, seed).train]


def test_a_group_of_twice_the_room_is_the_largest_that_is_drawn():
    groups = np.repeat([0, 1, 2, 3], [4, 2, 1, 1])  # room for two of eight samples
    assert max(len(split_domain(domain(np.zeros(8), groups), 0.25, seed).test) for seed in range(20)) == 4


def test_each_class_has_its_own_room():
    labels = np.repeat([0, 1], 12)
    groups = np.concatenate(
        [np.arange(12), np.full(7, 12), np.arange(13, 18)]
    )  # of class 1: seven together, five apart
    for seed in range(100):
        test = split_domain(domain(labels, groups), 0.25, seed).test
        assert labels[test].sum() <= 3 and 12 not in groups[test]


def test_groups_with_small_classes():
    labels = np.arange(24) % 4  # six of each: fewer than the ten folds of a tenth
    split = split_domain(domain(labels, np.arange(24)), 0.1, 0)
    assert 1 <= len(split.test) <= 4
    assert set(labels[split.train]) == {0, 1, 2, 3}


def test_too_few_groups():
    with pytest.raises(UserError, match=r"0\.1 needs 10 groups or more, found 4"):
        split_domain(domain(np.arange(40) % 2, np.arange(40) // 10), 0.1, 0)


def test_just_enough_groups():
    assert len(split_domain(domain(np.arange(40) % 2, np.arange(40) // 4), 0.1, 0).test) == 4
    assert len(split_domain(domain(np.arange(8) % 2, np.arange(8) // 4), 0.9, 0).test) == 4


def test_groups_take_any_seed():
    split = split_domain(domain(np.arange(60) % 2, np.arange(60)), 0.1, 2**40)
    assert len(split.test) == 6


def test_thin_classes_falls_geometrically():
    labels = labels_of([100, 100, 100, 50])
    train = np.arange(0, 350)
    kept = thin_classes(train, labels, 8.0, 0)
    np.testing.assert_array_equal(np.bincount(labels[kept]), [100, 50, 25, round(50 / 8)])
    assert set(kept) <= set(train)
    np.testing.assert_array_equal(kept, np.sort(kept))
    np.testing.assert_array_equal(kept, thin_classes(train, labels, 8.0, 0))
    assert set(kept) != set(thin_classes(train, labels, 8.0, 1))


def test_thin_classes_only_takes_from_the_training_part():
    labels = np.arange(40) % 2
    train = np.arange(0, 40, 4)
    assert set(thin_classes(train, labels, 2.0, 0)) <= set(train)


def test_of_two_classes_the_second_is_thinned_by_the_whole_ratio():
    labels = np.repeat([0, 1], 8)
    assert np.bincount(labels[thin_classes(np.arange(16), labels, 4.0, 0)]).tolist() == [8, 2]


@pytest.mark.parametrize(("ratio", "kept"), [(1.0, [6, 6, 6]), (1000.0, [6, 1, 1])])
def test_thin_classes_bounds(ratio, kept):
    labels = np.repeat([0, 1, 2], 6)
    assert np.bincount(labels[thin_classes(np.arange(18), labels, ratio, 0)]).tolist() == kept


def test_thin_classes_needs_the_truth():
    with pytest.raises(UserError, match="needs the class of every unlabeled training image"):
        thin_classes(np.arange(4), np.array([0, 1, -1, 0]), 2.0, 0)


def test_the_reserved_fifth_is_fixed_and_the_search_never_touches_it():
    d = domain(np.arange(2000) % 4)
    reserved = [split_domain(d, 0.1, seed, "reserved") for seed in (0, 1)]
    np.testing.assert_array_equal(reserved[0].test, reserved[1].test)
    assert_disjoint_and_complete(reserved[0], 2000)
    assert 0.17 < len(reserved[0].test) / 2000 < 0.23
    searches = [split_domain(d, 0.1, seed, "search") for seed in (0, 1)]
    for search in searches:
        np.testing.assert_array_equal(np.sort(np.concatenate([search.train, search.test])), reserved[0].train)
    assert set(searches[0].test) != set(searches[1].test)


def test_names_decide_who_is_reserved():
    """By the checksum of a name: another rule would test later versions on what earlier ones trained on."""
    test = split_domain(domain(np.arange(40) % 4), 0.1, 0, "reserved").test.tolist()
    assert test == [number for number in range(40) if zlib.crc32(str(number).encode()) % 5 == 0]


def test_groups_are_reserved_whole():
    groups = np.arange(1000) // 5
    split = split_domain(domain(np.arange(1000) % 2, groups), 0.1, 0, "reserved")
    assert not set(groups[split.train]) & set(groups[split.test])


def test_copies_of_training_samples_are_not_tested(tmp_path):
    """Across domains too; only files that share their size are read."""
    files = []
    for name, content in {"a": b"same", "b": b"other", "c": b"same", "d": b"longer than all"}.items():
        (tmp_path / name).write_bytes(content)
        files.append(tmp_path / name)
    first = Domain("first", files[:2], ("a", "b"), np.array([0, 1]), (0, 1))
    second = Domain("second", files[2:], ("c", "d"), np.array([0, 1]), (0, 1))
    splits = drop_trained_copies(
        contents([first, second]), [Split(np.array([0]), np.array([1])), Split(np.array([]), np.array([0, 1]))]
    )
    assert [split.test.tolist() for split in splits] == [[1], [1]]
    assert [split.copies.tolist() for split in splits] == [[], [0]]
    arrays = Domain("arrays", np.array([[1.0], [2.0], [1.0]]), ("a", "b", "c"), np.array([0, 1, 0]), (0, 1))
    (split,) = drop_trained_copies(contents([arrays]), [Split(np.array([0]), np.array([1, 2]))])
    assert split.test.tolist() == [1]

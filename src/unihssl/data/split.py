"""Training and test samples of each domain: drawn from the run's seed, or fixed by the samples' names."""

import itertools
import zlib
from dataclasses import dataclass, field

import numpy as np

from unihssl.data.domain import Domain
from unihssl.data.source import first_few
from unihssl.errors import Setting, UserError

RESERVED_SHARE = 0.2  # of a domain, for `split=reserved`


@dataclass(frozen=True)
class Split:
    """Row numbers of one domain's training and test samples, each sorted."""

    train: np.ndarray
    test: np.ndarray
    copies: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # drawn to test, but they train


def split_domain(domain: Domain, fraction: float, seed: int, kind: str = "stratified") -> Split:
    """Hold out `fraction` of the N samples whose class is known; the rest, and all unknown ones, train.

    The kinds are those of `Settings.split`; the size of the reserved part is fixed.
    int((1 - fraction) * N) of them train, as usual in this field. Groups stay whole. Why not scikit-learn: its
    stratified split refuses classes of one sample, and test sets smaller than the number of classes.
    """
    if kind in ("reserved", "search"):
        return _with_reserve(domain, fraction, seed, kind)
    stratified = kind == "stratified"
    known = np.flatnonzero(domain.known)
    rng = np.random.default_rng(seed)
    if domain.groups is not None and not stratified:
        both = f"{Setting('split', 'random')} and {Setting('group_by')}"
        raise UserError(f"{both} cannot be combined: groups are drawn by class")
    if domain.groups is not None and fraction > 0 and len(known):
        test = _grouped(domain, fraction, rng)
    else:
        count = len(known) - int((1 - fraction) * len(known) + 1e-9)
        strata = _strata(domain.keep(known), fraction) if stratified else np.zeros(len(known), dtype=np.int64)
        test = known[_stratified(strata, count, rng)]
    train = np.setdiff1d(np.arange(len(domain)), test)
    if len(train) < 2:
        raise UserError(f"{domain.name}: {len(train)} training images are left after the split; 2 are needed")
    return Split(train, np.sort(test))


def _with_reserve(domain: Domain, fraction: float, seed: int, kind: str) -> Split:
    """Test on the reserved fifth, or leave it out and split the rest. Names decide who is in it, groups stay whole."""
    names = domain.names if domain.groups is None else domain.groups
    numbers = np.array([zlib.crc32(str(name).encode()) for name in names], dtype=np.int64)
    reserved = domain.known & (numbers % round(1 / RESERVED_SHARE) == 0)
    rest = np.flatnonzero(~reserved)
    if kind == "reserved":
        return Split(rest, np.flatnonzero(reserved))
    split = split_domain(domain.keep(rest), fraction, seed)
    return Split(rest[split.train], rest[split.test])


def keep_in_training(split: Split, domain: Domain, kind: str) -> Split:
    """The split with all samples that have a target label, and the groups they are of, in training.

    The other test samples stay what they were, so that runs with more and fewer labels are tested alike. Labels of the
    reserved part are refused.
    """
    chosen = domain.has_target_label
    untouched = np.setdiff1d(np.arange(len(domain)), np.concatenate([split.train, split.test]))
    reserved = split.test if kind == "reserved" else untouched
    if len(taken := reserved[chosen[reserved]]):
        names = first_few([domain.names[row] for row in taken])
        raise UserError(
            f"{domain.name}: {len(taken)} of the target labels are of images reserved for testing ({names}); leave "
            f"them out, or choose another {Setting('split')}"
        )
    if domain.groups is not None:
        chosen = np.isin(domain.groups, domain.groups[chosen])
    moved = chosen[split.test]
    return Split(np.union1d(split.train, split.test[moved]), split.test[~moved])


def thin_classes(train: np.ndarray, labels: np.ndarray, ratio: float, seed: int) -> np.ndarray:
    """Simulate label shift: keep a share of each class, falling geometrically from 1 to 1/ratio.

    `train` are row numbers and `labels` the class of every row; returns the row numbers kept, sorted.
    """
    if (labels[train] < 0).any():
        raise UserError(f"{Setting('label_shift')} needs the class of every unlabeled training image; some are unknown")
    rng = np.random.default_rng(seed)
    classes = np.unique(labels[train])
    kept = []
    for rank, label in enumerate(classes):
        rows = rng.permutation(train[labels[train] == label])
        share = ratio ** (-rank / max(len(classes) - 1, 1))
        kept.append(rows[: max(1, round(share * len(rows)))])
    return np.sort(np.concatenate(kept))


def _strata(domain: Domain, fraction: float) -> np.ndarray:
    """The class of each sample (N,); of several sources, its class and source where enough samples share both."""
    if domain.sources is None:
        return domain.labels
    sources = np.unique(domain.sources, return_inverse=True)[1]
    both = sources * len(domain.classes) + domain.labels
    _, membership, sizes = np.unique(both, return_inverse=True, return_counts=True)
    return np.where(sizes[membership] * fraction >= 1, both, -1 - domain.labels)


def _stratified(strata: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw `count` positions, in proportion to the strata's sizes (largest remainder); none is emptied."""
    if count == 0:
        return np.empty(0, dtype=np.int64)
    _, membership, sizes = np.unique(strata, return_inverse=True, return_counts=True)
    exact = sizes * count / len(strata)
    quota = np.minimum(np.floor(exact).astype(int), sizes - 1)
    order = np.lexsort((rng.random(len(sizes)), quota - exact))  # ties are broken at random
    for stratum in itertools.cycle(order):
        if quota.sum() == count or (quota >= sizes - 1).all():
            break
        quota[stratum] += quota[stratum] < sizes[stratum] - 1
    return np.concatenate([rng.permutation(np.flatnonzero(membership == s))[:n] for s, n in enumerate(quota)]).astype(
        np.int64
    )


def _grouped(domain: Domain, fraction: float, rng: np.random.Generator) -> np.ndarray:
    """Draw whole groups in random order, while each of their classes has room; returns their rows.

    No class loses its last group, and groups with samples of unknown class train.
    """
    assert domain.groups is not None
    names, group = np.unique(domain.groups, return_inverse=True)
    if len(names) < max(2, round(1 / fraction)):
        share = Setting("test_fraction", fraction)
        raise UserError(f"{share} needs {max(2, round(1 / fraction))} groups or more, found {len(names)}")
    counts = np.zeros((len(names), len(domain.classes)))
    np.add.at(counts, (group[domain.known], domain.labels[domain.known]), 1)
    mixed = np.bincount(group, weights=~domain.known) > 0  # holds samples of unknown class
    room, total_room = fraction * counts.sum(0), fraction * counts.sum()
    groups_left = (counts > 0).sum(0)
    chosen = []
    for candidate in rng.permutation(np.flatnonzero(~mixed)):
        held, size = counts[candidate], counts[candidate].sum()
        fits = size / 2 <= total_room and (held / 2 <= room)[held > 0].all()
        if fits and (groups_left > 1)[held > 0].all():
            chosen.append(candidate)
            room, total_room, groups_left = room - held, total_room - size, groups_left - (held > 0)
    return np.flatnonzero(np.isin(group, chosen))

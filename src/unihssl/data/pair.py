"""The labeled and the unlabeled domain together: read, decoded, split."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unihssl.config import Settings
from unihssl.data.batch_random import seed_for
from unihssl.data.batches import PairedData, TrainingDomain
from unihssl.data.cache import cache_folder
from unihssl.data.copies import contents, drop_trained_copies, in_both
from unihssl.data.decode import Progress
from unihssl.data.domain import UNKNOWN, Domain, labeled_domain, unlabeled_domain
from unihssl.data.frozen_views import FrozenViews
from unihssl.data.grey_levels import plain_notes
from unihssl.data.intensity import Window, decide_windows, float_kinds
from unihssl.data.placement import place_stores
from unihssl.data.rendering import Rendering
from unihssl.data.source import Label, counted, first_few
from unihssl.data.split import Split, keep_in_training, split_domain, thin_classes
from unihssl.data.store import Store, fill_store, stored_size
from unihssl.data.survey import array_kind, holds_bytes, survey
from unihssl.data.target_labels import IN_MEMORY, with_target_labels
from unihssl.data.views import Views
from unihssl.errors import Setting, UserError
from unihssl.files import FullPaths

ENOUGH_LABELS = 32  # fewer target labels have less than their full share of a step, or they are learnt by heart
UNEVEN = 4  # times the samples of the smallest class, above which drawing by class is worth a remark

Freeze = Callable[[str, Store, Views], tuple[Store, FrozenViews]]


@dataclass(frozen=True)
class Part:
    """One domain, its decoded samples, and its split into training and test rows."""

    domain: Domain
    store: Store
    split: Split
    windows: dict[str, Window] = field(default_factory=dict)  # of its images of more than 8 bits, by kind of storage

    @property
    def unused(self) -> np.ndarray:
        """Rows that neither train nor test: reserved ones, copies, and those that a label shift thinned out."""
        return np.setdiff1d(np.arange(len(self.domain)), np.concatenate([self.split.train, self.split.test]))


@dataclass(frozen=True)
class DomainPair:
    """All the data of a run."""

    labeled: Part
    unlabeled: Part
    size: tuple[int, int]  # height and width of the stored images; (0, 0) for vectors

    @property
    def classes(self) -> tuple[Label, ...]:
        return self.labeled.domain.classes

    @property
    def parts(self) -> dict[str, Part]:
        return {"labeled": self.labeled, "unlabeled": self.unlabeled}

    @property
    def truth(self) -> Tensor:
        """Classes of the unlabeled training samples, for the log only; -1 where unknown, and where they train."""
        domain, train = self.unlabeled.domain, self.unlabeled.split.train
        return torch.from_numpy(np.where(domain.has_target_label, UNKNOWN, domain.labels)[train])

    def training_data(
        self,
        views: Views,
        settings: Settings,
        device: torch.device,
        shard: tuple[int, int],
        concurrent_runs: int = 1,
        *,
        with_truth: bool = False,
        freeze: Freeze | None = None,
    ) -> tuple[PairedData, str]:
        """The training samples for steps on the device, and a line that says where they are kept.

        `shard` is this process's rank and the number of processes; `concurrent_runs` is how many runs share this
        machine and its GPU. The unlabeled domain gets no labels, so that none can be used, except `with_truth`.
        `freeze` replaces a domain's images and views by the features of a frozen backbone.
        """
        if with_truth and not self.unlabeled.domain.known[self.unlabeled.split.train].all():
            raise UserError("this method trains on the class of every unlabeled image; some are unknown")
        own_stores = [self.labeled.store, self.unlabeled.store]
        if freeze:
            stores, where = own_stores, "features of the frozen backbone are computed once"
        else:
            stores, where = place_stores(own_stores, device, settings.placement, shard[1], concurrent_runs)
        batches = settings.batch_size, settings.unlabeled_batch or settings.batch_size
        areas = settings.area_labeled, settings.area_unlabeled
        domains = []
        for number, (role, part) in enumerate(self.parts.items()):
            train = part.split.train
            batch = _shared_batch(role, batches[number], len(train), shard[1])
            labels = torch.from_numpy(part.domain.labels) if role == "labeled" or with_truth else None
            seed = seed_for("domain", settings.seed, 1 + number)
            own_views = replace(views, least_area=areas[number])
            store, seen = freeze(role, stores[number], own_views) if freeze else (stores[number], own_views)
            domain = TrainingDomain(
                store,
                train,
                seen,
                batch,
                seed,
                labels,
                shard,
                device,
                role,
                balanced=role == "labeled" and settings.sampling == "balanced",
                half_strong=labels is not None and settings.labeled_view == "half_strong",
            )
            domains.append(domain)
        labeled, unlabeled = domains
        target = self._target(unlabeled, settings, labeled.batch)
        return PairedData(labeled, unlabeled, settings.seed, target), where

    def sampling_notes(self, settings: Settings) -> list[str]:
        """A remark where labeled samples are drawn by class and the classes' sizes differ much."""
        sizes = np.unique(self.labeled.domain.labels[self.labeled.split.train], return_counts=True)[1]
        if settings.sampling != "balanced" or sizes.max() <= UNEVEN * sizes.min():
            return []
        few, many, in_turn = f"{sizes.min():,}", f"{sizes.max():,}", Setting("sampling", "shuffle")
        return [f"labeled classes have {few} to {many} samples: each is drawn equally often ({in_turn} does not)"]

    def _target(self, unlabeled: TrainingDomain, settings: Settings, labeled_batch: int) -> TrainingDomain | None:
        """The unlabeled training samples with target labels, repeated if they are too few; None without labels."""
        train, labels = self.unlabeled.split.train, self.unlabeled.domain.target_labels
        if labels is None:
            return None
        u, rows = unlabeled, train[labels[train] != UNKNOWN]
        if not len(rows):
            raise UserError(f"{self.unlabeled.domain.name}: no image with a target label can be read")
        processes = u.shard[1]
        share = settings.target_share * min(1, len(rows) / ENOUGH_LABELS)
        batch = max(1, round(share * labeled_batch))
        if batch % processes and len(rows) < ENOUGH_LABELS:
            batch += processes - batch % processes
        elif batch % processes:
            fewer = Setting("target_share", (batch - batch % processes or processes) / labeled_batch)
            raise UserError(
                f"a batch of {batch} samples with target labels cannot be shared evenly by {processes} processes: "
                f"{fewer} can"
            )
        rows = np.tile(rows, -(-batch // len(rows)))
        seed, own_labels = seed_for("domain", settings.seed, 3), torch.from_numpy(labels)
        return TrainingDomain(u.store, rows, u.views, batch, seed, own_labels, u.shard, u.device, "target")


def _shared_batch(role: str, requested: int, samples: int, processes: int) -> int:
    """The batch size that these samples allow; an error if the processes cannot share it evenly."""
    batch = min(requested, samples)
    if batch % processes:
        all_of_them = "" if batch == requested else ", all that there are to train on,"
        knob = "batch_size" if role == "labeled" else "unlabeled_batch"
        raise UserError(
            f"a batch of {batch}{all_of_them} cannot be shared evenly by {processes} processes: "
            f"{Setting(knob, batch - batch % processes or processes)} can"
        )
    return batch


def read_domains(labeled: Any, unlabeled: Any, settings: Settings, target_labels: Any = None) -> tuple[Domain, Domain]:
    """List both domains' samples and match their classes by name. Nothing is decoded yet.

    A domain is a path, arrays or a `Source`, as for `unihssl.fit`. `target_labels` are those given in Python; a file of
    them is one of the settings.

    >>> labeled, unlabeled = read_domains("photos", "sketches", Settings())
    """
    source = labeled_domain(labeled, settings)
    target = unlabeled_domain(unlabeled, source.classes, settings)
    if target_labels is None and settings.target_labels == IN_MEMORY:
        raise UserError(
            f"this run trains on labels that were given in Python: pass its {Setting('target_labels')} again"
        )
    if target_labels is not None or settings.target_labels:
        target = with_target_labels(target, settings.target_labels if target_labels is None else target_labels)
    _refuse_shared_files(source, target)
    lengths = [vector_size(source), vector_size(target)]
    if lengths[0] != lengths[1]:
        kinds = [f"vectors of length {n}" if n else "images" for n in lengths]
        raise UserError(f"the domains do not fit together: {kinds[0]} (labeled) and {kinds[1]} (unlabeled)")
    return source, target


def _refuse_shared_files(*domains: Domain) -> None:
    """Stop if a file is given twice, in one domain or in both: it could be both trained and tested on."""
    seen: set[str] = set()
    full_path = FullPaths()
    for domain in domains:
        if isinstance(domain.items, np.ndarray):
            continue
        for item, name in zip(domain.items, domain.names, strict=True):
            try:
                full = full_path(item)
            except (OSError, ValueError):  # decoding names missing files
                continue
            if full in seen:
                same = len({domain.name for domain in domains}) == 1
                why = f"; {Setting('labeled')} and {Setting('unlabeled')} are the same" if same else ""
                raise UserError(f"{domain.name}: {name} is given twice; it could be both trained and tested on{why}")
            seen.add(full)


def vector_size(domain: Domain) -> int:
    """Length of the domain's feature vectors; 0 if its samples are images."""
    vectors = isinstance(domain.items, np.ndarray) and domain.items.ndim == 2
    return int(domain.items.shape[1]) if vectors else 0  # type: ignore[union-attr]


def load_pair(
    source: Domain,
    target: Domain,
    settings: Settings,
    model_side: int | None,
    progress: Callable[[str], Callable[[int, int], None]],
) -> DomainPair:
    """Decode both domains and split each. `model_side` is the side of the model's input, if it is fixed.

    `progress(title)` returns a function that is called with (done, total).
    """
    size = (
        (0, 0)
        if vector_size(source)
        else stored_size((source, target), settings.image_size, model_side, settings.channels)
    )
    cache = cache_folder(settings.cache)

    def load(domain: Domain, role: str) -> Part:
        windows, notes = _training_windows(domain, settings, cache, progress(f"measuring {role}"))
        how = Rendering(size, settings.channels, {kind: (w,) for kind, w in windows.items()}, trained=False)
        waiting = progress(f"waiting for another process that decodes {role}")
        domain = replace(domain, notes=(*domain.notes, *notes))
        readable, store = fill_store(domain, how, progress(f"decoding {role}"), cache, waiting)
        part = Part(readable, store, _split(readable, settings), windows)
        part = _with_notes(part, _untested(part) if settings.test_fraction else [])
        _refuse_black(part)
        return part if windows else _with_notes(part, plain_notes(readable, store, part.split.train))

    labeled, unlabeled = load(source, "labeled"), load(target, "unlabeled")
    labeled, unlabeled = _with_plain_window(labeled, unlabeled), _with_plain_window(unlabeled, labeled)
    if settings.label_shift > 1:
        split = unlabeled.split
        thinned = thin_classes(split.train, unlabeled.domain.labels, settings.label_shift, settings.seed)
        labeled_there = np.flatnonzero(unlabeled.domain.has_target_label)
        unlabeled = replace(unlabeled, split=Split(np.union1d(thinned, labeled_there), split.test))
    parts = [labeled, unlabeled]
    content = contents([part.domain for part in parts])
    splits = drop_trained_copies(content, [part.split for part in parts])
    labeled, unlabeled = map(_with_split, parts, splits)
    unlabeled = _with_notes(unlabeled, _shared_notes(labeled.domain.name, unlabeled.domain.name, *content))
    return DomainPair(labeled, unlabeled, size)


def _split(domain: Domain, settings: Settings) -> Split:
    split = split_domain(domain, settings.test_fraction, settings.seed, settings.split)
    return keep_in_training(split, domain, settings.split)


def _untested(part: Part) -> list[str]:
    """A note on classes that no test sample is of."""
    domain = part.domain
    present, tested = (np.unique(domain.labels[rows]) for rows in (domain.known, part.split.test))
    lost = [str(domain.classes[number]) for number in np.setdiff1d(present, tested)]
    why = "each has too few samples, or groups" if domain.groups is not None else "each has too few samples"
    return [f"{domain.name}: no test sample of {first_few(lost)}: {why}"] if lost else []


def _refuse_black(part: Part) -> None:
    """Stop if every training image is black, which happens to images of more than 8 bits that were badly exported."""
    store, train = part.store, torch.from_numpy(part.split.train)
    if store.samples.dim() == 4 and not any(store.take(rows).any() for rows in torch.split(train, 64)):
        raise UserError(f"{part.domain.name}: all training images are black: nothing can be learnt; export them again")


def _with_plain_window(part: Part, other: Part) -> Part:
    """The part of an array in 0..1 or 0..255 with that as its window, where the other domain's numbers are of one type
    with it (floats of any precision are) and deep: so that an image of unknown domain is not taken for one of that one.
    """
    array = part.domain.items
    if not isinstance(array, np.ndarray) or part.windows:
        return part
    kind = array_kind(array)
    alike = float_kinds(other.windows) if array.dtype.kind == "f" else [kind] if kind in other.windows else []
    if not alike:
        return part
    high, channels = 1.0 if array.dtype.kind == "f" else 255.0, len(other.windows[alike[0]].low)
    return replace(part, windows={kind: Window((0.0,) * channels, (high,) * channels, (0.0, high))})


def _training_windows(
    domain: Domain, settings: Settings, cache: Path | None, progress: Progress
) -> tuple[dict[str, Window], list[str]]:
    """What becomes black and white in images of more than 8 bits; nothing without any.

    By training images alone, but that whole numbers up to 255 are 8-bit images only if those of all images are.
    """
    array = domain.items
    if isinstance(array, np.ndarray) and array.ndim > 2 and settings.intensity == "auto" and holds_bytes(array):
        return {array_kind(array): Window((0.0,), (255.0,), (0.0, 255.0))}, []
    found = survey(domain, settings.channels, cache, progress, settings.intensity)
    readable = np.setdiff1d(np.arange(len(domain)), found.unreadable)
    if not len(found.rows) or not len(readable):
        return {}, []
    train = readable[_split(domain.keep(readable), settings).train]
    trained = np.isin(found.rows, train)
    sources = None if domain.sources is None else domain.sources[found.rows[trained]]
    return decide_windows(found.measured.keep(trained), settings.intensity, domain.name, sources)


def _with_split(part: Part, split: Split) -> Part:
    """The part with this split, and a note if copies were taken out of its test samples."""
    note = f"{part.domain.name}: {counted(len(split.copies), 'test sample')} not used, as byte-identical copies train"
    return _with_notes(replace(part, split=split), [note] if len(split.copies) else [])


def _shared_notes(labeled: str, unlabeled: str, first: list[bytes], second: list[bytes]) -> list[str]:
    """That the unlabeled domain has samples of the labeled one, by the contents of both."""
    count = in_both(first, second)
    meant = "remove them from either, unless both domains are meant to have them"
    return [f"{unlabeled}: {counted(count, 'sample')} also in {labeled}, byte for byte: {meant}"] if count else []


def _with_notes(part: Part, notes: list[str]) -> Part:
    return replace(part, domain=replace(part.domain, notes=(*part.domain.notes, *notes)))

"""What a training step sees: a batch from each domain, a pure function of (seed, stage, step).

(Where a method draws by class, also of the classes it gave last, which its buffers hold.) So there is no position to
save: a resumed run asks for the same step and gets the same batch. What changes from step to step (rows, prefetched
images, the step number) is written to fixed places on the device, so that a step captured as a CUDA graph can be
replayed on the next batch.
"""

import math
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from unihssl.data.batch_random import BatchRandom, RandomStreams, seed_for, seed_network
from unihssl.data.frozen_views import FrozenViews
from unihssl.data.prefetch import Prefetcher
from unihssl.data.store import Store
from unihssl.data.views import Views


class Samples:
    """A batch of one domain: rows (in the domain's training part), labels if they may be seen, and views.

    Every view has a random stream of its own, is drawn once, and stays the same however often it is asked for.
    """

    def __init__(
        self,
        images: Tensor,
        rows: Tensor,
        views: Views | FrozenViews,
        random: Callable[[str], BatchRandom],
        labels: Tensor | None = None,
        strong_count: int = 0,
    ) -> None:
        """`random` gives the stream of a view by its name; `strong_count` of the views in `labeled_view` are strong."""
        self.images, self.rows, self.views, self.random, self._labels = images, rows, views, random, labels
        self._strong_count = strong_count

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def y(self) -> Tensor:
        """Labels (B,); an error for samples of the unlabeled domain."""
        if self._labels is None:
            raise AttributeError("these samples are unlabeled: no label of theirs may be used in training")
        return self._labels

    @property
    def has_strong(self) -> bool:
        """Whether the strong view differs from the weak one: images have one, feature vectors do not."""
        return self.views.has_strong(self.images)

    @cached_property
    def weak(self) -> Tensor:
        """The training view, normalised: (B, C, h, w), or vectors as they are."""
        return self.views.weak(self.images, self.random("weak"))

    @cached_property
    def labeled_view(self) -> Tensor:
        """What is trained with true labels: weak views, or strong ones of the first samples, as that setting says."""
        if not self._strong_count or not self.has_strong:
            return self.weak
        return torch.cat([self.strong[: self._strong_count], self.weak[self._strong_count :]])

    @cached_property
    def crop(self) -> Tensor:
        """The plain random crop, for stages that want it whatever the method's own view is."""
        return self.views.weak(self.images, self.random("crop"), "crop")

    @cached_property
    def strong(self) -> Tensor:
        """The strongly augmented view."""
        return self.views.strong(self.images, self.random("strong"))

    @cached_property
    def test(self) -> Tensor:
        """The view that predictions are made from: the centre, without randomness."""
        return self.views.test(self.images)


class JoinedSamples:
    """Two batches as one, the samples of the first before those of the second."""

    def __init__(self, first: Samples, second: Samples, rows: Tensor) -> None:
        self.parts, self.rows = (first, second), rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getattr__(self, name: str) -> Tensor:
        """A view, or the labels `y`."""
        return torch.cat([getattr(part, name) for part in self.parts])


class TrainingDomain:
    """One domain's training samples, shuffled anew for each pass, the last partial batch dropped."""

    def __init__(
        self,
        store: Store,
        rows: np.ndarray,
        views: Views | FrozenViews,
        batch: int,
        seed: int,
        labels: Tensor | None = None,
        shard: tuple[int, int] = (0, 1),
        device: torch.device | None = None,
        name: str = "",
        balanced: bool = False,
        half_strong: bool = False,
    ) -> None:
        """`shard` is this process's number and how many share each batch; `device` is where steps run.

        `balanced`: a pass has every class equally often, not every sample once. `half_strong`: half of each batch
        is trained in strong views.
        """
        place = store.samples.device
        self.name = name or ("unlabeled" if labels is None else "labeled")
        self.store, self.views, self.seed, self.shard = store, views, seed, shard
        self.device = device or place
        self.rows = torch.from_numpy(rows).to(place)
        self.labels = None if labels is None else labels.to(place)[self.rows].to(self.device)
        self._classes = labels[torch.from_numpy(rows)].cpu() if balanced and labels is not None else None
        self.batch = min(batch, len(rows))
        self.batch_rows = torch.zeros(len(range(shard[0], self.batch, shard[1])), dtype=torch.int64, device=self.device)
        self._strong_count = len(range(shard[0], self.batch // 2, shard[1])) if half_strong else 0  # in this process
        is_local = self.device == place
        self._prefetcher = None if is_local else Prefetcher(store.samples, len(self.batch_rows), self.device)
        self._step, self._fetched, self._draws = (0, 0), (-1, -1, 0), 0
        self._orders: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def balance(self, classes: Tensor) -> None:
        """From now on a pass has every class equally often, by these classes of the samples (N,)."""
        self._classes = classes.cpu()
        self._orders, self._draws = {}, self._draws + 1

    def load(self, stage: int, step: int) -> None:
        """Write this step's rows to the device, and its prefetched images once a step of this stage has used them."""
        self._step = (stage, step)
        self.batch_rows.copy_(self._rows_of(stage, step)[1])
        if self._fetched[0] == stage:
            self._fetch()

    def settle(self) -> None:
        """Wait until nothing is on its way to the device."""
        if self._prefetcher:
            self._prefetcher.settle()

    def samples(self, random: RandomStreams) -> Samples:
        """The batch of the step that was loaded."""
        self._fetch()
        images = self._prefetcher.images if self._prefetcher else self.store.take(self.rows[self.batch_rows])
        return self._samples(images, self.batch_rows, lambda view: random[f"{self.name}/{view}"], self._strong_count)

    def sweep(self, random: RandomStreams, batch: int = 256, *, shuffled: bool = False) -> Iterator[Samples]:
        """Every training sample once, in order or shuffled. Every process sees the same batches, of nearly one size."""

        def stream(view: str) -> BatchRandom:
            return random[f"{self.name}/sweep/{view}"].for_all()

        order = torch.arange(len(self), device=self.device)
        if shuffled:
            order = torch.randperm(len(self), device=self.device, generator=stream("order").generator)
        for rows in torch.tensor_split(order, math.ceil(len(order) / batch)):
            images = self.store.take(self.rows[rows.to(self.rows.device)]).to(self.device)
            yield self._samples(images, rows, stream)

    def _samples(
        self, images: Tensor, rows: Tensor, random: Callable[[str], BatchRandom], strong_count: int = 0
    ) -> Samples:
        labels = None if self.labels is None else self.labels[rows]
        return Samples(images, rows, self.views, random, labels, strong_count)

    def _fetch(self) -> None:
        stage, step, draws = wanted = (*self._step, self._draws)
        if self._prefetcher and self._fetched != wanted:
            self.store.check()
            here, ahead = (self.rows[self._rows_of(stage, s)[0]] for s in (step, step + 1))
            self._prefetcher.load(wanted, here, (stage, step + 1, draws), ahead)
        self._fetched = wanted

    def _rows_of(self, stage: int, step: int) -> tuple[Tensor, Tensor]:
        """The rows of a step, on the host and on the device."""
        passes, position = divmod(step, len(self) // self.batch)
        order = self._orders.get((stage, passes))
        if order is None:
            shuffle = torch.Generator().manual_seed(seed_for("shuffle", self.seed, stage, passes))
            on_host = torch.randperm(len(self), generator=shuffle)
            if self._classes is not None:
                on_host = balanced_order(self._classes, shuffle)
            pinned = on_host.pin_memory() if self.device.type == "cuda" else on_host  # else the copy would wait
            order = on_host, pinned.to(self.device, non_blocking=True)
            self._orders = dict([*self._orders.items()][-1:]) | {(stage, passes): order}
        first = position * self.batch
        rank, processes = self.shard
        on_host, on_device = (rows[first + rank : first + self.batch : processes] for rows in order)
        return on_host, on_device


def balanced_order(classes: Tensor, random: torch.Generator) -> Tensor:
    """As many rows (N,) as there are `classes` (N,), every class equally often, to one: small classes repeat theirs."""
    present = torch.unique(classes)
    slots = torch.randperm(len(classes), generator=random) % len(present)
    order = torch.empty_like(slots)
    for number, value in enumerate(present):
        rows, places = torch.where(classes == value)[0], torch.where(slots == number)[0]
        rows = rows[torch.randperm(len(rows), generator=random)]
        order[places] = rows[torch.arange(len(places)) % len(rows)]
    return order


class PairedBatch:
    """One step's data: samples of both domains, fetched when asked for, and how far the stage has come.

    `step` and `progress` (0 at the stage's start, towards 1 at its end) are tensors, so that they can change under
    a captured graph. `kind` cannot: each kind of step is captured by itself.
    """

    def __init__(self, data: "PairedData") -> None:
        self.data, self.random, self.step, self.progress = data, data.random, data.step, data.progress
        self.kind = data.kind

    @property
    def images(self) -> int:
        """How many samples were fetched for this step, over all processes."""
        fetched = (name for name in ("labeled", "unlabeled", "target") if vars(self).get(name))
        return sum(getattr(self.data, name).batch for name in fetched)

    @cached_property
    def labeled(self) -> Samples:
        """This process's labeled samples: images (B, H, W, 3) or vectors (B, D), with labels `y` (B,)."""
        return self.data.labeled.samples(self.random)

    @cached_property
    def unlabeled(self) -> Samples:
        """This process's unlabeled samples, of a batch size of their own; asking for `y` is an error."""
        return self.data.unlabeled.samples(self.random)

    @cached_property
    def target(self) -> Samples | None:
        """Samples of the unlabeled domain whose labels may be trained on, with `y`; None if no label was given."""
        return self.data.target.samples(self.random) if self.data.target else None

    @cached_property
    def all_labeled(self) -> Samples | JoinedSamples:
        """All samples with labels `y`: those of the labeled domain, then `target`, whose rows are numbered on."""
        if self.target is None:
            return self.labeled
        rows = torch.cat([self.labeled.rows, len(self.data.labeled) + self.target.rows])
        return JoinedSamples(self.labeled, self.target, rows)


class PairedData:
    """Both domains' training samples, and the random streams of their views."""

    def __init__(
        self, labeled: TrainingDomain, unlabeled: TrainingDomain, seed: int, target: TrainingDomain | None = None
    ) -> None:
        """`target` holds the unlabeled domain's samples whose labels may be trained on."""
        self.labeled, self.unlabeled, self.target, self.seed = labeled, unlabeled, target, seed
        self.domains = [labeled, unlabeled, *([target] if target else [])]
        self.device, self.rank = labeled.device, labeled.shard[0]
        self.random = RandomStreams(self.device, labeled.shard)
        self.step = torch.zeros((), dtype=torch.int64, device=self.device)
        self.progress = torch.zeros((), dtype=torch.float64, device=self.device)
        self.kind = ""  # of the step, if its stage has several

    def reseed(self, stage: int, step: int) -> None:
        """Seed one step; called before anything random happens in it. Dropout differs between processes."""
        self.random.reseed(seed_for("views", self.seed, stage, step, 0))
        seed_network(seed_for("network", self.seed, stage, step, self.rank), self.device)

    def reseed_before(self, stage: int) -> None:
        """Seed what comes before a stage's first step, alike on all processes."""
        self.random.reseed(seed_for("views", self.seed, stage))
        seed_network(seed_for("network", self.seed, stage), self.device)

    def load(self, stage: int, step: int, progress: float, kind: str = "") -> None:
        """Write what a step depends on to its places on the device."""
        self.kind = kind
        self.step.fill_(step)
        self.progress.fill_(progress)
        for domain in self.domains:
            domain.load(stage, step)

    def settle(self) -> None:
        """Wait until no thread sends anything to the device."""
        for domain in self.domains:
            domain.settle()

    def target_classes(self) -> Tensor | None:
        """The class of each unlabeled training sample whose label may be trained on (N_U,), -1 for the others."""
        if self.target is None or self.target.labels is None:
            return None
        classes = torch.full((len(self.unlabeled),), -1, device=self.device)
        rows = torch.searchsorted(self.unlabeled.rows, self.target.rows)  # rows of one store, the former sorted
        classes[rows.to(self.device)] = self.target.labels
        return classes

    def batch(self) -> PairedBatch:
        """The batch of the step that was loaded."""
        return PairedBatch(self)

    def steps_per_epoch(self, length: str) -> int:
        """Steps of one epoch over the labeled domain, the larger (max), the smaller (min) or the unlabeled."""
        labeled, unlabeled = (math.ceil(len(d) / d.batch) for d in (self.labeled, self.unlabeled))
        steps = {"labeled": labeled, "unlabeled": unlabeled}
        return (steps | {"max": max(steps.values()), "min": min(steps.values())})[length]

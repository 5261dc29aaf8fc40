"""What a training step sees: a batch from each domain, a pure function of the seed and the step number.

Nothing here has a position to save: a resumed run asks for the same step and gets the same batch.
"""

import math
import zlib
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from unihssl.data.store import Store
from unihssl.data.views import Views


def seed_for(purpose: str, *parts: int) -> int:
    """Mix what a stream of random numbers is for and where it stands into one well-spread seed."""
    entropy = [zlib.crc32(purpose.encode()), *parts, len(parts)]  # the length: trailing zeros would be lost
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> np.uint64(1))


class Samples:
    """A batch of one domain: rows (in the domain's training part), labels if they may be seen, and views."""

    def __init__(
        self, images: Tensor, rows: Tensor, views: Views, generator: torch.Generator, labels: Tensor | None = None
    ) -> None:
        self.images, self.rows, self.views, self.generator, self._labels = images, rows, views, generator, labels

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def y(self) -> Tensor:
        if self._labels is None:
            raise AttributeError("these samples are unlabeled: no label of theirs may be used in training")
        return self._labels

    @cached_property
    def weak(self) -> Tensor:
        """The training view; the same one however often it is asked for."""
        return self.views.weak(self.images, self.generator)

    @cached_property
    def crop(self) -> Tensor:
        """The plain random crop, for stages that want it whatever the method's own view is."""
        return self.views.weak(self.images, self.generator, "crop")

    @cached_property
    def strong(self) -> Tensor:
        return self.views.strong(self.images, self.generator)

    @cached_property
    def test(self) -> Tensor:
        return self.views.test(self.images)


class TrainingDomain:
    """One domain's training samples on the device, shuffled anew for each pass, the last partial batch dropped."""

    def __init__(
        self,
        store: Store,
        rows: np.ndarray,
        views: Views,
        batch: int,
        seed: int,
        labels: Tensor | None = None,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        """`shard` is this process's number and how many share each batch."""
        device = store.samples.device
        self.shard = shard
        self.store, self.views, self.seed = store, views, seed
        self.rows = torch.from_numpy(rows).to(device)
        self.labels = None if labels is None else labels.to(device)[self.rows]
        self.batch = min(batch, len(rows))
        self._pass = (-1, -1)
        self._order = self.rows

    def __len__(self) -> int:
        return len(self.rows)

    def samples(self, stage: int, step: int, generator: torch.Generator) -> Samples:
        per_pass = len(self) // self.batch
        passes, position = divmod(step, per_pass)
        if (stage, passes) != self._pass:
            shuffle = torch.Generator().manual_seed(seed_for("shuffle", self.seed, stage, passes))
            order = torch.randperm(len(self), generator=shuffle)
            self._pass, self._order = (stage, passes), order.to(self.rows.device)
        rank, count = self.shard
        return self._at(self._order[position * self.batch : (position + 1) * self.batch][rank::count], generator)

    def sweep(self, generator: torch.Generator, batch: int = 256) -> Iterator[Samples]:
        """Every training sample once, in order."""
        for rows in torch.split(torch.arange(len(self), device=self.rows.device), batch):
            yield self._at(rows, generator)

    def _at(self, rows: Tensor, generator: torch.Generator) -> Samples:
        labels = None if self.labels is None else self.labels[rows]
        return Samples(self.store.take(self.rows[rows]), rows, self.views, generator, labels)


class PairedBatch:
    """One step's data: samples of both domains, fetched when asked for, and how far the stage has come."""

    def __init__(self, data: "PairedData", stage: int, step: int, progress: float) -> None:
        self.data, self.stage, self.step, self.progress = data, stage, step, progress
        self.generator = data.generator

    @property
    def images(self) -> int:
        """How many samples were fetched for this step, over all processes."""
        return sum(getattr(self.data, d).batch for d in ("labeled", "unlabeled") if d in vars(self))

    @cached_property
    def labeled(self) -> Samples:
        return self.data.labeled.samples(self.stage, self.step, self.generator)

    @cached_property
    def unlabeled(self) -> Samples:
        return self.data.unlabeled.samples(self.stage, self.step, self.generator)


class PairedData:
    """Both domains' training samples and the one generator that views and mixup draw from."""

    def __init__(self, labeled: TrainingDomain, unlabeled: TrainingDomain, seed: int) -> None:
        self.labeled, self.unlabeled, self.seed = labeled, unlabeled, seed
        self.rank = labeled.shard[0]
        self.generator = torch.Generator(device=labeled.rows.device)

    def reseed(self, stage: int, step: int) -> None:
        """Start the draws of one step; called before anything random happens in it. Processes draw apart."""
        self._reseed(stage, step, self.rank)

    def reseed_before(self, stage: int) -> None:
        """Start the draws made before a stage's first step, which all processes must make alike."""
        self._reseed(stage)

    def _reseed(self, *place: int) -> None:
        self.generator.manual_seed(seed_for("views", self.seed, *place))
        torch.manual_seed(seed_for("network", self.seed, *place))

    def batch(self, stage: int, step: int, progress: float) -> PairedBatch:
        return PairedBatch(self, stage, step, progress)

    def steps_per_epoch(self, length: str) -> int:
        """Steps of one epoch over the labeled domain, the larger (max), the smaller (min) or the unlabeled."""
        labeled, unlabeled = (math.ceil(len(d) / d.batch) for d in (self.labeled, self.unlabeled))
        return {"labeled": labeled, "unlabeled": unlabeled}.get(length) or {"max": max, "min": min}[length](
            labeled, unlabeled
        )

"""Everything said about a running stage: to the screen, to metrics.jsonl and to TensorBoard."""

import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unihssl.training.display import Display
from unihssl.training.log import Meter, MetricsLog
from unihssl.training.setup import Fabric


class Recorder:
    """Takes in each step's readings and writes down their means when asked. Only the first process writes.

    `truth` holds the unlabeled training samples' classes where they are known (-1 elsewhere). It is looked at only
    to log the pseudo-labels' accuracy, under a name that says so.
    """

    def __init__(
        self, fabric: Fabric, display: Display, truth: Tensor, folder: Path, steps_done: int, tensorboard: bool
    ) -> None:
        self.fabric, self.display = fabric, display
        self.truth = truth.to(fabric.device)
        self.truth_known = bool((truth >= 0).any())
        self.log = MetricsLog(folder, steps_done, tensorboard) if fabric.is_global_zero else None

    def start(self, name: str, total: int, done: int, meter: Meter) -> None:
        self.display.start(name, total, done)
        self.meter, self.images, self.since = meter, 0, time.monotonic()

    def add(self, images: int, done: int) -> None:
        self.images += images
        self.display.step(done)

    def report(self, place: dict[str, Any], lr: float, pseudo_classes: Tensor | None) -> list[str]:
        """Write the means since the last report; returns the names of those that are not finite."""
        values = self.meter.read(self.fabric)
        broken = [name for name, value in values.items() if not math.isfinite(value)]
        if broken:
            return broken
        if pseudo_classes is not None and self.truth_known:
            right = (pseudo_classes == self.truth)[self.truth >= 0]
            values["oracle_pseudo_accuracy"] = float(right.float().mean())
        now = time.monotonic()
        speed = self.images / max(now - self.since, 1e-9)
        self.images, self.since = 0, now
        self.display.values(place["step"], values)
        if self.log:
            self.log.write({**place, "lr": lr, **values, "images_per_second": speed})
        return []

    def close(self) -> None:
        if self.log:
            self.log.close()


def all_finite(tensors: list[Tensor]) -> bool:
    """One look at many tensors, with a single wait for the device."""
    return bool(torch.stack([t.isfinite().all() for t in tensors]).all())

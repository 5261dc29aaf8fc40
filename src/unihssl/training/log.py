"""The log of a run while it trains: means kept on the device, metrics.jsonl, callbacks, the display."""

import math
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from unihssl.files import write_error
from unihssl.run_folder import RunFolder
from unihssl.training.callbacks import Callback
from unihssl.training.display import Display
from unihssl.training.fabric import Fabric


class Meter:
    """Running means that stay on the device until they are read: a few small kernels per step, no synchronisation."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self._sums: Tensor | None = None  # of each value, and of ones: a replayed graph runs no Python to count with

    def add(self, values: dict[str, Tensor]) -> None:
        row = torch.stack([v.float() for v in values.values()])
        if self._sums is None or self.names != tuple(values):
            self.names, self._sums = tuple(values), row.new_zeros(len(row) + 1)
        self._sums[:-1] += row
        self._sums[-1] += 1

    def state(self) -> dict[str, Any] | None:
        """What was added since the last reading, for a checkpoint; None if nothing was."""
        if self._sums is None or not self._sums[-1]:
            return None
        return {"names": list(self.names), "sums": self._sums.cpu()}

    def restore(self, state: dict[str, Any], device: torch.device) -> None:
        self.names, self._sums = tuple(state["names"]), state["sums"].to(device)

    def read(self, fabric: Fabric) -> dict[str, float]:
        """The means since the last reading, over all processes (this waits for the device)."""
        if self._sums is None:
            return {}
        *sums, count = fabric.all_reduce(self._sums, reduce_op="mean").tolist()
        self._sums.zero_()
        return {name: total / count for name, total in zip(self.names, sums, strict=True)} if count else {}


class Recorder:
    """Takes in each step's readings and reports their means when asked. Only the first process writes.

    `truth` (N_U,) holds the classes of the unlabeled training samples where they are known, -1 elsewhere. It only
    serves to log the pseudo-labels' accuracy, under a name that says so.
    """

    def __init__(
        self,
        fabric: Fabric,
        display: Display,
        truth: Tensor,
        folder: RunFolder,
        steps_done: int,
        callbacks: Sequence[Callback],
        rows: int = 0,
    ) -> None:
        """`rows` is how many the log must have of the steps done before."""
        self.fabric, self.display, self.folder = fabric, display, folder
        self.truth = truth.to(fabric.device)
        self.truth_known = bool((truth >= 0).any())
        self.callbacks = callbacks if fabric.is_global_zero else ()
        self.rows = folder.keep_metrics(steps_done, rows) if fabric.is_global_zero else 0

    def start(self, name: str, total: int, done: int, meter: Meter) -> None:
        self.display.start(name, total, done)
        self.stage, self.total = name, total
        self.meter, self.images, self.since = meter, 0, time.monotonic()

    def add(self, images: int, done: int) -> None:
        self.images += images
        self.display.step(done)
        for callback in self.callbacks:
            callback.on_step(self.stage, done, self.total)

    def report(self, place: dict[str, Any], lr: float, pseudo_classes: Tensor | None, *, epoch_ends: bool) -> list[str]:
        """Write the means since the last report; returns the names of those that are not finite."""
        readings = self.meter.read(self.fabric)
        broken = [name.partition("/")[2] or name for name, value in readings.items() if not math.isfinite(value)]
        if broken:
            return list(dict.fromkeys(broken))
        values: dict[str, Any] = {"loss": readings.pop("loss", 0.0), "terms": {}, "weighted": {}, "stats": {}}
        for name, value in readings.items():
            group, _, own_name = name.partition("/")
            values[group][own_name] = value
        if pseudo_classes is not None:
            values["pseudo_shares"] = (pseudo_classes.bincount() / len(pseudo_classes)).tolist()
        if pseudo_classes is not None and self.truth_known:
            correct = (pseudo_classes == self.truth)[self.truth >= 0]
            values["stats"]["oracle_pseudo_accuracy"] = float(correct.float().mean())
        now = time.monotonic()
        speed = self.images / max(now - self.since, 1e-9)
        self.images, self.since = 0, now
        self.display.values(place["step"], {"loss": values["loss"], **values["terms"], **values["stats"]})
        if self.fabric.is_global_zero:
            self._write({**place, "lr": lr, **values, "images_per_second": speed}, epoch_ends)
        return []

    def _write(self, row: dict[str, Any], epoch_ends: bool) -> None:
        try:
            self.folder.append_metrics(row)
            self.rows += 1
        except OSError as error:
            raise write_error(self.folder.metrics, error) from error
        for callback in self.callbacks:
            callback.on_log(row)
            if epoch_ends:
                callback.on_epoch(row)


def all_finite(tensors: list[Tensor]) -> bool:
    """Whether all elements of all tensors are finite, with a single wait for the device."""
    return bool(torch.stack([t.isfinite().all() for t in tensors]).all())

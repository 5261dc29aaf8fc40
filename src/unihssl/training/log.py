"""The log of a run while it trains: means kept on the device, metrics.jsonl, TensorBoard events, the display."""

import math
import threading
import time
from typing import Any

import torch
from torch import Tensor

from unihssl.files import write_error
from unihssl.run_folder import RunFolder
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
        self, fabric: Fabric, display: Display, truth: Tensor, folder: RunFolder, steps_done: int, tensorboard: bool
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
        if self.log:
            self.log.write({**place, "lr": lr, **values, "images_per_second": speed})
        return []

    def close(self) -> None:
        if self.log:
            self.log.close()


class MetricsLog:
    """metrics.jsonl and TensorBoard events. Opening it for a resumed run drops what came after its checkpoint."""

    def __init__(self, folder: RunFolder, steps_done: int, tensorboard: bool) -> None:
        self.folder = folder
        folder.keep_metrics(steps_done)
        self._writer: Any = None
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._hook, threading.excepthook = threading.excepthook, _ignore_disk_errors
            try:
                self._writer = SummaryWriter(folder.tensorboard, purge_step=steps_done + 1)
            except OSError as error:
                threading.excepthook = self._hook
                raise write_error(folder.tensorboard, error) from error

    def write(self, row: dict[str, Any]) -> None:
        try:
            self.folder.append_metrics(row)
            if self._writer:
                values = {name: value for name, value in row.items() if isinstance(value, float)}
                for group in ("terms", "weighted", "stats"):
                    values |= {f"{group}/{name}": value for name, value in row.get(group, {}).items()}
                for name, value in values.items():
                    self._writer.add_scalar(f"{row['stage']}/{name}", value, row["global_step"])
        except OSError as error:
            raise write_error(self.folder.metrics, error) from error

    def close(self) -> None:
        try:
            if self._writer:
                self._writer.close()
        except OSError as error:
            raise write_error(self.folder.tensorboard, error) from error
        finally:
            if self._writer:
                threading.excepthook = self._hook


def _ignore_disk_errors(problem: threading.ExceptHookArgs) -> None:
    """TensorBoard's writing thread also hands its OSError to the caller, who reports it."""
    if not isinstance(problem.exc_value, OSError):
        threading.__excepthook__(problem)


def all_finite(tensors: list[Tensor]) -> bool:
    """Whether all elements of all tensors are finite, with a single wait for the device."""
    return bool(torch.stack([t.isfinite().all() for t in tensors]).all())

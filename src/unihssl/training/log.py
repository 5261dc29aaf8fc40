"""What a run writes down while it trains: means kept on the device, lines of metrics.jsonl, TensorBoard events."""

import json
import threading
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unihssl.files import write_error, write_text
from unihssl.training.setup import Fabric


class Meter:
    """Running means that stay on the device until they are read: a few small kernels a step, no waiting."""

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


class MetricsLog:
    """metrics.jsonl and TensorBoard events. Opening it for a resumed run drops what came after its checkpoint."""

    def __init__(self, folder: Path, steps_done: int, tensorboard: bool) -> None:
        self.path = folder / "metrics.jsonl"
        kept = [row for row in read_metrics(folder) if row["global_step"] <= steps_done]
        write_text(self.path, "".join(json.dumps(row) + "\n" for row in kept))
        self._writer: Any = None
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._hook, threading.excepthook = threading.excepthook, _quiet_about_disks
            try:
                self._writer = SummaryWriter(folder / "tensorboard", purge_step=steps_done + 1)
            except OSError as error:
                threading.excepthook = self._hook
                raise write_error(folder / "tensorboard", error) from error

    def write(self, row: dict[str, Any]) -> None:
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            if self._writer:
                for name, value in row.items():
                    if isinstance(value, float):
                        self._writer.add_scalar(f"{row['stage']}/{name}", value, row["global_step"])
        except OSError as error:
            raise write_error(self.path, error) from error

    def close(self) -> None:
        try:
            if self._writer:
                self._writer.close()
        except OSError as error:
            raise write_error(self.path.parent / "tensorboard", error) from error
        finally:
            if self._writer:
                threading.excepthook = self._hook


def _quiet_about_disks(problem: threading.ExceptHookArgs) -> None:
    """TensorBoard's writing thread hands its OSError to the caller, who tells the user; one telling is enough."""
    if not isinstance(problem.exc_value, OSError):
        threading.__excepthook__(problem)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run's metrics.jsonl; a last line cut short by a kill is passed over."""
    path = folder / "metrics.jsonl"
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows

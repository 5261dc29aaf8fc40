"""Calls from inside a run: watch it, or send its readings elsewhere."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from unihssl.config import Settings
from unihssl.errors import Setting, UserError
from unihssl.files import write_error
from unihssl.run_folder import RunFolder


class Callback:
    """Override what you need; every method may stay as it is. Only the first process of a run calls them.

    >>> class Stopwatch(unihssl.Callback):
    ...     def on_epoch(self, row):
    ...         print(row["stage"], row["epoch"], row["loss"])
    >>> unihssl.fit("scans_a", "scans_b", callbacks=[Stopwatch()])
    """

    def on_start(self, run: Path, settings: dict[str, Any], steps_done: int) -> None:
        """Training begins, or resumes after `steps_done` steps. `settings` are those of config.yaml."""

    def on_step(self, stage: str, step: int, total: int) -> None:
        """A step was launched. To read a tensor here would make a GPU wait."""

    def on_log(self, row: dict[str, Any]) -> None:
        """A row was written to metrics.jsonl: place, `lr`, `loss`, `terms`, `stats`."""

    def on_epoch(self, row: dict[str, Any]) -> None:
        """An epoch ended; `row` is its last row of metrics.jsonl."""

    def on_end(self, model: Any) -> None:
        """The run is over. `model` is the measured model, or None if the run stopped before its end."""


class TensorBoard(Callback):
    """Events in the run's folder; added by `tensorboard=True`, the default."""

    def on_start(self, run: Path, settings: dict[str, Any], steps_done: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.folder = RunFolder(run).tensorboard
        self._hook, threading.excepthook = threading.excepthook, _ignore_disk_errors
        try:
            self._writer = SummaryWriter(self.folder, purge_step=steps_done + 1)
        except OSError as error:
            threading.excepthook = self._hook
            raise write_error(self.folder, error) from error

    def on_log(self, row: dict[str, Any]) -> None:
        try:
            for name, value in flat(row).items():
                self._writer.add_scalar(name, value, row["global_step"])
        except OSError as error:
            raise write_error(self.folder, error) from error

    def on_end(self, model: Any) -> None:
        try:
            self._writer.close()
        except OSError as error:
            raise write_error(self.folder, error) from error
        finally:
            threading.excepthook = self._hook


class MLflow(Callback):
    """A run of MLflow with the settings, readings and test results (`pip install mlflow`)."""

    def on_start(self, run: Path, settings: dict[str, Any], steps_done: int) -> None:
        self._mlflow = _imported("mlflow")
        self._mlflow.start_run(run_name=run.name)
        self._mlflow.log_params(settings)

    def on_log(self, row: dict[str, Any]) -> None:
        self._mlflow.log_metrics(flat(row), step=row["global_step"])

    def on_end(self, model: Any) -> None:
        if model is not None:
            self._mlflow.log_metrics(accuracies(model.result))
        self._mlflow.end_run("FINISHED" if model is not None else "KILLED")


class WeightsAndBiases(Callback):
    """A run of Weights & Biases with the settings, readings and test results (`pip install wandb`)."""

    def on_start(self, run: Path, settings: dict[str, Any], steps_done: int) -> None:
        self._run = _imported("wandb").init(name=run.name, config=settings)

    def on_log(self, row: dict[str, Any]) -> None:
        self._run.log(flat(row), step=row["global_step"])

    def on_end(self, model: Any) -> None:
        if model is not None:
            self._run.summary.update(accuracies(model.result))
        self._run.finish(exit_code=0 if model is not None else 1)


TRACKERS = {"mlflow": MLflow, "wandb": WeightsAndBiases}


def with_own(callbacks: Sequence[Callback], settings: Settings) -> list[Callback]:
    """The callbacks given, after those that the settings ask for."""
    own = [TensorBoard()] if settings.tensorboard else []
    if settings.track:
        _imported(settings.track)
    return [*own, *([TRACKERS[settings.track]()] if settings.track else []), *callbacks]


class Outcome:
    """Where a run leaves its model for `on_end`."""

    model: Any = None


@contextmanager
def running(callbacks: Sequence[Callback], run: Path, settings: dict[str, Any], steps_done: int) -> Iterator[Outcome]:
    """Start the callbacks, and end each that was started, whatever happens in between."""
    outcome = Outcome()
    with ExitStack() as stack:
        for callback in callbacks:
            callback.on_start(run, settings, steps_done)
            stack.callback(partial(_end, callback, outcome))
        yield outcome


def _end(callback: Callback, outcome: Outcome) -> None:
    callback.on_end(outcome.model)


def flat(row: dict[str, Any]) -> dict[str, float]:
    """The readings of a row by `stage/name`, those of its terms and statistics by `stage/terms/name`.

    >>> flat({"stage": "adapt", "step": 5, "loss": 0.5, "terms": {"pseudo": 0.1}, "stats": {}})
    {'adapt/loss': 0.5, 'adapt/terms/pseudo': 0.1}
    """
    values = {name: value for name, value in row.items() if isinstance(value, float)}
    for group in ("terms", "weighted", "stats"):
        values |= {f"{group}/{name}": value for name, value in row.get(group, {}).items()}
    return {f"{row['stage']}/{name}": value for name, value in values.items()}


def accuracies(result: dict[str, Any]) -> dict[str, float]:
    """The test accuracy of each part that was measured."""
    parts = ("pooled", "labeled", "unlabeled")
    return {f"test/{part}/accuracy": result[part]["accuracy"] for part in parts if part in result}


def _imported(package: str) -> Any:
    from importlib import import_module

    try:
        return import_module(package)
    except ImportError:
        raise UserError(f"{Setting('track', package)} needs the package {package}: pip install {package}") from None


def _ignore_disk_errors(problem: threading.ExceptHookArgs) -> None:
    """TensorBoard's writing thread also hands its OSError to the caller, who reports it."""
    if not isinstance(problem.exc_value, OSError):
        threading.__excepthook__(problem)

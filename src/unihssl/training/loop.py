"""Taking a method through its stages."""

import math
import time
from pathlib import Path

from torch import Tensor

from unihssl.config import Settings
from unihssl.data.batches import PairedData
from unihssl.errors import UserError
from unihssl.methods.base import Method
from unihssl.training.checkpoint import Position, load_checkpoint, save_checkpoint
from unihssl.training.display import Display
from unihssl.training.interrupt import InterruptGuard, RunInterruptedError
from unihssl.training.log import Meter, MetricsLog
from unihssl.training.setup import Fabric, make_optimizer, schedule_factor, set_learning_rate


class Trainer:
    """Runs every stage from where the checkpoint in `folder` stands, or from the start.

    `truth` holds the unlabeled training samples' classes where they are known (-1 elsewhere). It is looked at only
    to log the pseudo-labels' accuracy, under a name that says so.
    """

    def __init__(
        self,
        fabric: Fabric,
        method: Method,
        data: PairedData,
        settings: Settings,
        folder: Path,
        fingerprint: str,
        truth: Tensor,
        display: Display,
    ) -> None:
        self.fabric, self.method, self.data, self.settings = fabric, method, data, settings
        self.checkpoint, self.fingerprint, self.display = folder / "checkpoint.pt", fingerprint, display
        self.truth = truth.to(fabric.device)
        self.stages = method.stages()
        self.epoch_steps = [max(1, data.steps_per_epoch(stage.epoch_length)) for stage in self.stages]
        cap = settings.max_steps or math.inf
        self.totals = [int(min(s.epochs * n, cap)) for s, n in zip(self.stages, self.epoch_steps, strict=True)]
        if not self.totals[-1]:
            raise UserError(f"this run has 0 steps to train (epochs={settings.epochs}): set epochs to 1 or more")
        self.folder = folder
        self.saved_at = time.monotonic()

    def fit(self) -> None:
        """Train to the end; raises `RunInterruptedError` once everything is saved if a signal asks for it."""
        position, optimizer_state = Position(), None
        if self.checkpoint.exists():
            position, state, optimizer_state = load_checkpoint(self.checkpoint, self.fingerprint)
            self.method.load_state_dict(state)
            self.display.note(f"resuming after {self._global(position)} of {sum(self.totals)} steps")
        self.module = self.fabric.setup_module(self.method)
        self.log = MetricsLog(self.folder, self._global(position), self.settings.tensorboard)
        try:
            with InterruptGuard() as self.guard:
                for index in range(position.stage, len(self.stages)):
                    start = position.step if index == position.stage else 0
                    self._run_stage(index, start, optimizer_state)
                    optimizer_state = None
        finally:
            self.log.close()

    def _run_stage(self, index: int, start: int, optimizer_state: dict[str, object] | None) -> None:
        stage, total, per_epoch = self.stages[index], self.totals[index], self.epoch_steps[index]
        if start == 0 and stage.begin:
            self.data.reseed(index, 2**31)  # a step number no stage reaches
            with self.fabric.autocast():
                stage.begin(self.data)
        self.optimizer = self.fabric.setup_optimizers(make_optimizer(self.method, self.settings))
        if optimizer_state:
            self.optimizer.load_state_dict(optimizer_state)
        self.module.train()
        self.display.start(stage.name, total, start)
        self.meter, self.read_at = Meter(), (time.monotonic(), start)
        for step in range(start, total):
            self._step(index, step)
            done = step + 1
            epoch_ends = done % per_epoch == 0 or done == total
            if done % self.settings.log_every == 0 or epoch_ends or self.guard.requested:
                self._report(index, done)
            else:
                self.display.step(done)
            due = time.monotonic() - self.saved_at >= self.settings.checkpoint_seconds
            if self.guard.requested or (epoch_ends and due):
                self._save(Position(index, done) if done < total else Position(index + 1, 0))
            if self.guard.requested:
                raise RunInterruptedError(f"stopped at {stage.name} step {done} of {total}")

    def _step(self, index: int, step: int) -> None:
        stage, total, per_epoch = self.stages[index], self.totals[index], self.epoch_steps[index]
        self.data.reseed(index, step)
        if step % per_epoch == 0 and stage.each_epoch:
            with self.fabric.autocast():
                stage.each_epoch(self.data, step // per_epoch)
        by_epoch = self.settings.progress_by == "epoch"
        progress = (step // per_epoch * per_epoch if by_epoch else step) / total
        self.lr_factor = schedule_factor(stage.schedule, progress, self.settings.cosine_horizon)
        set_learning_rate(self.optimizer.param_groups, self.lr_factor)
        loss, logs = self.module(index, self.data.batch(step, total, progress))
        self.fabric.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.meter.add(logs)

    def _report(self, index: int, done: int) -> None:
        """Read the means, refuse to go on if they are no numbers, write them down."""
        values = self.meter.read()
        broken = [name for name, value in values.items() if not math.isfinite(value)]
        if broken:
            self._stop_on_nan(index, done, broken)
        now, (then, step_then) = time.monotonic(), self.read_at
        images = (done - step_then) * (self.data.labeled.batch + self.data.unlabeled.batch)
        self.read_at = (now, done)
        pseudo = self.method.pseudo_classes() if index == len(self.stages) - 1 else None
        known = self.truth >= 0
        if pseudo is not None and bool(known.any()):
            values["oracle_pseudo_accuracy"] = float((pseudo == self.truth)[known].float().mean())
        self.display.values(done, values)
        self.log.write(
            {
                "stage": self.stages[index].name,
                "epoch": (done - 1) // self.epoch_steps[index] + 1,
                "step": done,
                "global_step": self._global(Position(index, done)),
                "lr": self.settings.lr * self.lr_factor,
                **values,
                "images_per_second": images / max(now - then, 1e-9),
            }
        )

    def _save(self, position: Position) -> None:
        if not all(bool(t.isfinite().all()) for t in self.method.parameters()):
            self._stop_on_nan(position.stage, position.step, ["weights"])
        optimizer = self.optimizer.state_dict() if position.step else None
        save_checkpoint(self.checkpoint, position, self.method.state_dict(), optimizer, self.fingerprint)
        self.saved_at = time.monotonic()

    def _stop_on_nan(self, index: int, done: int, broken: list[str]) -> None:
        kept = f"the last good checkpoint is {self.checkpoint}" if self.checkpoint.exists() else "no checkpoint yet"
        raise UserError(
            f"{', '.join(broken)} became NaN or infinite by step {done} of {self.stages[index].name}; {kept}. "
            f"Try a lower learning rate (--set lr={self.settings.lr / 10:g}) or --set precision=fp32"
        )

    def _global(self, position: Position) -> int:
        return sum(self.totals[: position.stage]) + position.step

"""Taking a method through its stages."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from typing import Any, NoReturn

import torch
from torch import Tensor

from unihssl.config import Settings
from unihssl.data.batches import PairedData
from unihssl.errors import RunInterruptedError, Setting, UserError, resume_call
from unihssl.interrupt import InterruptGuard
from unihssl.methods.base import Capture, Method, Stage
from unihssl.models.classifier import set_autocast
from unihssl.run_folder import RunFolder
from unihssl.training.callbacks import Callback
from unihssl.training.checkpoint import Position, Saved, load_checkpoint
from unihssl.training.display import Display
from unihssl.training.distributed import FabricProcesses, all_agree, any_process, share_memory, synchronise_batch_norm
from unihssl.training.fabric import Fabric, autocast_dtype
from unihssl.training.forecast import Forecast
from unihssl.training.log import Recorder, all_finite
from unihssl.training.optimizer import make_optimizer, restore_momentum, schedule_factor, set_learning_rate
from unihssl.training.step import Step


class Trainer:
    """Runs every stage from where the checkpoint in `folder` stands, or from the start."""

    def __init__(
        self,
        fabric: Fabric,
        method: Method[Any],
        data: PairedData,
        settings: Settings,
        folder: RunFolder,
        fingerprint: str,
        costs: list[float] | None = None,
    ) -> None:
        """`costs` are those of a step of each stage, relative to each other: for the forecast of the run's time."""
        self.fabric, self.method, self.data, self.settings = fabric, method, data, settings
        self.folder, self.checkpoint, self.fingerprint = folder, folder.checkpoint, fingerprint
        self.costs = costs
        self.stages = method.stages()
        self.epoch_steps = [data.steps_per_epoch(stage.epoch_length) for stage in self.stages]
        self.totals = [self._length(s.settings, n) for s, n in zip(self.stages, self.epoch_steps, strict=True)]
        if not all(total or stage.optional for total, stage in zip(self.totals, self.stages, strict=True)):
            asked, least = Setting("epochs", settings.epochs), Setting("epochs", 1)
            raise UserError(f"this run has 0 steps to train ({asked}): use at least {least}")
        for part in method.modules():
            if isinstance(part, Method):
                part.processes = FabricProcesses(fabric)
        if settings.sync_batch_norm and fabric.world_size > 1:
            synchronise_batch_norm(method, fabric.device)
        self.saved_at = time.monotonic()
        self.saved = Saved()
        if self.checkpoint.exists():
            self.saved = load_checkpoint(folder, fingerprint)
            try:
                method.load_state_dict(self.saved.method or {})
            except RuntimeError:
                raise UserError(f"{self.checkpoint}: another version of unihssl saved it; start a new run") from None
            self.saved = replace(self.saved, method=None)  # the method has it now

    @property
    def steps_done(self) -> int:
        """Steps of all stages that were done before this process began."""
        return self._global(self.saved.position)

    def fit(self, truth: Tensor, display: Display, callbacks: Sequence[Callback] = ()) -> None:
        """Train to the end; raises `RunInterruptedError` once everything is saved if a signal asks for it."""
        position = self.saved.position
        if self.checkpoint.exists():
            at, step = position.stage, position.step
            ended = at == len(self.stages)
            where = "the end" if ended else f"{self.stages[at].name} step {step} of {self.totals[at]}"
            display.note(f"resuming at {where}")
        if not all_agree(self.fabric, self.steps_done):
            raise UserError(f"{self.folder.path}: processes see different checkpoints; all must share {Setting('out')}")
        self.forecast = self._forecast()
        self.recorder = Recorder(self.fabric, display, truth, self.folder, self.steps_done, callbacks, self.saved.rows)
        try:
            with InterruptGuard() as self.guard, own_stream(self.fabric.device):
                set_autocast(self.method, autocast_dtype(self.settings, self.fabric.device))
                self.module = self.fabric.setup_module(self.method)
                share_memory(self.fabric, self.method)
                for index in range(position.stage, len(self.stages)):
                    self._run_stage(index, self.saved if index == position.stage else Saved())
            self.data.reseed_before(len(self.stages))
            self.method.finish(self.data)
            if not all_finite(list(self.method.parameters())):
                self._stop_on_nan(len(self.stages) - 1, self.totals[-1], ["weights"])
        finally:
            set_autocast(self.method, None)

    def _run_stage(self, index: int, saved: Saved) -> None:
        """Take the steps of a stage that are left after what was saved."""
        stage, total, start = self.stages[index], self.totals[index], saved.position.step
        if start == 0 and stage.begin:
            self.data.reseed_before(index)
            stage.begin(self.data)
            share_memory(self.fabric, self.method)
        elif start and stage.draw:
            stage.draw(self.data)
        for part in self.method.modules():
            if isinstance(part, Method):
                part.time_scale = stage.settings.designed_steps / total if stage.settings.designed_steps else 1.0
        optimizer = make_optimizer(stage.trains or self.method, stage.settings, self.method)
        if saved.optimizer:
            restore_momentum(optimizer, saved.optimizer)
        self.optimizer = self.fabric.setup_optimizers(optimizer)
        self.module.train()
        note = self.recorder.display.note
        self.step = Step(
            self.fabric, self.module, self.method, self.optimizer, self.data, stage.step, self._capture(stage), note
        )
        if saved.readings:
            self.step.meter.restore(saved.readings, self.fabric.device)
        self.recorder.start(stage.name, total, start, self.step.meter)
        with closing(self.step):
            for step in range(start, total):
                self._step(index, step)
                self._after_step(index, step + 1)

    def _after_step(self, index: int, done: int) -> None:
        """Report, save and stop where it is time to."""
        stage, total, per_epoch = self.stages[index], self.totals[index], self.epoch_steps[index]
        epoch_ends = done % per_epoch == 0 or done == total
        report_due = epoch_ends or done % self.settings.log_every == 0
        stop = self._asked_to_stop(report_due)
        if report_due:
            self._report(index, done, epoch_ends)
        save_due = epoch_ends and time.monotonic() - self.saved_at >= self.settings.checkpoint_seconds
        if stop or save_due:
            self._save(Position(index, done) if done < total else Position(index + 1, 0))
        if stop:
            self.fabric.barrier()  # no process ends before the first has saved
            where = f"{stage.name} step {done} of {total}"
            raise RunInterruptedError(f"stopped at {where}; saved. Resume with: {resume_call(self.folder.path)}")

    def _step(self, index: int, step: int) -> None:
        stage, total, per_epoch = self.stages[index], self.totals[index], self.epoch_steps[index]
        self.data.reseed(index, step)
        if step % per_epoch == 0 and stage.each_epoch:
            stage.each_epoch(self.data, step // per_epoch)
            share_memory(self.fabric, self.method)
            if stage.draw:
                stage.draw(self.data)
        by_epoch = self.settings.progress_by == "epoch"
        progress = (step // per_epoch * per_epoch if by_epoch else step) / total
        self.lr_factor = schedule_factor(stage.settings, step, progress)
        set_learning_rate(self.optimizer.param_groups, self.lr_factor)
        self.data.load(index, step, progress, stage.kind(progress) if stage.kind else "")
        self.step()
        self.recorder.add(self.step.images, step + 1)
        if self.forecast and (line := self.forecast.step(index)):
            self.recorder.display.note(line)

    def _forecast(self) -> Forecast | None:
        """Of the steps that are left."""
        if not self.costs or not all(self.costs):
            return None
        stage, step = self.saved.position.stage, self.saved.position.step
        left = [0 if i < stage else total - step * (i == stage) for i, total in enumerate(self.totals)]
        pretrained = self.settings.weights != "none" and self.settings.backbone != "mlp"
        return Forecast(self.costs, left, self.fabric.device, self.settings.train == "head", pretrained)

    def _capture(self, stage: Stage) -> Capture:
        """What of this stage's steps a CUDA graph can hold. With several processes DDP's hooks forbid whole steps."""
        if self.settings.graph == "off" or self.fabric.device.type != "cuda":
            return "nothing"
        whole = self.settings.graph == "auto" and self.fabric.world_size == 1
        capture: Capture = "network" if stage.capture == "step" and not whole else stage.capture
        return "nothing" if capture == "network" and self.settings.train == "head" else capture

    def _asked_to_stop(self, in_step: bool) -> bool:
        """Checked after every step by a single process; by several, only where all of them report together."""
        if self.fabric.world_size == 1:
            return self.guard.requested
        return in_step and any_process(self.fabric, self.guard.requested)

    def _report(self, index: int, done: int, epoch_ends: bool) -> None:
        place = {
            "stage": self.stages[index].name,
            "epoch": (done - 1) // self.epoch_steps[index] + 1,
            "step": done,
            "global_step": self._global(Position(index, done)),
        }
        pseudo_classes = self.method.pseudo_classes() if index == len(self.stages) - 1 else None
        rate = self.stages[index].settings.lr * self.lr_factor
        broken = self.recorder.report(place, rate, pseudo_classes, epoch_ends=epoch_ends)
        if broken:
            self._stop_on_nan(index, done, broken)

    def _save(self, position: Position) -> None:
        if not all_finite(list(self.method.parameters())):
            self._stop_on_nan(position.stage, position.step, ["weights"])
        if self.fabric.is_global_zero:
            optimizer = self.optimizer.state_dict() if position.step else None
            states = {"method": self.method.state_dict(), "optimizer": optimizer, "fingerprint": self.fingerprint}
            states |= {"readings": self.step.meter.state(), "rows": self.recorder.rows}
            self.folder.write_checkpoint(asdict(position) | states)
        self.saved_at = time.monotonic()

    def _stop_on_nan(self, index: int, done: int, broken: list[str]) -> NoReturn:
        stage = self.stages[min(index, len(self.stages) - 1)]
        rates = {"lr": self.settings.lr} | {k: v for k, v in vars(self.method.params).items() if k.endswith("_lr")}
        knob = next((name for name, rate in rates.items() if rate == stage.settings.lr), "lr")
        kept = f"the last good checkpoint is {self.checkpoint}" if self.checkpoint.exists() else "no checkpoint yet"
        raise UserError(
            f"{', '.join(broken)} became NaN or infinite by step {done} of {stage.name}; {kept}. Try a lower learning "
            f"rate ({Setting(knob, float(f'{rates[knob] / 10:g}'))}) or {Setting('precision', 'fp32')}, in a new "
            f"{Setting('out')}"
        )

    @staticmethod
    def _length(settings: Settings, per_epoch: int) -> int:
        steps = settings.steps or settings.epochs * per_epoch
        return min(steps, settings.max_steps) if settings.max_steps else steps

    def _global(self, position: Position) -> int:
        return sum(self.totals[: position.stage]) + position.step


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Train on a stream of its own: what is captured must not depend on the default stream."""
    if device.type != "cuda":
        yield
        return
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        torch.cuda.current_stream(device).wait_stream(stream)

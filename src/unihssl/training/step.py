"""One training step on the device: run eagerly, or captured once as CUDA graphs and replayed.

A ResNet-50 step is a thousand kernel launches, which take the host longer than the kernels take the GPU; a graph is
one launch. `PairedData.load` writes what changes between steps to fixed places before each step.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from unihssl.data.batches import PairedBatch, PairedData
from unihssl.methods.base import Capture, Losses, Method
from unihssl.training.distributed import AverageStatistics
from unihssl.training.fabric import Fabric
from unihssl.training.log import Meter
from unihssl.training.replay import ReplayedEncoders

WARM_UP = 3  # eager steps, so that memory and library handles are there before capture


class Step:
    """Calling it takes one step on the loaded batch; the readings go to `meter`."""

    def __init__(
        self,
        fabric: Fabric,
        module: nn.Module,
        method: Method[Any],
        optimizer: torch.optim.Optimizer,
        data: PairedData,
        step: Callable[[PairedBatch], Losses],
        capture: Capture,
        note: Callable[[str], None],
    ) -> None:
        """`note` shows the user a message: once, if capture was asked for and is not possible."""
        self.fabric, self.module, self.method, self.optimizer = fabric, module, method, optimizer
        self.data, self.step = data, step
        self.meter = Meter()
        self.average_statistics = AverageStatistics(fabric, method)
        self.images = 0  # fetched for a step, over all processes
        self.note = note
        self._capture, self._to_warm_up = capture, WARM_UP
        self._graph: torch.cuda.CUDAGraph | None = None
        self._encoders: ReplayedEncoders | None = None
        self._kind = ""  # of the steps that are captured

    def __call__(self) -> None:
        if self.data.kind != self._kind:
            if self._encoders and not self._encoders.parts:
                self._capture = "nothing"  # as the user was told
            self._kind, self._to_warm_up, self._graph = self.data.kind, WARM_UP, None
            self.close()
        if self._to_warm_up:
            self._to_warm_up -= 1
            last = self._to_warm_up == 0
            self._run_checking_sync() if last and self._capture == "step" else self._run()
            return
        if self._capture == "step" and not self._graph:
            self._try_to_capture()
        if self._capture == "network" and not self._encoders:
            self.data.settle()  # while a graph is captured no thread may call CUDA
            self._encoders = ReplayedEncoders(self.method, self.note)
        self._graph.replay() if self._graph else self._run()

    def close(self) -> None:
        """Remove what replaces the encoders' forward passes."""
        if self._encoders:
            self._encoders.release()
            self._encoders = None

    def _run(self) -> None:
        if self._encoders:
            self._encoders.begin_step()
        batch = self.data.batch()
        loss, readings = self.module(self.step, batch)
        self.fabric.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.average_statistics()
        self.method.after_step()
        self.meter.add(readings)
        self.images = batch.images

    def _run_checking_sync(self) -> None:
        """Look for synchronisation, which no graph can hold; if there is any, capture only the network."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                self._run()
            finally:
                torch.cuda.set_sync_debug_mode("default")
        for warning in caught:
            if "called a synchronizing" in str(warning.message):
                self._fall_back_to(
                    "network", "the method's step waits for the GPU; only passes through the network are replayed"
                )
            elif "Synchronization debug mode" not in str(warning.message):
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)

    def _try_to_capture(self) -> None:
        try:
            self._graph = self._captured()
        except RuntimeError as error:  # too little memory for a graph, or a synchronisation that did not show before
            self.optimizer.zero_grad()
            self._fall_back_to("nothing", str(error).partition("\n")[0])

    def _fall_back_to(self, capture: Capture, reason: str) -> None:
        if self._capture != capture:
            self.note(f"steps are not replayed as a CUDA graph, which is slower: {reason}")
        self._capture = capture

    def _captured(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        for generator in self.data.random.generators:
            graph.register_generator_state(generator)
        # The prefetching thread may call CUDA meanwhile, which only a capture local to this thread allows.
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
            self._run()
        return graph

"""One training step on the device: run as it is, or captured once as CUDA graphs and replayed.

A ResNet-50 step is a thousand kernel launches, which take the host longer than the kernels take the GPU; a graph is
one launch. What changes between steps lies in fixed places that `PairedData.load` writes before each step.
"""

import warnings
from collections.abc import Callable

import torch
from torch import nn

from unihssl.data.batches import PairedBatch, PairedData
from unihssl.methods.base import Capture, Losses, Method
from unihssl.training.distributed import AverageStatistics
from unihssl.training.log import Meter
from unihssl.training.replay import ReplayedEncoders
from unihssl.training.setup import Fabric

WARM_UP = 3  # steps run as they are, so that memory and library handles are there before capture


class Step:
    """Calling it takes one step on the batch that was loaded; the readings go to `meter`."""

    def __init__(
        self,
        fabric: Fabric,
        module: nn.Module,
        method: Method,
        optimizer: torch.optim.Optimizer,
        data: PairedData,
        step: Callable[[PairedBatch], Losses],
        capture: Capture,
        note: Callable[[str], None],
    ) -> None:
        """`note` tells the user, once, where capture was wanted and cannot be had."""
        self.fabric, self.module, self.method, self.optimizer = fabric, module, method, optimizer
        self.data, self.step = data, step
        self.meter = Meter()
        self.average_statistics = AverageStatistics(fabric, method)
        self.images = 0  # fetched for a step, over all processes
        self.note = note
        self._capture, self._to_warm_up = capture, WARM_UP
        self._graph: torch.cuda.CUDAGraph | None = None
        self._encoders: ReplayedEncoders | None = None

    def __call__(self) -> None:
        if self._to_warm_up:
            self._to_warm_up -= 1
            last = self._to_warm_up == 0
            self._run_watched() if last and self._capture == "step" else self._run()
            return
        if self._capture == "step" and not self._graph:
            self._try_to_capture()
        if self._capture == "network" and not self._encoders:
            self.data.settle()  # while a graph is captured no thread may call CUDA
            self._encoders = ReplayedEncoders(self.method, self.note)
        self._graph.replay() if self._graph else self._run()

    def close(self) -> None:
        """No more steps: the network is what it was before."""
        if self._encoders:
            self._encoders.release()

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

    def _run_watched(self) -> None:
        """No graph can hold what makes the host wait for the GPU: do with graphs of the network if anything does."""
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                self._run()
            finally:
                torch.cuda.set_sync_debug_mode("default")
        for warning in seen:
            if "called a synchronizing" in str(warning.message):
                self._do_with("network", "its step waits for the GPU, so that only passes through the network are")
            elif "Synchronization debug mode" not in str(warning.message):
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)

    def _try_to_capture(self) -> None:
        try:
            self._graph = self._captured()
        except RuntimeError as error:  # not enough memory for a graph's own, or a wait that the watched step had not
            self.optimizer.zero_grad()
            self._do_with("nothing", str(error).partition("\n")[0])

    def _do_with(self, capture: Capture, reason: str) -> None:
        if self._capture != capture:
            self.note(f"steps are not replayed as a CUDA graph, which is slower: {reason}")
        self._capture = capture

    def _captured(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.data.random.generator)
        # The feed's thread may call CUDA meanwhile, which only a capture local to this thread allows.
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
            self._run()
        return graph

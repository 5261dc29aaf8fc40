"""The network's part of a training step as CUDA graphs, for steps that cannot be captured whole.

Most of what the host launches in a step are the encoder's forward and backward passes. Its larger parts are replayed
one by one, not the encoder at once: their gradients come one after the other, so that DDP can send the first while the
next are computed. (On one H200 that costs 1% of a ResNet-50 step.)
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from unihssl.models.classifier import Classifier


class ReplayedEncoders:
    """Captures the training passes of one step, the first after `begin_step`, and replays them in those that follow.

    A pass of another shape, and one in evaluation mode or without gradients, runs as it is.
    """

    def __init__(self, method: nn.Module, note: Callable[[str], None]) -> None:
        """`note` tells the user, once, if there is something that cannot be captured."""
        encoders = [part.encoder for part in method.modules() if isinstance(part, Classifier)]
        self.parts = [_Part(part) for encoder in encoders for part in encoder.children() if _worthwhile(part)]
        self.note = note
        self.recorded = False
        # What takes in a weight's gradient belongs to the stream it is made on: this one, if made now and kept (as DDP
        # does), not the one that captures, for which every step would have to wait.
        weights = [weight for part in self.parts for weight in part.module.parameters() if weight.requires_grad]
        self._gradients = [torch.autograd.graph.get_gradient_edge(weight) for weight in weights]

    def begin_step(self) -> None:
        failures = [part.failure for part in self.parts if part.failure]
        if failures:
            self.note(f"the network's passes are not replayed as CUDA graphs, which is slower: {failures[0]}")
            self.release()
        for part in self.parts:
            part.begin_step(record=not self.recorded)
        self.recorded = True

    def release(self) -> None:
        """Let the encoders be what they were."""
        for part in self.parts:
            part.release()
        self.parts = []


def _worthwhile(part: nn.Module) -> bool:
    """Several layers with weights, none of which talks to other processes: that has not been tried within a graph."""
    alone = not any(isinstance(layer, nn.SyncBatchNorm) for layer in part.modules())
    return alone and any(True for _ in part.children()) and any(True for _ in part.parameters())


class _Part:
    """Stands in for the forward pass of a part of an encoder; each of its calls in a step has a graph of its own."""

    def __init__(self, module: nn.Module) -> None:
        self.module, self.plain = module, module.forward
        self.passes: list[tuple[torch.Size, Callable[[Tensor], Any]]] = []
        self.failure = ""
        module.forward = self

    def begin_step(self, record: bool) -> None:
        self.record, self.calls = record, 0

    def release(self) -> None:
        del self.module.forward  # the instance's: the class's own is left
        self.passes = []

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        simple = len(arguments) == 1 and isinstance(arguments[0], Tensor) and not named
        if not (simple and self.module.training and torch.is_grad_enabled()):
            return self.plain(*arguments, **named)
        x: Tensor = arguments[0]
        if self.record and not self.failure:
            self._capture(x)
        self.calls += 1
        if self.calls <= len(self.passes):
            shape, replay = self.passes[self.calls - 1]
            if x.shape == shape:
                return replay(x)
        return self.plain(x)

    def _capture(self, x: Tensor) -> None:
        """What the trial runs change is put back: BatchNorm's statistics and the random numbers' position."""
        buffers = [(buffer, buffer.clone()) for buffer in self.module.buffers()]
        kind = x.device.type
        # An input that needs a gradient cannot be overwritten by the trial runs, and need not be copied for each replay
        # if it is another graph's output.
        sample = x.detach().requires_grad_() if x.requires_grad else x.clone()
        try:
            with (
                warnings.catch_warnings(),
                torch.random.fork_rng([x.device]),
                torch.autocast(kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind), False),
            ):
                warnings.filterwarnings("ignore", "The AccumulateGrad node's stream")  # of the trial runs, rightly
                graphed = torch.cuda.make_graphed_callables(
                    _Plain(self.module, self.plain), (sample,), allow_unused_input=True
                )
            self.passes.append((x.shape, graphed))
        except RuntimeError as error:  # not enough memory, or something that makes the host wait for the GPU
            self.failure = str(error).splitlines()[0]
        for buffer, before in buffers:
            buffer.copy_(before)


class _Plain(nn.Module):
    """A part with its own forward pass and none of its hooks, which run around the replayed one, too."""

    def __init__(self, module: nn.Module, forward: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.module, self.plain = module, forward

    def forward(self, x: Tensor) -> Any:
        return self.plain(x)

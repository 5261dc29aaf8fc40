"""The network's passes as CUDA graphs, for training steps that cannot be captured whole.

Most of a step's kernel launches are the encoder's forward and backward passes. Its larger parts, such as a ResNet's
four layers, are captured one by one: their gradients then arrive one after the other, and DDP can send the first while
the next are computed. (On one H200 that costs 1% of a ResNet-50 step.)
"""

import gc
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unihssl.models.classifier import Classifier


class ReplayedEncoders:
    """Captures the encoders' training passes during one step and replays them in all later steps.

    `begin_step` must be called before each step; the first step is the captured one. Passes of another shape or type,
    in evaluation mode or without gradients run eagerly. A pass can be differentiated once.
    """

    def __init__(self, method: nn.Module, note: Callable[[str], None]) -> None:
        """`note` shows the user a message: once, if nothing can be replayed, and why."""
        encoders = (part.encoder for part in method.modules() if isinstance(part, Classifier))
        found = dict.fromkeys(part for encoder in encoders for part in _large_parts(encoder))
        inner = {module for part in found for module in part.modules() if module is not part}
        alone = [part for part in found if part not in inner and not _communicates(part)]
        self.failures = [] if alone else ["its BatchNorm is synchronised" if found else "it has no large parts"]
        self.parts = [_Part(part, self.failures) for part in alone]
        self.note, self.steps = note, 0
        # A weight's gradient accumulator belongs to the stream that creates it. Create and keep it here (as DDP does),
        # not on the capturing stream, for which every step would then have to wait.
        weights = [weight for part in self.parts for weight in part.module.parameters() if weight.requires_grad]
        self._gradients = [torch.autograd.graph.get_gradient_edge(weight) for weight in weights]

    def begin_step(self) -> None:
        if self.steps == 1 and self.parts and not any(part.passes for part in self.parts):
            self.failures.append("no large part of it takes one tensor")
        if self.failures:
            reason = self.failures[0]
            self.note(f"passes through the network are not replayed as CUDA graphs, which is slower: {reason}")
            self.release()
            self.failures.clear()
        for part in self.parts:
            part.begin_step(record=self.steps == 0)
        self.steps += 1

    def release(self) -> None:
        """Restore the encoders, and free the graphs' memory."""
        for part in self.parts:
            part.release()
        self.parts, self._gradients = [], []
        gc.collect()  # torch's graphed passes refer to themselves


def _large_parts(module: nn.Module) -> Iterator[nn.Module]:
    """Children with more than one layer of weights; a ModuleList is never called itself, so its members are taken."""
    for child in module.children():
        if isinstance(child, nn.ModuleList):
            yield from _large_parts(child)
        elif sum(bool(layer._parameters) for layer in child.modules()) > 1:
            yield child


def _communicates(part: nn.Module) -> bool:
    """Whether it exchanges data with other processes, which has not been tested within a graph."""
    return any(isinstance(layer, nn.SyncBatchNorm) for layer in part.modules())


class _Kind(NamedTuple):
    """What a pass must have in common with the captured one to be replayed."""

    shape: torch.Size
    dtype: torch.dtype
    needs_gradient: bool
    autocast: bool


class _Part:
    """Replaces the forward pass of a part of an encoder; each call in a step has a graph of its own."""

    def __init__(self, module: nn.Module, failures: list[str]) -> None:
        """`failures` is shared by all parts: once it has an entry, no part captures anything more."""
        self.module, self.plain, self.failures = module, module.forward, failures
        self.passes: list[tuple[_Kind, Callable[[Tensor], Any]]] = []
        self.record, self.calls = False, 0
        self._before = vars(module).get("forward")
        module.forward = self

    def begin_step(self, record: bool) -> None:
        self.record, self.calls = record, 0

    def release(self) -> None:
        del self.module.forward
        if self._before:
            self.module.forward = self._before
        self.passes = []

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        simple = len(arguments) == 1 and isinstance(arguments[0], Tensor) and not named
        if not (simple and self.module.training and torch.is_grad_enabled()):
            return self.plain(*arguments, **named)
        x: Tensor = arguments[0]
        kind = _Kind(x.shape, x.dtype, x.requires_grad, torch.is_autocast_enabled(x.device.type))
        if self.record and not self.failures:
            self._capture(x, kind)
        self.calls += 1
        known, replay = self.passes[self.calls - 1] if self.calls <= len(self.passes) else (None, self.plain)
        return replay(x) if kind == known else self.plain(x)

    def _capture(self, x: Tensor, kind: _Kind) -> None:
        """Capture a pass. Trial runs change BatchNorm's statistics and the random state; both are restored."""
        buffers = [(buffer, buffer.clone()) for buffer in self.module.buffers()]
        device, stream = x.device.type, torch.cuda.current_stream()
        # An input that needs a gradient is not cloned: trial runs cannot overwrite it, and a replay need not copy it if
        # it is another graph's output, which stays in the same memory.
        sample = x.detach().requires_grad_() if x.requires_grad else x.clone()
        try:
            with (
                warnings.catch_warnings(),
                torch.random.fork_rng([x.device]),
                torch.autocast(device, torch.get_autocast_dtype(device), kind.autocast, cache_enabled=False),
            ):
                warnings.filterwarnings("ignore", "The AccumulateGrad node's stream")  # of the trial runs, rightly
                self._try(sample)
                part = _Plain(self.module, self.plain)
                self.passes.append((kind, torch.cuda.make_graphed_callables(part, (sample,), allow_unused_input=True)))
        except Exception as error:  # too little memory, or a network that no graph can hold: it runs eagerly
            self.failures.append((str(error) or type(error).__name__).partition("\n")[0])
        finally:
            torch.cuda.set_stream(stream)  # a failed capture leaves its own stream behind
            for buffer, before in buffers:
                buffer.copy_(before)

    def _try(self, x: Tensor) -> None:
        """Raise an error if the pass synchronises with the GPU: a capture would fail too, and leave traces."""
        warnings.filterwarnings("ignore", "Synchronization debug mode")
        torch.cuda.set_sync_debug_mode("error")
        try:
            out = self.plain(x)
            if not isinstance(out, Tensor):
                raise TypeError("a part of it gives more than one tensor")
            inputs = [tensor for tensor in (x, *self.module.parameters()) if tensor.requires_grad]
            if out.requires_grad:
                torch.autograd.grad(out, inputs, torch.ones_like(out), allow_unused=True)
        finally:
            torch.cuda.set_sync_debug_mode("default")


class _Plain(nn.Module):
    """A part's forward pass without its hooks, which also run around the replayed pass."""

    def __init__(self, module: nn.Module, forward: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.module, self.plain = module, forward

    def forward(self, x: Tensor) -> Any:
        return self.plain(x)

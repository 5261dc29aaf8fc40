"""Copying batches from host memory or the disk to the GPU while the GPU trains on the batch before."""

from collections.abc import Hashable
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor


class Prefetcher:
    """Copies rows of a store (N, ...) on the host to one fixed buffer `images` (batch, ...) on the GPU.

    A thread gathers the rows into a pinned buffer and copies it on a stream of its own. The training stream waits for
    that copy on the device, never on the host. Only this buffer is pinned, not the store: gathering copies anyway,
    and pinned memory is lost to all other programs.
    """

    def __init__(self, samples: Tensor, batch: int, device: torch.device) -> None:
        self.samples, self.device = samples, device
        shape = (batch, *samples.shape[1:])
        self.images = torch.empty(shape, dtype=samples.dtype, device=device)  # what a training step reads
        self._staged = torch.empty(shape, dtype=samples.dtype, pin_memory=True)
        self._arrived = torch.empty_like(self.images)
        self._copying = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._copied, self._taken = torch.cuda.Event(), torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._thread = ThreadPoolExecutor(1, "prefetch")
        self._next: tuple[Hashable, Future[None]] | None = None

    def load(self, key: Hashable, rows: Tensor, next_key: Hashable, next_rows: Tensor) -> None:
        """Put these rows into `images` and start loading the next. Keys tell whether rows were requested before."""
        if self._next is None or self._next[0] != key:
            self._request(key, rows)
        assert self._next is not None
        self._next[1].result()
        current = torch.cuda.current_stream(self.device)
        current.wait_event(self._copied)
        self.images.copy_(self._arrived)
        self._taken.record(current)
        self._request(next_key, next_rows)

    def settle(self) -> None:
        """Wait until the thread is idle."""
        if self._next is not None:
            self._next[1].result()

    def _request(self, key: Hashable, rows: Tensor) -> None:
        self.settle()
        self._next = key, self._thread.submit(self._gather, rows)

    def _gather(self, rows: Tensor) -> None:
        self._copied.synchronize()  # the pinned buffer may still be being copied
        torch.index_select(self.samples, 0, rows, out=self._staged)
        with torch.cuda.stream(self._copying):
            self._copying.wait_event(self._taken)
            self._arrived.copy_(self._staged, non_blocking=True)
            self._copied.record(self._copying)

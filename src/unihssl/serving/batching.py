"""Micro-batches across requests: what has arrived while the model was busy is its next batch."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

Given = TypeVar("Given")
Found = TypeVar("Found")


class Batcher(Generic[Given, Found]):
    """Calls `work` in a thread, on at most `size` items at once, one call after the other.

    >>> batcher = Batcher(lambda items: [2 * item for item in items], ThreadPoolExecutor(1), size=32)
    >>> await batcher(3)
    6
    """

    def __init__(self, work: Callable[[Sequence[Given]], Sequence[Found]], thread: Executor, size: int) -> None:
        self._work, self._thread, self._size = work, thread, size
        self._waiting: deque[tuple[Given, asyncio.Future[Found]]] = deque()
        self._runner: asyncio.Task[None] | None = None

    async def __call__(self, item: Given) -> Found:
        future: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._waiting:
            taken = [self._waiting.popleft() for _ in range(min(self._size, len(self._waiting)))]
            batch = [(item, future) for item, future in taken if not future.done()]  # some may have been given up
            if not batch:
                continue
            try:
                items = [item for item, _ in batch]
                found = await asyncio.get_running_loop().run_in_executor(self._thread, self._work, items)
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), result in zip(batch, found, strict=True):
                if not future.done():
                    future.set_result(result)

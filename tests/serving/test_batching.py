"""What waits while the model works is one batch."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from unihssl.serving.batching import Batcher


def test_batches_across_callers():
    sizes: list[int] = []
    busy, go_on = threading.Event(), threading.Event()

    def work(items: Sequence[int]) -> list[int]:
        sizes.append(len(items))
        busy.set()
        assert go_on.wait(60)
        if -1 in items:
            raise ValueError("bad")
        return [2 * item for item in items]

    async def talk() -> None:
        with ThreadPoolExecutor(1) as thread:
            batcher = Batcher(work, thread, size=4)
            tasks = [asyncio.create_task(batcher(1))]
            await asyncio.get_running_loop().run_in_executor(None, busy.wait, 60)
            tasks += [asyncio.create_task(batcher(item)) for item in (2, 3, 4, 5, 6, -1)]
            await asyncio.sleep(0)
            tasks[2].cancel()  # a caller that has given up
            await asyncio.sleep(0)
            go_on.set()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            assert found[:2] + found[3:5] == [2, 4, 8, 10]
            assert isinstance(found[2], asyncio.CancelledError)
            for failed in found[5:]:
                with pytest.raises(ValueError, match="bad"):
                    raise failed
            assert await batcher(7) == 14

    asyncio.run(talk())
    assert sizes == [1, 3, 2, 1]

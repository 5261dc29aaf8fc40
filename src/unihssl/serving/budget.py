"""How many bytes the service holds for all its clients together."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import Gauge

from unihssl.serving.limits import RefusedError


class Budget:
    """`gauge` shows what is taken of it."""

    def __init__(self, most: int, gauge: Gauge) -> None:
        self._most, self._gauge, self._held = most, gauge, 0

    def take(self, size: int) -> None:
        if self._held + size > self._most:
            raise RefusedError(503, "too many bytes are on their way already: try again soon")
        self._change(size)

    def give_back(self, size: int) -> None:
        self._change(-size)

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        self.take(size)
        try:
            yield
        finally:
            self.give_back(size)

    def _change(self, size: int) -> None:
        self._held += size
        self._gauge.set(self._held)

"""Runs on the embedded digits, and a launcher that needs no process, for tests of grids."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from unihssl.data import catalog
from unihssl.experiments.designs import benchmark_runs
from unihssl.experiments.protocol import Protocol
from unihssl.experiments.runner import Run

LOAD = Protocol(catalog.get("digits")).loader


def digit_runs(names: list[str], seeds: int, knobs: dict[str, Any]) -> list[Run]:
    return benchmark_runs(Protocol(catalog.get("digits"), asked=knobs), ["mnist/uci"], names, seeds)


class Here:
    """Runs in this process, which spares five seconds to start another."""

    workers = 1

    def launch(self, function: Callable[[Any, int], Any], tasks: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        for task in tasks:
            try:
                outcome = function(task, 1)
            except Exception as error:
                outcome = error
            yield task, outcome

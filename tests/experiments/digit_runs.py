"""Runs on the embedded digits, for tests of grids."""

from typing import Any

from unihssl.data import catalog
from unihssl.experiments.grid import Run
from unihssl.experiments.grids import benchmark_runs
from unihssl.experiments.protocol import Protocol

LOAD = Protocol(catalog.get("digits")).loader


def digit_runs(names: list[str], seeds: int, knobs: dict[str, Any]) -> list[Run]:
    return benchmark_runs(Protocol(catalog.get("digits"), asked=knobs), ["mnist/uci"], names, seeds)

"""What the benchmarks share: synthetic domains, clocks, tables and JSON."""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from unihssl.environment import commit
from unihssl.files import write_text


def random_images(count: int, side: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, side, side, 3), dtype=np.uint8)


def milliseconds(step: Callable[[], object], repeats: int = 50, warm_up: int = 10, rounds: int = 5) -> float:
    """Median over rounds of the mean time of a step; the device is waited for once a round."""
    for _ in range(warm_up):
        step()
    times = []
    for _ in range(rounds):
        wait()
        start = time.perf_counter()
        for _ in range(repeats // rounds):
            step()
        wait()
        times.append((time.perf_counter() - start) / (repeats // rounds))
    return 1e3 * statistics.median(times)


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def captured(step: Callable[[], object], generators: Sequence[torch.Generator] = ()) -> Callable[[], None]:
    """The step as a CUDA graph; call it to replay."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
        for generator in generators:
            graph.register_generator_state(generator)
        with torch.cuda.graph(graph, stream=stream):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    return graph.replay


def report(name: str, rows: Sequence[Mapping[str, Any]], arguments: argparse.Namespace) -> None:
    """Print a table and, with --json, add the rows to a file, with the command's arguments, machine and commit."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(*columns, title=name, title_justify="left")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    Console(width=160).print(table)
    if arguments.json:
        content = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
        given = {key: str(value) for key, value in vars(arguments).items() if key != "json"}
        content[name] = {"rows": list(rows), "arguments": given, "machine": machine(), "commit": commit()}
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        write_text(arguments.json, json.dumps(content, indent=2) + "\n")


def machine() -> dict[str, Any]:
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"gpu": gpu, "cpu": platform.machine(), "cores": os.cpu_count(), "torch": torch.__version__}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)

"""Does `unihssl serve` stand up to bad clients, and what does it cost beside bare onnxruntime?

First, 50 clients send good, huge, chunked, slow, corrupt and hostile requests at once: every good one must be answered,
every bad one refused with its own status, while memory and temporary files are watched. Then, throughput: a loop over
decoded images in bare onnxruntime and the service with some clients take turns on the first half of the CPUs, with as
many threads each; the clients have the other half. Only the ratios mean anything.
"""

import argparse
import http.client
import io
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
import torch
from clients import BAD, GOOD, MOST, Client, jpeg
from common import report

from export import random_model
from unihssl.data.images import load_square
from unihssl.export.files import onnx_run

SIDE = 256  # of stored images
WAIT = 5  # seconds for a request to arrive


@contextmanager
def service(
    model: Path, folder: Path, cpus: set[int] | None = None
) -> Iterator[tuple[subprocess.Popen[str], tuple[str, int]]]:
    """The running command and its address; its temporary files go into the folder."""
    command = [sys.executable, "-m", "unihssl", "serve", str(model), "--port", "0", "--device", "cpu"]
    command += ["--max-mb", str(MOST / 1e6), "--timeout", str(WAIT)]
    with on_cpus(cpus or os.sched_getaffinity(0)):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(folder)})
    try:
        assert process.stdout is not None
        found = re.search(r"http://(.*):(\d+)/", process.stdout.readline())
        assert found, "the service did not start"
        yield process, (found[1], int(found[2]))
    finally:
        process.terminate()
        process.wait()


@contextmanager
def on_cpus(chosen: set[int]) -> Iterator[None]:
    """Threads and processes that are begun in here run on these CPUs alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, chosen)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def together(clients: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def speed(model: Path, folder: Path, clients: int, seconds: float, rounds: int) -> list[dict[str, Any]]:
    """Images a second and latency of the service, relative to bare onnxruntime."""
    cpus = sorted(os.sched_getaffinity(0))
    half = max(1, len(cpus) // 2)
    first, others = set(cpus[:half]), set(cpus[half:] or cpus)
    with on_cpus(first):
        torch.set_num_threads(half)
        run = onnx_run(model)
    pixels = np.stack([load_square(io.BytesIO(jpeg(seed)), SIDE, SIDE) for seed in range(16)])
    found: dict[str, list[float]] = defaultdict(list)

    def bare(batch: int) -> tuple[float, float]:
        """Images a second, and seconds of processor time for one."""
        with on_cpus(first):
            begin, used, done = time.perf_counter(), time.process_time(), 0
            while time.perf_counter() - begin < seconds:
                run(pixels[:batch])
                done += batch
        return done / (time.perf_counter() - begin), (time.process_time() - used) / done

    def served(count: int) -> tuple[float, float, float]:
        """The same of the service, and the median latency."""
        times: list[float] = []
        begin, used = time.perf_counter(), processor_time(process.pid)

        def work(number: int) -> None:
            client = Client(address, number)
            while time.perf_counter() - begin < seconds:
                start = time.perf_counter()
                assert client.good_file() == 200
                times.append(time.perf_counter() - start)

        with on_cpus(others):
            together(count, work)
        rate = len(times) / (time.perf_counter() - begin)
        return rate, (processor_time(process.pid) - used) / len(times), median(times)

    with service(model, folder, first) as (process, address):
        served(1)
        for _ in range(rounds):
            (one, one_cpu), (sixteen, sixteen_cpu) = bare(1), bare(16)
            rate, cpu, latency = served(clients)
            alone = served(1)[2]
            found["throughput / bare, batches of 1"].append(rate / one)
            found["throughput / bare, batches of 16"].append(rate / sixteen)
            found["processor time of an image / bare, batches of 1"].append(cpu / one_cpu)
            found["processor time of an image / bare, batches of 16"].append(cpu / sixteen_cpu)
            found["latency of one client / bare"].append(alone * one)
            found["latency of all / (clients x bare)"].append(latency * one / clients)
    return [{"ratio": name, "median": median(v), "least": min(v), "most": max(v)} for name, v in found.items()]


def processor_time(pid: int) -> float:
    """Seconds that a process has used; unlike the time on the clock, others on the machine hardly change it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    """MB of memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def siege(model: Path, folder: Path, clients: int, seconds: float) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What became of every kind of request, and memory and temporary files over time."""
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    times: list[float] = []
    memory: list[float] = []
    disk: list[int] = []
    kinds = list(BAD)
    with service(model, folder) as (process, address):
        Client(address, 0).good_file()
        end = time.perf_counter() + seconds

        def work(number: int) -> None:
            client, turn = Client(address, number), number
            mine = list(GOOD) if number % 2 else kinds  # half of the clients are good
            while time.perf_counter() < end:
                kind, begin = mine[turn % len(mine)], time.perf_counter()
                try:
                    answers[kind][str(getattr(client, kind)())] += 1
                except (OSError, http.client.HTTPException, IndexError) as error:
                    answers[kind][type(error).__name__] += 1
                if kind in GOOD:
                    times.append(time.perf_counter() - begin)
                turn += 1

        def watch() -> None:
            while time.perf_counter() < end:
                memory.append(resident(process.pid))
                disk.append(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()))
                time.sleep(0.25)

        watcher = threading.Thread(target=watch)
        watcher.start()
        together(clients, work)
        watcher.join()
    expected = {kind: str(status) for kind, status in (GOOD | BAD).items()}
    rows = [
        {"request": kind, "expected": expected[kind], "sent": found.total(), "as expected": found[expected[kind]],
         "others": " ".join(f"{status}: {n}" for status, n in found.items() if status != expected[kind])}
        for kind, found in sorted(answers.items(), key=lambda item: list(expected).index(item[0]))
    ]  # fmt: skip
    quarter = len(memory) // 4
    watched = {
        "memory at the start, MB": memory[0],
        "median of the second quarter": median(memory[quarter : 2 * quarter]),
        "median of the last": median(memory[-quarter:]),
        "peak": max(memory),
        "temporary files, peak, bytes": max(disk),
        "good answers / s": len(times) / seconds,
        "median seconds": median(times),
        "95th percentile": quantiles(times, n=20)[-1],
    }
    return rows, watched


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="resnet18")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60, help="0: speed alone")
    parser.add_argument("--speed-clients", type=int, default=16)
    parser.add_argument("--speed-seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        path, temporary = Path(name, "model.onnx"), Path(name, "temporary")
        temporary.mkdir()
        model = random_model("unihssl", given.backbone)
        model.stored_size = (SIDE, SIDE)
        model.export(path)
        if given.seconds:
            rows, watched = siege(path, temporary, given.clients, given.seconds)
            report(f"{given.clients} clients, {given.seconds:g} s", rows, given)
            report("the service meanwhile", [{"measured": key, "value": v} for key, v in watched.items()], given)
        ratios = speed(path, temporary, given.speed_clients, given.speed_seconds, given.rounds)
        report(f"{given.speed_clients} clients against bare onnxruntime", ratios, given)

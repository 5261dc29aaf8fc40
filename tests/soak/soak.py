"""Long use: `make soak`. Memory and open files must stay flat, and a grid must come to its end however often it stops.

    python tests/soak/soak.py --runs 200 --predictions 100000 --grid 500 --stops 8

Runs and predictions take place in this process, those of the grid in others, which are stopped by SIGTERM and SIGKILL
in turn and started again. A part whose number is 0 is left out. Every run is of an MLP on 24 vectors.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import unihssl
from unihssl.data.source import Source
from unihssl.experiments.launchers import make_launcher
from unihssl.experiments.results import Role
from unihssl.experiments.runner import Run, run_grid
from unihssl.run_folder import RunFolder

ROWS, CLASSES = 24, 3
KNOBS = {"method": "unihssl", "backbone": "mlp", "pretrain_epochs": 1, "epochs": 1, "batch_size": 8, "device": "cpu"}
KNOBS |= {"checkpoint_seconds": 0, "tensorboard": False, "threads": 1}
MOST_GROWTH = 16.0  # MiB, after the first quarter
MOST_SECONDS = 1800  # of a grid


def vectors(seed: int) -> tuple[np.ndarray, np.ndarray]:
    y = np.repeat(range(CLASSES), ROWS // CLASSES)
    x = np.random.default_rng(seed).normal(size=(ROWS, 5)) + 3 * np.eye(5)[y] + seed / 2
    return x.astype(np.float32), y


def load_pair(pair: str) -> tuple[Source, Source]:
    names = list(map(str, range(ROWS)))
    (x, y), (other, _) = vectors(0), vectors(1)
    return Source("labeled", x, names, y.tolist()), Source("unlabeled", other, names, [None] * ROWS)


def usage() -> tuple[float, int]:
    """This process's memory in MiB, and how many files it has open."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(list(Path("/proc/self/fd").iterdir()))


def repeated(what: str, count: int, act: Callable[[int], object]) -> list[str]:
    """Act so many times; what is wrong with memory and open files at the end, against the first quarter."""
    begun, first = time.monotonic(), (0.0, 0)
    for number in range(count):
        act(number)
        if number == count // 4:
            first = usage()
    last = usage()
    seconds = time.monotonic() - begun
    print(f"{count:,} {what} in {seconds:.0f} s: {first[0]:.1f} MiB and {first[1]} files after a quarter, ", end="")
    print(f"{last[0]:.1f} MiB and {last[1]} files at the end", flush=True)
    grown = [f"{what}: memory grew by {last[0] - first[0]:.1f} MiB"] if last[0] - first[0] > MOST_GROWTH else []
    return grown + ([f"{what}: {last[1] - first[1]} files were left open"] if last[1] > first[1] else [])


def check_runs(count: int, folder: Path) -> list[str]:
    def act(number: int) -> None:
        unihssl.fit(vectors(0), vectors(1)[0], folder / "run", seed=number, **KNOBS)
        shutil.rmtree(folder / "run")

    return repeated("runs", count, act)


def check_predictions(count: int) -> list[str]:
    x, _ = vectors(0)
    model = unihssl.fit(vectors(0), vectors(1)[0], **KNOBS)
    expected, wrong = model.predict_proba(x), []

    def act(number: int) -> None:
        row = number % ROWS
        if not np.allclose(model.predict_proba(x[row : row + 1])[0], expected[row], atol=1e-5):
            wrong.append(f"predictions: number {number} is another than the first")

    return repeated("predictions", count, act) + wrong[:1]


def grid(count: int, out: Path) -> None:
    """Runs of a grid that are not finished yet, as `unihssl benchmark` trains them."""
    role = (Role("benchmark", "unihssl"),)
    runs = [Run("a/b", KNOBS | {"seed": seed}, dataset="vectors", roles=role) for seed in range(count)]
    failures = [run.failure for run in run_grid(runs, load_pair, out, make_launcher("local", 1)) if run.failure]
    sys.exit("\n".join(failures) or 0)


def finished(out: Path) -> list[Path]:
    return sorted(path.parent for path in out.glob("*/result.json"))


def check_grid(count: int, stops: int, folder: Path) -> list[str]:
    """Stop a grid again and again, then let it end; some of its runs are compared with those of an undisturbed one."""
    begun, out, few = time.monotonic(), folder / "grid", min(count, 5)
    for stop in range(stops + 1):
        enough = count if stop == stops else (stop + 1) * count // (stops + 1)
        process = _start(count, out)
        while len(finished(out)) < enough and process.poll() is None and time.monotonic() - begun < MOST_SECONDS:
            time.sleep(0.2)
        if stop < stops:
            process.send_signal((signal.SIGTERM, signal.SIGKILL)[stop % 2])
        process.wait(MOST_SECONDS)
    wrong = [f"grid: it ended with exit code {process.returncode}"] if process.returncode else []
    assert _start(few, folder / "whole").wait(MOST_SECONDS) == 0
    done = finished(out)
    wrong += [f"grid: {len(done)} of {count} runs are finished"] if len(done) != count else []
    wrong += [f"grid: {path} kept its checkpoint" for path in done if RunFolder(path).checkpoint.exists()]
    for path in finished(folder / "whole"):
        for name in ("result.json", "model.safetensors", "run.json"):
            if (path / name).read_bytes() != (out / path.name / name).read_bytes():
                wrong.append(f"grid: {path.name}/{name} is not that of an undisturbed run")
    print(f"a grid of {len(done)} runs, stopped {stops} times, in {time.monotonic() - begun:.0f} s", flush=True)
    return wrong


def _start(count: int, out: Path) -> subprocess.Popen[bytes]:
    call = [sys.executable, __file__, "--grid", str(count), "--continue-in", str(out)]
    return subprocess.Popen(call, stderr=subprocess.DEVNULL)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=200)
    options.add_argument("--predictions", type=int, default=100_000)
    options.add_argument("--grid", type=int, default=500)
    options.add_argument("--stops", type=int, default=8)
    options.add_argument("--continue-in", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    if given.continue_in:
        grid(given.grid, given.continue_in)
    with tempfile.TemporaryDirectory() as folder:
        wrong = check_runs(given.runs, Path(folder)) if given.runs else []
        wrong += check_predictions(given.predictions) if given.predictions else []
        wrong += check_grid(given.grid, given.stops, Path(folder)) if given.grid else []
    print("\n".join(wrong) or "nothing grew, nothing was lost")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

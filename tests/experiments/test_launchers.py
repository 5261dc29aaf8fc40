"""Launchers: where runs go, that one which fails or dies is the only one lost, and that none is run twice."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from digit_runs import LOAD, Here, digit_runs

from unihssl.errors import UserError
from unihssl.experiments.launchers import Launcher, ProcessDiedError, make_launcher
from unihssl.experiments.launchers.local import VISIBLE, LocalLauncher, assign_gpus, visible_gpus
from unihssl.experiments.launchers.on_ray import cluster, import_ray, share_cpus, share_gpus, tasks_per_node
from unihssl.experiments.runner import Run, run_grid

LIMIT = 300  # seconds to wait for what should come soon


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # its workers must find the functions of this file
        with cluster(import_ray(), workers=2):
            yield


@pytest.fixture(params=["local", "ray"])
def launcher(request: pytest.FixtureRequest) -> Launcher:
    if request.param == "ray":
        request.getfixturevalue("ray_cluster")
    return make_launcher(request.param, workers=2)


def double_fail_or_die(number: int, concurrent_tasks: int) -> tuple[int, str | None]:
    assert concurrent_tasks == 2  # the workers of the launcher
    if number == 2:
        raise ValueError("two is not for me")
    if number == 3:
        os._exit(9)
    return 2 * number, os.environ.get(VISIBLE)


def test_one_task_that_fails_and_one_that_dies_leave_the_others_alone(launcher, monkeypatch):
    monkeypatch.setenv(VISIBLE, "5,3")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    outcomes = dict(launcher.launch(double_fail_or_die, range(6)))
    assert isinstance(outcomes[2], ValueError) and "two is not for me" in str(outcomes[2])
    assert isinstance(outcomes[3], ProcessDiedError) and "its process died" in str(outcomes[3])
    finished = {number: outcomes[number] for number in (0, 1, 4, 5)}
    assert all(doubled == 2 * number for number, (doubled, _) in finished.items())
    if isinstance(launcher, LocalLauncher):
        assert {gpu for _, gpu in finished.values()} == {"5", "3"}  # each process has its card


def test_a_grid_of_four_runs_names_a_fifth_that_fails_and_repeats_nothing(launcher, tmp_path, monkeypatch):
    good = digit_runs(["supervised", "mcc"], 2, {"max_steps": 2})
    runs = [Run("mnist/nowhere", good[0].knobs), *good]
    monkeypatch.chdir(tmp_path)  # a relative folder must mean the same to the workers
    done = {run.folder(Path()): run for run in run_grid(runs, LOAD, Path("out"), launcher)}
    bad = done.pop(runs[0].folder(Path()))
    assert bad.failure.startswith("digits: no domain 'nowhere'")
    assert len(done) == 4 and all(run.result["pooled"]["n"] for run in done.values())
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*/result.json")}
    assert len(written) == 4
    again = {run.folder(Path()): run for run in run_grid(good, LOAD, tmp_path / "out", launcher)}
    assert again == done
    assert {path: path.stat().st_mtime_ns for path in written} == written


@contextmanager
def started(command: list[str], stderr: int) -> Iterator[subprocess.Popen]:
    """A running command; neither it nor what it started is left behind."""
    with subprocess.Popen(command, start_new_session=True, stderr=stderr, text=True) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_an_interrupted_grid_is_resumed(tmp_path):
    command = [sys.executable, "-m", "unihssl", "benchmark", "digits", "--methods", "supervised", "--seeds", "2"]
    command += ["--workers", "1", "--out", str(tmp_path), "--set", "max_steps=25", "--set", "log_every=1"]
    with started(command, subprocess.PIPE) as process:
        until(lambda: any(path.stat().st_size for path in tmp_path.glob("*/metrics.jsonl")))
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, printed = process.communicate(timeout=LIMIT)
    assert process.returncode == 130 and "stopped; rerun to continue" in printed, printed[-2000:]
    runs = digit_runs(["supervised"], 2, {"max_steps": "25", "log_every": "1"})
    begun, never_started = (run.folder(tmp_path) for run in runs)
    assert (begun / "checkpoint.pt").exists() and not never_started.exists()
    before = (begun / "metrics.jsonl").read_text()
    done = list(run_grid(runs, LOAD, tmp_path, Here()))
    assert all(run.result and not run.failure for run in done) and len(done) == 2
    assert (begun / "metrics.jsonl").read_text().startswith(before)  # from where it was


IDLE = """
import sys, time
from pathlib import Path
from unihssl.experiments.launchers.local import LocalLauncher

def wait(seconds, concurrent_tasks):
    time.sleep(seconds)

if __name__ == "__main__":
    try:
        for task, _ in LocalLauncher(2).launch(wait, [0.0, 60.0]):
            Path(sys.argv[1]).write_text(str(task))
    except KeyboardInterrupt:
        sys.exit(130)
"""


def test_an_idle_worker_is_interrupted_without_a_word(tmp_path):
    (tmp_path / "grid.py").write_text(IDLE)
    with started([sys.executable, str(tmp_path / "grid.py"), str(tmp_path / "done")], subprocess.PIPE) as process:
        until((tmp_path / "done").exists)
        os.killpg(process.pid, signal.SIGINT)
        _, printed = process.communicate(timeout=LIMIT)
    assert process.returncode == 130 and printed == ""


def die_when_told(word: Path, concurrent_tasks: int) -> int:
    """Returns at once; the process dies when there is such a file."""

    def die() -> None:
        while not word.exists():
            time.sleep(0.02)
        os._exit(9)

    threading.Thread(target=die, daemon=True).start()
    return os.getpid()


def test_a_process_that_dies_after_its_task_is_replaced(tmp_path):
    words = [tmp_path / "first", tmp_path / "second"]
    others = set(threading.enumerate())
    outcomes = LocalLauncher(1).launch(die_when_told, words)
    task, first = next(outcomes)
    assert task == words[0] and isinstance(first, int)
    words[0].touch()
    until(lambda: set(threading.enumerate()) <= others)  # those that looked after the process have seen it die
    task, second = next(outcomes)
    assert task == words[1] and isinstance(second, int) and second != first
    assert list(outcomes) == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_workers_save_and_stop_when_their_parent_is_gone(how, tmp_path):
    command = [sys.executable, "-m", "unihssl", "benchmark", "digits", "--methods", "supervised", "--seeds", "1"]
    command += ["--workers", "1", "--out", str(tmp_path), "--set", "epochs=10000", "--set", "log_every=1"]
    with started(command, subprocess.DEVNULL) as process:
        until(lambda: any(path.stat().st_size for path in tmp_path.glob("*/metrics.jsonl")))
        process.send_signal(how)  # to the parent alone
        code = process.wait(timeout=LIMIT)
        assert code == (130 if how == signal.SIGTERM else -9)
        until(lambda: any(tmp_path.glob("*/checkpoint.pt")))
        (log,) = tmp_path.glob("*/metrics.jsonl")
        time.sleep(0.5)
        length = log.stat().st_size
        time.sleep(1)
        assert log.stat().st_size == length


def until(condition) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def test_a_ray_task_interrupted_saves_before_the_launcher_returns(ray_cluster, tmp_path):
    runs = digit_runs(["supervised", "mcc"], 1, {"epochs": 1000, "log_every": 1})
    short = digit_runs(["supervised"], 1, {"max_steps": 2})
    grid = run_grid([*short, *runs], LOAD, tmp_path, make_launcher("ray", 2))
    next(grid)
    log = runs[0].folder(tmp_path) / "metrics.jsonl"
    until(lambda: log.exists() and log.stat().st_size)
    grid.close()
    assert (runs[0].folder(tmp_path) / "checkpoint.pt").exists()
    assert not (runs[1].folder(tmp_path) / "config.yaml").exists()  # waited, never started


def test_without_ray_the_message_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"Ray is not installed: pip install 'unihssl\[ray\]', or use launcher='local'"):
        make_launcher("ray", 2)


def test_what_cannot_work_is_refused():
    with pytest.raises(UserError, match="unknown launcher 'slurm'"):
        make_launcher("slurm", 2)
    with pytest.raises(UserError, match="gpus_per_run needs launcher='ray'"):
        make_launcher("local", 2, 0.5)
    with pytest.raises(UserError, match="a share of a GPU or a whole number"):
        make_launcher("ray", 2, 1.5)
    with pytest.raises(UserError, match="use devices=1 and nodes=1"):
        list(run_grid([Run("mnist/uci", {"devices": 2})], LOAD, Path("out"), make_launcher()))


def test_workers_take_gpus_in_turn():
    assert assign_gpus(5, ["0", "1"]) == ["0", "1", "0", "1", "0"]
    assert assign_gpus(2, ["GPU-ab", "GPU-cd", "GPU-ef"]) == ["GPU-ab", "GPU-cd"]
    assert assign_gpus(2, []) == [None, None]


def test_the_gpus_already_chosen_are_the_ones_shared_out(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.delenv(VISIBLE, raising=False)
    assert visible_gpus() == ["0", "1"]
    monkeypatch.setenv(VISIBLE, "5, 3")
    assert visible_gpus() == ["5", "3"]
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert visible_gpus() == []


def test_shares_of_a_cluster_let_all_workers_run_at_a_time():
    assert share_cpus([16], 4) == 4 and share_cpus([16, 16, 16, 16], 6) == 8 and share_cpus([2], 8) == 1
    assert share_cpus([16, 16], 3) == 8 and share_cpus([], 3) == 1
    assert share_gpus([0, 0], 4, None) == 0
    with pytest.raises(UserError, match="no node of the Ray cluster has a GPU; leave it out"):
        share_gpus([0, 0], 4, 0.5)
    assert share_gpus([1], 4, None) == 0.25 and share_gpus([4, 4], 4, None) == 1 and share_gpus([1, 1], 3, None) == 0.5
    assert share_gpus([1], 4, 0.1) == 0.1
    with pytest.raises(UserError, match="no node of the Ray cluster has more than 1"):
        share_gpus([1, 1], 2, 2.0)


def test_runs_that_share_a_node_are_counted():
    assert tasks_per_node([16], [0], 4, 0) == 4 and tasks_per_node([2], [0], 4, 0) == 1 and tasks_per_node([], [], 1, 0)
    assert tasks_per_node([16, 64], [4, 1], 4, 0.25) == 4 and tasks_per_node([64], [2], 4, 0.1) == 16

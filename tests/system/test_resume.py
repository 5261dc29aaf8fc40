"""A run that was stopped or killed resumes as if nothing had happened."""

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from warm_cli import FAST, Finished, Started, train_args, unihssl

import unihssl as package
from unihssl import cli
from unihssl.run_folder import RunFolder

KNOBS = {"pretrain_epochs": 8, "epochs": 24, "checkpoint_seconds": 0}  # about two seconds, to be hit anywhere
TRIES = 20  # on a busy machine a run may end before the signal is sent; then it is run again
PRETRAIN_STEPS, ALL_STEPS = 8 * 7, 32 * 7  # an epoch is 54 training images in batches of 8, rounded up


def weights(run: Path) -> bytes:
    return (run / "model.safetensors").read_bytes()


def metrics(run: Path) -> list[dict]:
    """The rows without the one field that tells the time."""
    rows = RunFolder(run).read_metrics()
    return [{name: value for name, value in row.items() if name != "images_per_second"} for row in rows]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, image_folders) -> Path:
    """The run that nothing interrupts."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert unihssl(*train_args(*image_folders, out, **KNOBS)).code == 0
    assert metrics(out)[-1]["stats"]["mask_rate"] > 0.1  # pseudo-labels are trusted, so their memory matters here
    return out


def start(run: Path, folders: tuple[Path, Path], step: int, *more: str) -> Started:
    """A run that has come to this step, as its log tells, or to its end."""
    log = run / "metrics.jsonl"
    before = log.stat().st_ino if log.exists() else None  # a resumed run writes its log anew
    started = Started(*train_args(*folders, run, **KNOBS), *more)
    while step and started.process.is_alive():
        lines = log.read_text().splitlines() if log.exists() and log.stat().st_ino != before else []
        with suppress(ValueError):  # the last line may be half-written
            step = 0 if lines and json.loads(lines[-1])["global_step"] >= step else step
        time.sleep(0.002)
    return started


def kill(run: Path, folders: tuple[Path, Path], step: int, delay: float) -> None:
    """Resume a run and kill it some time after it has come to this step."""
    before = run.with_name("before")
    run.mkdir(exist_ok=True)
    shutil.copytree(run, before)
    for _ in range(TRIES):
        started = start(run, folders, step, "--resume")
        time.sleep(delay)
        printed = started.kill()
        if printed.code == -signal.SIGKILL:
            shutil.rmtree(before)
            return
        assert printed.code == 0, printed.stderr
        shutil.rmtree(run)
        shutil.copytree(before, run)
    pytest.fail("it always ended before it was killed")


def test_killed_at_ten_random_moments_it_ends_with_the_same_weights(whole, image_folders, tmp_path):
    draw = random.Random(0)
    run = tmp_path / "run"
    # A step to wait for, and a delay after it: three during start-up, two in stage 1, two at its end, three in stage 2.
    moments = [(0, draw.uniform(0, 0.4)) for _ in range(3)]
    moments += [(draw.randrange(1, PRETRAIN_STEPS - 7), draw.uniform(0, 0.03)) for _ in range(2)]
    moments += [(PRETRAIN_STEPS, draw.uniform(0, 0.03)) for _ in range(2)]
    moments += [(draw.randrange(PRETRAIN_STEPS, ALL_STEPS * 3 // 4), draw.uniform(0, 0.05)) for _ in range(3)]
    for step, delay in sorted(moments):
        kill(run, image_folders, step, delay)
        assert not (run / "result.json").exists()
    printed = unihssl(*train_args(*image_folders, run, **KNOBS), "--resume")
    assert printed.code == 0 and "resuming at " in printed.stderr
    assert weights(run) == weights(whole)
    assert metrics(run) == metrics(whole)
    assert (run / "result.json").read_text() == (whole / "result.json").read_text()
    assert not list(run.glob(".*.tmp")) and not (run / "checkpoint.pt").exists()


def test_killed_while_python_starts_nothing_is_lost(image_folders, tmp_path):
    command = [Path(sys.executable).with_name("unihssl"), *map(str, train_args(*image_folders, tmp_path / "run"))]
    with subprocess.Popen(command) as process:
        time.sleep(0.5)
        process.kill()
    assert unihssl(*train_args(*image_folders, tmp_path / "run")).code == 0


def test_killed_between_training_and_result(image_folders, tmp_path, monkeypatch):
    def die(*_: object) -> None:
        raise SystemExit(9)

    knobs = {**FAST, "checkpoint_seconds": 0}
    monkeypatch.setattr("unihssl.pipeline.measure.score", die)
    with pytest.raises(SystemExit):
        package.fit(*image_folders, tmp_path / "run", **knobs)
    monkeypatch.undo()
    printed = unihssl(*train_args(*image_folders, tmp_path / "run", **knobs), "--resume", "--json")
    resumed, whole = printed.result, package.fit(*image_folders, tmp_path / "whole", **knobs).result
    spelled = resumed.pop("warnings"), whole.pop("warnings")  # settings as options, and as Python's arguments
    assert len(spelled[0]) == len(spelled[1])
    assert resumed == whole | {"run": f"{tmp_path}/run"}
    assert weights(tmp_path / "run") == weights(tmp_path / "whole")


def stop(run: Path, folders: tuple[Path, Path], step: int, number: signal.Signals) -> Finished:
    """Send a signal to a run once it has come to this step."""
    for _ in range(TRIES):
        started = start(run, folders, step)
        time.sleep(0.012)  # into the epoch after
        with suppress(ProcessLookupError):
            os.kill(started.process.pid, number)
        printed = started.finish()
        if printed.code:
            return printed
        shutil.rmtree(run)
    pytest.fail("it always ended before the signal came")


@pytest.mark.parametrize("step", [14, PRETRAIN_STEPS, PRETRAIN_STEPS + 49])
def test_ctrl_c_saves_and_says_how_to_go_on(whole, image_folders, tmp_path, step):
    run = tmp_path / "run"
    printed = stop(run, image_folders, step, signal.SIGINT)
    assert printed.code == 130 and "Traceback" not in printed.stderr
    line = printed.stderr.splitlines()[-1]
    assert line.startswith("stopped at ") and "saved" in line
    command = shlex.split(line.partition("Resume with: ")[2])
    assert command == ["unihssl", "train", "--resume", "--out", str(run)]
    on = unihssl(*command[1:])
    assert on.code == 0
    resumed = next(x for x in on.stderr.splitlines() if x.startswith("resuming at ")).removeprefix("resuming at ")
    assert resumed == line.partition(";")[0].removeprefix("stopped at ") or resumed.startswith("adapt step 0 of ")
    assert weights(run) == weights(whole)
    assert metrics(run) == metrics(whole)


def test_a_polite_kill_saves_too(whole, image_folders, tmp_path):
    printed = stop(tmp_path / "run", image_folders, 21, signal.SIGTERM)
    assert printed.code not in (0, -signal.SIGTERM) and "--resume" in printed.stderr.splitlines()[-1]
    assert unihssl("train", "--resume", "--out", tmp_path / "run").code == 0
    assert weights(tmp_path / "run") == weights(whole)


def test_ctrl_c_before_training_is_no_stack_trace(image_folders, tmp_path, monkeypatch, capsys):
    def press(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unihssl.pipeline.train.load_pair", press)
    monkeypatch.setattr(sys, "argv", ["unihssl", *map(str, train_args(*image_folders, tmp_path / "run"))])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code not in (0, None)
    assert "Traceback" not in capsys.readouterr().err


def test_resuming_a_finished_run_repeats_its_result(whole, image_folders):
    before = {path: path.stat().st_mtime_ns for path in whole.iterdir() if path.name != ".lock"}
    for args in (["train", "--out", whole], train_args(*image_folders, whole, **KNOBS)):
        printed = unihssl(*args, "--resume", "--json")
        assert printed.result == json.loads((whole / "result.json").read_text()) | {"run": str(whole)}
    assert f"{whole}: this run has finished already" in unihssl("train", "--out", whole, "--resume").stderr
    assert {path: path.stat().st_mtime_ns for path in whole.iterdir() if path.name != ".lock"} == before
    assert "epochs was 24, now 50" in unihssl("train", "--out", whole, "--resume", "--set", "epochs=50").error


def test_resuming_in_an_empty_folder_begins(image_folders, tmp_path):
    (tmp_path / "run").mkdir()
    assert "there is no run to resume" in unihssl("train", "--resume", "--out", tmp_path / "run").error
    assert unihssl(*train_args(*image_folders, tmp_path / "run"), "--resume").code == 0
    assert (tmp_path / "run" / "result.json").exists()


def test_settings_that_do_not_change_what_is_learnt_may_change(whole, image_folders, tmp_path):
    """The data may have moved, too."""
    run = tmp_path / "run"
    stop(run, image_folders, 14, signal.SIGINT)
    moved = [shutil.copytree(folder, tmp_path / folder.name) for folder in image_folders]
    free = {"checkpoint_seconds": 1000, "log_every": 3, "tensorboard": True, "device": "cpu"}
    assert unihssl(*train_args(*moved, run, **KNOBS | free), "--resume").code == 0
    assert weights(run) == weights(whole)


def test_fit_resumes_arrays(image_arrays, tmp_path, monkeypatch):
    """Unlabeled data given as a bare array, which has no truth value of its own."""
    labeled, (unlabeled, _) = image_arrays
    knobs = {**FAST, "checkpoint_seconds": 0}
    package.fit(labeled, unlabeled, tmp_path / "whole", **knobs)
    monkeypatch.setattr("unihssl.methods.unihssl.UniHSSL.begin_adapt", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        package.fit(labeled, unlabeled, tmp_path / "run", **knobs)
    monkeypatch.undo()
    package.fit(labeled, unlabeled, tmp_path / "run", resume=True, **knobs)
    assert weights(tmp_path / "run") == weights(tmp_path / "whole")

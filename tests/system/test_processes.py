"""Two CPU processes train one model, the one a single process would; they live and die together."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from process_worker import LAYERS, through_layer
from safetensors.torch import load_file

from precision import double_precision
from unihssl import methods
from unihssl.config import Settings, knob_fields
from unihssl.errors import RunInterruptedError
from unihssl.evaluation.load import load_model
from unihssl.pipeline.train import train
from unihssl.training import loop
from unihssl.training.display import Display
from unihssl.training.log import Recorder

WORKER = Path(__file__).with_name("process_worker.py")
SHORT = {"backbone": "small_cnn", "batch_size": 8, "epochs": 2, "max_steps": 4, "lr": 0.05, "tensorboard": False}
SHORT |= {"device": "cpu"}
CLOSE = 1e-9  # what doubles differ by after some steps is far smaller, and what an error makes far larger
DEVICE = "cuda:0"
ON_GPU = {"device": "cuda", "precision": "fp32", "sup_lr": 0.01}  # at a higher rate float32's errors grow too fast
CASES = {name: {"method": name} for name in methods.available()} | {
    "unihssl-paper": {"method": "unihssl", "preset": "paper"},
    "unihssl-pretrain": {"method": "unihssl", "pretrain_epochs": 1},
    "unihssl-kept": {
        "method": "unihssl",
        "pseudo_mean": "kept",
        "epsilon": 0.35,
        "initial_view": "train",
        "prototypes": "epoch",
        "unlabeled_batch": 16,
        "mixup_gate": True,
    },
    "unihssl-full": {
        "method": "unihssl",
        "prototypes": "full",
        "pseudo_refresh": "epoch",
        "batch_norm": "separate",
        "pretrain_epochs": 1,
        "max_steps": 6,  # into the second epoch
    },
    "unihssl-odd": {"method": "unihssl", "batch_size": 6, "pretrain_epochs": 1},  # three samples for each process
    "unihssl-redrawn": {"method": "unihssl", "max_steps": 6},  # into the second epoch
    "cdan-official": {"method": "cdan", "entropy": "official"},
    "cdan-tllib": {"method": "cdan", "entropy": "tllib", "randomized": 64},
    "biadapt-coral": {"method": "biadapt", "transfer": "coral"},
    "biadapt-adv": {"method": "biadapt", "transfer": "adv"},
    "fixmatch-joint": {"method": "fixmatch", "batch_norm": "joint", "ema": 0.9},
}
APART = {f"{name}-apart": {**CASES[name], "sync_batch_norm": False} for name in ("unihssl", "unihssl-full", "simmatch")}

TARGET = [
    "unihssl",
    "unihssl-kept",
    "unihssl-full",
    "supervised",
    "fixmatch",
    "simmatch",
    "adamatch",
    "biadapt",
    "cdan",
    "mcc",
]


def with_target_labels(root: Path, name: str) -> dict:
    """The case with a label for eight of the unlabeled samples, two of which are in each step."""
    return knobs_of(CASES[name]) | {"target_labels": str(root / "target.csv"), "target_share": 1.0}


def knobs_of(case: dict) -> dict:
    known = knob_fields(Settings, methods.get(case["method"]).Params)
    return {name: value for name, value in (SHORT | case).items() if name in known}


def on_gpu(name: str) -> dict:
    """The case in single precision, at a rate that lets its rounding errors stay small."""
    return CASES[name] | ON_GPU | ({"lr": 0.01} if name in ("unihssl-kept", "unihssl-full") else {})


def start(*args: object, launcher: tuple[object, ...] = (), **environment: str) -> subprocess.Popen:
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    paths = [environment.get("PYTHONPATH"), str(WORKER.parents[1]), own.get("PYTHONPATH")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))  # its imports from beside this file
    command = [str(a) for a in (sys.executable, *launcher, *args)]
    return subprocess.Popen(command, env=own | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen, code: int = 0) -> str:
    """What it printed on stderr, without what torch itself has to say; every process of the run has let go of it."""
    _, printed = process.communicate(timeout=600)
    assert process.returncode == code, printed[-3000:]
    return "\n".join(line for line in printed.splitlines() if not line.startswith("[rank"))


def assert_same(found: dict, expected: dict, tolerance: float) -> None:
    assert found.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=tolerance, atol=tolerance, msg=name)


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """Both domains as arrays."""
    folder = tmp_path_factory.mktemp("processes")
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 12)
    for name, shift in (("labeled", 0), ("unlabeled", 40)):
        x = np.clip(60 * y[:, None, None, None] + shift + rng.normal(0, 20, (36, 12, 12, 3)), 0, 255).astype(np.uint8)
        np.savez(folder / f"{name}.npz", x=x, y=y)
    labels = "".join(f"{row},{row // 12}\n" for row in (0, 1, 2, 13, 14, 15, 30, 31))
    (folder / "target.csv").write_text("path,label\n" + labels)
    return folder


@pytest.fixture(scope="module")
def together(root) -> Path:
    """Every case trained by one pair of processes, one after the other."""
    cases = {f"{name}-target": with_target_labels(root, name) for name in TARGET}
    cases |= {name: knobs_of(case) for name, case in (CASES | APART).items()}
    (root / "cases.json").write_text(json.dumps(cases))
    (root / "printed").write_text(finish(start(WORKER, "train-all", root), 1))
    return root


def train_alone(root: Path, out: Path, **knobs: object) -> dict[str, torch.Tensor]:
    """The method's state after training in this process, on the CPU in double precision."""
    state = {}
    precision = double_precision() if knobs.get("device") != "cuda" else nullcontext()
    with precision, Display() as display, pytest.MonkeyPatch.context() as patch:
        whole = loop.Trainer.fit

        def fit(self: loop.Trainer, *arguments: object) -> None:
            whole(self, *arguments)
            state.update(self.method.state_dict())

        patch.setattr(loop.Trainer, "fit", fit)
        data = [str(root / f"{name}.npz") for name in ("labeled", "unlabeled")]
        train(out, *data, knobs, resume=out.exists(), display=display)
    return state


def metrics(run: Path) -> list[dict[str, float]]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    rows = [{**row.pop("terms"), **row.pop("stats"), **row} for row in lines]
    return [{k: v for k, v in row.items() if isinstance(v, float | int) and k != "images_per_second"} for row in rows]


@pytest.mark.parametrize("name", CASES)
def test_two_processes_train_what_one_would(together, tmp_path, name):
    """Weights, BatchNorm statistics, pseudo-labels, prototypes, banks, averages and the log."""
    first, second = (torch.load(together / f"{name}.{rank}.pt", weights_only=True) for rank in (0, 1))
    assert_same(second, first, 0)
    alone = train_alone(together, tmp_path / "run", **knobs_of(CASES[name]))
    assert all(t.dtype == torch.float64 for t in first.values() if t.is_floating_point())
    assert_same(first, alone, CLOSE)
    for ours, expected in zip(metrics(together / name), metrics(tmp_path / "run"), strict=True):
        assert ours == pytest.approx(expected, rel=1e-6, abs=1e-6)  # means are taken in single precision


@pytest.mark.parametrize("name", TARGET)
def test_two_processes_share_target_labels_as_one_would(together, tmp_path, name):
    first, second = (torch.load(together / f"{name}-target.{rank}.pt", weights_only=True) for rank in (0, 1))
    assert_same(second, first, 0)
    assert_same(first, train_alone(together, tmp_path / "run", **with_target_labels(together, name)), CLOSE)


@pytest.mark.parametrize("name", APART)
def test_without_synchronised_batch_norm_the_processes_still_agree(together, name):
    first, second = (torch.load(together / f"{name}.{rank}.pt", weights_only=True) for rank in (0, 1))
    assert_same(second, first, 0)
    synchronised = torch.load(together / f"{name.removesuffix('-apart')}.0.pt", weights_only=True)
    head = "network.head.weight"
    assert (first[head] - synchronised[head]).abs().max() > 1e-4  # so the tests above would notice


LONGER = {"max_steps": 8, "lr": 0.003} | ON_GPU  # steps enough to replay some
REPLAYED = {name: case | LONGER for name, case in APART.items()}
PLAIN = {f"{name}-plain": case | {"graph": "off"} for name, case in REPLAYED.items()}


@pytest.fixture(scope="module")
def on_one_gpu(tmp_path_factory, root) -> Path:
    """Every case trained by a pair of processes on one GPU, where gloo can stand in for NCCL."""
    folder = tmp_path_factory.mktemp("gpu")
    for domain in ("labeled", "unlabeled"):
        shutil.copy(root / f"{domain}.npz", folder)
    cases = {n: knobs_of(case) for n, case in ({n: on_gpu(n) for n in CASES} | REPLAYED | PLAIN).items()}
    (folder / "cases.json").write_text(json.dumps(cases))
    finish(start(WORKER, "share", folder, DEVICE))
    return folder


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_two_processes_on_a_gpu_train_what_one_would(on_one_gpu, tmp_path, monkeypatch, name):
    """DDP with tensors on a GPU, and torch's own SyncBatchNorm."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    first, second = (torch.load(on_one_gpu / f"{name}.{rank}.pt", "cpu", weights_only=True) for rank in (0, 1))
    assert_same(second, first, 0)
    alone = train_alone(on_one_gpu, tmp_path / "run", **knobs_of(on_gpu(name)))
    # A GPU adds up in another order each time; without a synchronised BatchNorm it would be off by 1e-2.
    assert_same(first, {n: t.cpu() for n, t in alone.items()}, 1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("name", REPLAYED)
def test_two_processes_replay_passes_through_the_network(on_one_gpu, name):
    """Which they do where BatchNorm is not synchronised, under DDP; the weights are those of plain passes."""
    first, second = (torch.load(on_one_gpu / f"{name}.{rank}.pt", "cpu", weights_only=True) for rank in (0, 1))
    assert_same(second, first, 0)
    plain = torch.load(on_one_gpu / f"{name}-plain.0.pt", "cpu", weights_only=True)
    assert_same(first, plain, 1e-3)
    captured = (on_one_gpu / "captured").read_text().split()
    assert captured.count(name) >= 2 and f"{name}-plain" not in captured and name.removesuffix("-apart") not in captured


@pytest.mark.parametrize("name", LAYERS)
def test_batch_norm_sees_the_batch_of_both(together, name):
    parts = [torch.load(together / f"layers.{rank}.pt", weights_only=True)[name] for rank in (0, 1)]
    with double_precision():
        whole = through_layer(name, lambda _: None, slice(None))
    tolerance = 1e-5 if name == "single" else 1e-12
    assert parts[0].keys() == whole.keys()
    for key, expected in whole.items():
        own = [part[key] for part in parts]
        if key in ("out", "eval", "input"):
            found = torch.stack(own, 1).flatten(0, 1)
        else:
            found = own[0] + own[1] if key.startswith("grad ") else own[1]
        torch.testing.assert_close(found, expected, rtol=0, atol=tolerance * float(expected.abs().max()), msg=key)


def test_the_model_predicts_alone_and_when_loaded(together):
    """With plain BatchNorm: what is saved knows nothing of processes."""
    with double_precision():
        model = load_model(together / list(APART)[-1])
        found = model.predict_proba(np.load(together / "unlabeled.npz")["x"])
    np.testing.assert_allclose(found, np.load(together / "probabilities.npy"), atol=CLOSE)
    assert not any("Sync" in type(part).__name__ for part in model.network.modules())


LONG = {"method": "unihssl", "backbone": "small_cnn", "batch_size": 8, "epochs": 3, "pretrain_epochs": 2}
LONG |= {"device": "cpu", "tensorboard": False, "checkpoint_seconds": 0, "log_every": 1}  # 8 steps and 12


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, root) -> dict[str, torch.Tensor]:
    run = tmp_path_factory.mktemp("whole") / "run"
    train_alone(root, run, **LONG)
    return load_file(run / "model.safetensors")


def arguments(root: Path, out: Path, devices: int = 2) -> list[object]:
    settings = [f"--set={name}={value}" for name, value in (LONG | {"devices": devices}).items()]
    sources = "--labeled", root / "labeled.npz", "--unlabeled", root / "unlabeled.npz"
    return ["train", *sources, "--out", out, "--no-report", *settings]


def start_disturbed(root: Path, folder: Path, rank: int, step: int, number: int, other: str = "") -> subprocess.Popen:
    what = {"rank": rank, "step": step, "number": number, "other": other, "folder": str(folder)}
    return start(WORKER, *arguments(root, folder / "run"), DISTURB=json.dumps(what))


def test_stopped_on_two_processes_it_goes_on_with_one(root, tmp_path, uninterrupted):
    """Whichever of them gets the signal."""
    printed = finish(start_disturbed(root, tmp_path, 1, 13, signal.SIGTERM), 130)
    assert printed.count("stopped at adapt step 5 of 12; saved. Resume with: unihssl train --resume") == 1
    assert "Traceback" not in printed
    train_alone(root, tmp_path / "run", devices=1)
    assert_same(load_file(tmp_path / "run" / "model.safetensors"), uninterrupted, CLOSE)


def test_stopped_on_one_process_it_goes_on_with_two(root, tmp_path, uninterrupted, monkeypatch):
    def add(self, images: int, done: int) -> None:
        if done == 6:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Recorder, "add", add)
    with pytest.raises(RunInterruptedError, match="pretrain step 6"):
        train_alone(root, tmp_path / "run", **LONG)
    monkeypatch.undo()
    (tmp_path / "sitecustomize.py").write_text("import torch\ntorch.set_default_dtype(torch.float64)\n")
    resume = ["-m", "unihssl", "train", "--resume", "--out", tmp_path / "run", "--set=devices=2"]
    printed = finish(start(*resume, PYTHONPATH=str(tmp_path)))
    assert printed.count("resuming at pretrain step 6 of ") == 1
    assert_same(load_file(tmp_path / "run" / "model.safetensors"), uninterrupted, CLOSE)
    assert not (tmp_path / "run" / "checkpoint.pt").exists()


def gone(pid: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize(("rank", "other"), [(0, "hangs"), (1, "hangs"), (1, "")])
def test_when_one_process_is_killed_the_other_stops_and_says_so(root, tmp_path, uninterrupted, rank, other):
    """Even if it hangs in there, as it would in NCCL."""
    process = start_disturbed(root, tmp_path, rank, 10, signal.SIGKILL, other)
    printed = finish(process, 1 if rank else -signal.SIGKILL)
    assert time.time() - float((tmp_path / "when").read_text()) < 60
    last = printed.splitlines()[-1]
    assert last.startswith("error: another process of this run died") and printed.count("error: ") == 1
    assert last.endswith(f"unihssl train --resume --out {tmp_path / 'run'}") and "Traceback" not in printed
    pids = [int((tmp_path / f"pid{r}").read_text()) for r in (0, 1)]
    deadline = time.time() + 60
    while not all(map(gone, pids)) and time.time() < deadline:
        time.sleep(0.05)
    assert all(map(gone, pids))
    train_alone(root, tmp_path / "run", devices=1)
    assert_same(load_file(tmp_path / "run" / "model.safetensors"), uninterrupted, CLOSE)


def test_what_all_processes_refuse_is_said_once(together):
    refusal = "error: a batch of 7 cannot be shared evenly by 2 processes: --set batch_size=6 can"
    assert (together / "printed").read_text() == refusal


def test_torchrun_and_a_cold_cache(root, tmp_path, image_folders):
    """The launcher says how many there are; one process decodes and the other waits for it."""
    what = {"rank": -1, "step": 0, "number": 0, "other": "", "folder": str(tmp_path)}
    knobs = {"backbone": "small_cnn", "batch_size": 8, "epochs": 1, "pretrain_epochs": 1, "tensorboard": False}
    process = start(
        *[WORKER, "train", "--labeled", image_folders[0], "--unlabeled", image_folders[1], "--out", tmp_path / "run"],
        *[*(f"--set={name}={value}" for name, value in (knobs | {"device": "cpu"}).items()), "--json"],
        launcher=("-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"),
        DISTURB=json.dumps(what),
        UNIHSSL_CACHE=str(tmp_path / "cache"),
    )
    printed, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors[-3000:]
    assert json.loads(printed)["pooled"]["n"] == 12
    assert len((tmp_path / "decoded").read_text().splitlines()) == 2  # the domains
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["processes"] == 2
    assert {(tmp_path / f"pid{rank}").exists() for rank in (0, 1)} == {True}

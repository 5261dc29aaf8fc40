"""One seed gives one set of weights, here and in another process; threads and algorithms are put back afterwards."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import unihssl
from unihssl import UserError, methods
from unihssl.config import Settings, knob_fields
from unihssl.models import backbones
from unihssl.run_folder import RunFolder
from unihssl.training import reproducible
from unihssl.training.loop import Trainer
from unihssl.training.reproducible import deterministic_algorithms, pinned_threads, prepare_cublas

KNOBS = {"device": "cpu", "tensorboard": False, "batch_size": 12, "threads": 1, "weights": "none"}
KNOBS |= {"epochs": 1, "pretrain_epochs": 1, "sup_epochs": 1, "router_epochs": 1}
FIXTURES = Path(__file__).parents[1] / "fixtures"
SOURCES = str(FIXTURES / "labeled.npz"), str(FIXTURES / "unlabeled.npz")


def train(method: str, out: Path, **more) -> bytes:
    known = knob_fields(Settings, methods.get(method).Params)
    knobs = {name: value for name, value in KNOBS.items() if name in known}
    unihssl.fit(*SOURCES, out=out, method=method, backbone="small_cnn", **knobs | more)
    return (out / "model.safetensors").read_bytes()


OTHER_PROCESS = """
import sys
from pathlib import Path
from unihssl import methods
from test_reproducible import train
for name in methods.available():
    train(name, Path(sys.argv[1]) / name)
"""


def test_another_process_finds_the_same_weights(tmp_path):
    code, own = [sys.executable, "-W", "ignore", "-c", OTHER_PROCESS, tmp_path / "other"], str(Path(__file__).parent)
    other = subprocess.Popen(code, env=_environment(own), stderr=subprocess.PIPE, text=True)
    here = {name: train(name, tmp_path / name) for name in methods.available()}
    _, problem = other.communicate()
    assert other.returncode == 0, problem
    for name, weights in here.items():
        assert (tmp_path / "other" / name / "model.safetensors").read_bytes() == weights, name


def _environment(folder: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([folder, *sys.path])}


def test_threads_are_pinned_noted_and_put_back(tmp_path, monkeypatch):
    seen, real = set(), Trainer._step
    monkeypatch.setattr(Trainer, "_step", lambda *args: seen.add(torch.get_num_threads()) or real(*args))
    before = torch.get_num_threads()
    train("supervised", tmp_path / "run", threads=before + 2)
    noted = RunFolder(tmp_path / "run").read_environment()
    assert seen == {before + 2} == {noted["threads"]} == {noted["threads_asked"]}
    assert torch.get_num_threads() == before
    with pytest.raises(ZeroDivisionError), pinned_threads(before + 2):
        1 / 0  # noqa: B018
    assert torch.get_num_threads() == before


def test_resuming_with_other_threads_is_said_once(tmp_path, monkeypatch, caplog):
    def stop(trainer: Trainer, index: int, step: int) -> None:
        real(trainer, index, step)
        trainer.guard.requested = True

    real, now = Trainer._step, torch.get_num_threads()
    for threads, others in ((now, False), (now + 1, True), (now + 1, False)):
        monkeypatch.setattr(Trainer, "_step", stop)
        with caplog.at_level("INFO", "unihssl"), pytest.raises(KeyboardInterrupt):
            train("supervised", tmp_path / "run", threads=threads, epochs=9, resume=True)
        lines = [record.message for record in caplog.records if f"threads={now}" in record.message]
        assert [f"resumes with {now + 1}" in line for line in lines] == [True] * others
        caplog.clear()
    assert RunFolder(tmp_path / "run").read_environment()["threads"] == now + 1


def _state() -> tuple[bool, ...]:
    chosen = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    return (*chosen, torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark)


def test_deterministic_holds_while_training_only(tmp_path, monkeypatch):
    seen, real = set(), Trainer._step
    monkeypatch.setattr(Trainer, "_step", lambda *args: seen.add(_state()) or real(*args))
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        before = _state()
        weights = train("supervised", tmp_path / "run", deterministic=True)
        assert seen == {(True, False, True, False)} and _state() == before
    finally:
        torch.use_deterministic_algorithms(False)
    assert train("supervised", tmp_path / "again", deterministic=True) == weights
    config = json.dumps(RunFolder(tmp_path / "run").read_config())
    assert '"deterministic": true' in config
    with pytest.raises(UserError, match="deterministic was True"):  # a run is so from its first step to its last
        (tmp_path / "run" / "result.json").unlink()
        train("supervised", tmp_path / "run", deterministic=False, resume=True)


def test_an_operation_that_has_no_deterministic_form_is_named(tmp_path, monkeypatch):
    class Unpooling(backbones.SmallCNN):
        """As PyTorch says on the CPU, too."""

        def __init__(self, channels: int = 3) -> None:
            super().__init__(channels)
            self.unpool = nn.MaxUnpool2d(2)

        def forward(self, x):
            small, at = nn.functional.max_pool2d(x, 2, return_indices=True)
            return super().forward(self.unpool(small, at))

    monkeypatch.setattr(backbones, "SmallCNN", Unpooling)
    with pytest.raises(UserError, match="does not have a deterministic implementation: train with deterministic=False"):
        train("supervised", tmp_path / "run", deterministic=True)
    assert not torch.are_deterministic_algorithms_enabled()
    with pytest.raises(RuntimeError, match="another"), deterministic_algorithms(True):
        raise RuntimeError("another")


def test_cublas_gets_its_workspace_before_cuda_starts(monkeypatch):
    monkeypatch.delenv(reproducible.WORKSPACE, raising=False)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(UserError, match=r"too late.*CUBLAS_WORKSPACE_CONFIG=:4096:8"):
        prepare_cublas()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    prepare_cublas()
    assert os.environ[reproducible.WORKSPACE] == ":4096:8"
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    prepare_cublas()  # it has what it needs

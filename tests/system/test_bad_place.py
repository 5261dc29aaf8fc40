"""Run directories that are full, read-only, taken, damaged or another run's, and the one line that says so."""

import errno
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from warm_cli import FAST, Started, error, train, train_args, unihssl

from unihssl import UserError, fit, load
from unihssl.methods.unihssl import UniHSSL
from unihssl.run_folder import RunFolder, RunLock
from unihssl.training.log import Recorder


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_output_that_cannot_be_written(own_folders, tmp_path):
    folders = own_folders()
    (tmp_path / "file").write_text("own")
    assert f"{tmp_path}/file: is a file" in error(folders, tmp_path / "file")
    assert f"{tmp_path}/file/run: could not be written (Not a directory)" in error(folders, tmp_path / "file" / "run")
    assert "/proc/none/run: could not be written" in error(folders, Path("/proc/none/run"))
    assert (tmp_path / "file").read_text() == "own"


def test_a_run_among_its_own_images_is_refused(own_folders):
    folders = own_folders()
    for folder in folders:
        message = f"{folder}/run: is inside {folder}, a folder of images: choose another --out"
        assert message in error(folders, folder / "run") and not (folder / "run").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes where it likes")
def test_read_only_output(own_folders, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    for out in (closed, closed / "run"):
        assert f"{out}: could not be written (Permission denied)" in error(own_folders(), out)


@pytest.fixture
def small_disk(tmp_path):
    """Mounts a disk of the size asked for at the path it returns."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def mount(size: str, *options: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", ",".join([f"size={size}", *options]), "tmpfs", str(disk)]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("this user may not mount a disk")
        return disk

    yield mount
    subprocess.run(["umount", "--lazy", str(disk)], capture_output=True)


def test_read_only_disk(image_folders, tmp_path, small_disk):
    train(image_folders, tmp_path / "run")
    disk = small_disk("1m", "ro")
    assert f"{disk}/run: could not be written (Read-only file system)" in error(image_folders, disk / "run")
    refusals = {
        disk / "p.csv": f"{disk}/p.csv: could not be written",
        disk / "no" / "p.csv": f"{disk}/no: cannot be made",
    }
    for out, refusal in refusals.items():
        assert refusal in unihssl("predict", tmp_path / "run", image_folders[0], "--out", out).error


@pytest.mark.parametrize(
    ("room", "seconds"),
    [("4k", 0), ("12k", 0), ("16k", 0), ("64k", 0), ("280k", 0), ("64k", 1000)],
    ids=["description", "events", "metrics", "checkpoint", "second checkpoint", "model"],
)
def test_full_disk(image_folders, small_disk, room, seconds):
    """However far the run comes before the disk is full, it ends with one line and no half-written file."""
    disk = small_disk(room)
    printed = error(image_folders, disk / "run", checkpoint_seconds=seconds, tensorboard=True)
    assert f"{disk}/run/" in printed and "disk full" in printed
    assert not list(disk.rglob("*.tmp"))
    if (disk / "run" / "checkpoint.pt").exists():
        torch.load(disk / "run" / "checkpoint.pt", weights_only=True)


def test_full_disk_keeps_the_checkpoint_before(image_arrays, tmp_path, monkeypatch):
    out, saved = tmp_path / "run", []
    real = torch.save

    def save(content, path):
        real(content, path)
        if saved:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        saved.append(Path(path).read_bytes())

    knobs = {**FAST, "checkpoint_seconds": 0}
    monkeypatch.setattr(torch, "save", save)
    with pytest.raises(UserError, match=r"checkpoint.pt: could not be written, is the disk full\?.*before is intact"):
        fit(*image_arrays, out, **knobs)
    assert (out / "checkpoint.pt").read_bytes() == saved[0]
    assert not list(out.glob(".*.tmp"))
    monkeypatch.undo()
    fit(*image_arrays, out, resume=True, **knobs)
    fit(*image_arrays, tmp_path / "whole", **knobs)
    assert (out / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()


def test_a_used_folder_is_not_trained_in(own_folders, tmp_path):
    (tmp_path / "run").mkdir()
    assert train(own_folders(), tmp_path / "run").code == 0  # an empty one is fine
    before = {p: p.read_bytes() for p in (tmp_path / "run").iterdir() if p.is_file()}
    printed = error(own_folders(), tmp_path / "run")
    assert f"{tmp_path}/run: is not empty" in printed and "--resume" in printed and "another --out" in printed
    assert before == {p: p.read_bytes() for p in (tmp_path / "run").iterdir() if p.is_file()}


@pytest.fixture
def stopped(own_folders, tmp_path) -> tuple[tuple[Path, Path], Path]:
    """A run stopped half-way: its data and its folder, with a checkpoint in it."""
    folders, out = own_folders(), tmp_path / "stopped"
    running = Started(*train_args(*folders, out, epochs=100000, checkpoint_seconds=0))
    running.wait_for(out / "checkpoint.pt")
    running.kill()
    return folders, out


def test_resume_with_other_settings(stopped):
    folders, out = stopped
    printed = error(folders, out, "--resume", epochs=100000, lr=0.5, beta=0.7)
    assert f"{out}: a resumed run keeps its settings, but lr was" in printed
    assert "now 0.5" in printed and "beta was 0.5, now 0.7" in printed


def test_resume_with_other_images(stopped):
    folders, out = stopped
    Image.new("RGB", (16, 16)).save(folders[1] / "red" / "new.png")
    printed = error(folders, out, "--resume", epochs=100000)
    assert f"{out}/checkpoint.pt: the data, target labels or settings have changed since this run began" in printed


def test_resume_with_other_pixels(image_arrays, tmp_path, monkeypatch):
    """Arrays name their samples 0, 1, 2, ...: other data of the same length must not pass for the run's own."""
    (x, y), unlabeled = image_arrays
    monkeypatch.setattr(UniHSSL, "begin_adapt", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        fit((x, y), unlabeled, tmp_path / "run", checkpoint_seconds=0, **FAST)
    monkeypatch.undo()
    with pytest.raises(UserError, match="the data, target labels or settings have changed"):
        fit((255 - x, y), unlabeled, tmp_path / "run", resume=True, checkpoint_seconds=0, **FAST)


@pytest.mark.parametrize("damage", ["cut", "empty", "noise", "foreign"])
def test_resume_from_a_damaged_checkpoint(stopped, damage):
    folders, out = stopped
    checkpoint = out / "checkpoint.pt"
    whole = checkpoint.read_bytes()
    content = {"cut": whole[: len(whole) // 2], "empty": b"", "noise": np.random.default_rng(0).bytes(5000)}
    if damage == "foreign":
        torch.save({"weights": torch.zeros(3)}, checkpoint)
    else:
        checkpoint.write_bytes(content[damage])
    printed = error(folders, out, "--resume", epochs=100000)
    assert f"{checkpoint}: the checkpoint cannot be read" in printed and "delete it to start again" in printed


def test_deleting_a_damaged_checkpoint_starts_again(own_folders, tmp_path):
    knobs = {"epochs": 3, "checkpoint_seconds": 0}
    out = tmp_path / "run"
    started = Started(*train_args(*own_folders(), out, **knobs))
    started.wait_for(out / "checkpoint.pt")
    started.kill()
    (out / "checkpoint.pt").unlink()
    result = train(own_folders(), out, "--resume", "--json", **knobs).result
    assert result == train(own_folders(), tmp_path / "whole", "--json", **knobs).result | {"run": str(out)}


def test_two_processes_in_one_run_directory(own_folders, tmp_path):
    folders, out = own_folders(), tmp_path / "run"
    first = Started(*train_args(*folders, out, epochs=100000, checkpoint_seconds=0))
    try:
        first.wait_for(out / "checkpoint.pt")
        printed = error(folders, out, "--resume", epochs=100000)
        assert f"{out}: another process is training in this run directory" in printed
        assert "is not empty" in error(folders, out)
        assert first.process.is_alive()
    finally:
        first.kill()


def test_a_failed_fit_lets_go_of_its_run_directory(image_arrays, tmp_path, monkeypatch):
    """In a notebook the traceback of the last error stays alive, and with it everything it refers to."""
    monkeypatch.setattr(UniHSSL, "begin_adapt", _interrupt)
    with pytest.raises(KeyboardInterrupt) as held:
        fit(*image_arrays, tmp_path / "run", **FAST)
    monkeypatch.undo()
    assert fit(*image_arrays, tmp_path / "run", resume=True, **FAST).result == load(tmp_path / "run").result
    del held


def test_a_run_that_never_began_leaves_no_folder(image_folders, tmp_path):
    labeled, unlabeled = image_folders
    knobs = {"backbone": "small_cnn", "placement": "gpu", "device": "cpu"}
    with pytest.raises(UserError, match="placement='gpu'"):
        fit(labeled, unlabeled, tmp_path / "run", **knobs)
    assert not (tmp_path / "run").exists()


def test_a_refused_resume_leaves_the_run_as_it_was(image_folders, own_folders, tmp_path, monkeypatch):
    labeled, unlabeled = map(str, image_folders)
    knobs = {"backbone": "small_cnn", "epochs": 3, "batch_size": 8, "checkpoint_seconds": 0, "tensorboard": False}
    knobs |= {"pretrain_epochs": 1}
    real = Recorder.add

    def stop(self, images, done):
        real(self, images, done)
        if done == 9:
            raise RuntimeError("stop")

    monkeypatch.setattr(Recorder, "add", stop)
    with pytest.raises(RuntimeError, match="stop"):
        fit(labeled, unlabeled, tmp_path / "run", **knobs)
    monkeypatch.undo()
    before = (tmp_path / "run" / "config.yaml").read_text()
    with pytest.raises(UserError, match="data, target labels or settings have changed"):
        fit(str(own_folders()[0]), unlabeled, tmp_path / "run", resume=True, **knobs)
    assert (tmp_path / "run" / "config.yaml").read_text() == before
    assert fit("", "", tmp_path / "run", resume=True).result["pooled"]["n"]


def test_a_folder_that_vanishes_under_a_run_is_what_the_error_says(tmp_path):
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(UserError, match="could not be written"), RunLock(folder, resume=False):
        shutil.rmtree(folder.path)
        raise UserError(f"{folder.path}: could not be written")

"""What goes wrong at a user's desk, and the one line that says so."""

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from warm_cli import FAST, Started, train_args, unihssl

from unihssl import UserError, fit, load
from unihssl.methods.unihssl import UniHSSL
from unihssl.models.small import SmallCNN
from unihssl.training.checkpoint import load_checkpoint


def train(folders: tuple[Path, Path], out: Path, *more: object, **knobs: object):
    return unihssl(*train_args(*folders, out, **knobs), *more)


def error(folders: tuple[Path, Path], out: Path, *more: object, **knobs: object) -> str:
    return train(folders, out, *more, **knobs).error


def test_empty_folder(own_folders, tmp_path):
    labeled, unlabeled = own_folders()
    (tmp_path / "empty" / "deeper").mkdir(parents=True)
    for pair in ((tmp_path / "empty", unlabeled), (labeled, tmp_path / "empty")):
        assert f"{tmp_path}/empty: no images found (looked for .bmp, .jpeg" in error(pair, tmp_path / "run")


def test_missing_folder_and_missing_option(own_folders, tmp_path):
    labeled, _ = own_folders()
    assert f"{tmp_path}/no: no such file or folder" in error((labeled, tmp_path / "no"), tmp_path / "run")
    assert "no labeled data given: pass --labeled" in unihssl("train", "--out", tmp_path / "run").error
    assert f"{labeled}: given as the labeled and as the unlabeled domain" in error((labeled, labeled), tmp_path / "run")


def test_one_class_only(own_folders, tmp_path):
    labeled, unlabeled = own_folders()
    for name in ("green", "red"):
        shutil.rmtree(labeled / name)
    said = error((labeled, unlabeled), tmp_path / "run")
    assert f"{labeled}: found one class only (blue); training needs two or more" in said


def test_images_outside_class_folders_and_empty_class_folders(own_folders, tmp_path):
    labeled, unlabeled = own_folders()
    (labeled / "yellow").mkdir()
    assert f"{labeled}: no images in class folder yellow" in error((labeled, unlabeled), tmp_path / "run")
    (labeled / "yellow").rmdir()
    (labeled / "blue" / "00.png").rename(labeled / "loose.png")
    said = error((labeled, unlabeled), tmp_path / "run")
    assert "1 images lie outside any class folder (loose.png)" in said and "<class>/<image>" in said


def test_classes_that_do_not_match(own_folders, tmp_path):
    labeled, unlabeled = own_folders()
    (unlabeled / "green").rename(unlabeled / "greens")
    said = error((labeled, unlabeled), tmp_path / "run")
    for part in (
        f"{unlabeled}: classes do not match",
        "greens (green?)",
        "missing here: green",
        "unlabeled_layout=flat",
    ):
        assert part in said
    shutil.rmtree(unlabeled / "greens")
    assert "match_classes=labeled" in error((labeled, unlabeled), tmp_path / "run")
    # Both ways out that the messages name lead on.
    assert train((labeled, unlabeled), tmp_path / "allowed", "--json", match_classes="labeled").result["unlabeled"]["n"]
    assert "unlabeled" not in train((labeled, unlabeled), tmp_path / "flat", "--json", unlabeled_layout="flat").result


def test_unreadable_images_are_skipped_counted_and_named(own_folders, tmp_path):
    labeled, unlabeled = own_folders()
    (labeled / "blue" / "empty.png").write_bytes(b"")
    (labeled / "red" / "text.jpg").write_text("no image")
    whole = (unlabeled / "red" / "08.png").read_bytes()
    (unlabeled / "red" / "cut.png").write_bytes(whole[: len(whole) // 2])
    said = train((labeled, unlabeled), tmp_path / "run")
    assert said.code == 0
    note = next(line for line in said.stderr.splitlines() if line.startswith(f"note: {labeled}"))
    assert "skipped 2 of 14 images as unreadable" in note
    assert "blue/empty.png: the file is empty" in note and "red/text.jpg: not an image" in note
    assert f"{unlabeled}: skipped 1 of 13 images as unreadable (red/cut.png: " in said.stderr
    split = json.loads((tmp_path / "run" / "split.json").read_text())
    assert len(split["labeled"]["train"] + split["labeled"]["test"]) == 12
    assert "empty.png" not in json.dumps(split)


def test_a_class_that_loses_all_its_images_is_an_error(own_folders, tmp_path):
    labeled, unlabeled = own_folders()
    for image in (labeled / "green").iterdir():
        image.write_bytes(b"")
    said = error((labeled, unlabeled), tmp_path / "run")
    assert (
        "skipped 4 of 12 images" in said
        and "green/04.png" in said
        and "no readable image is left in class green" in said
    )


def test_a_domain_that_loses_all_its_images_is_an_error(own_folders, tmp_path):
    labeled, unlabeled = own_folders()
    for image in unlabeled.rglob("*.png"):
        image.write_bytes(b"GIF89a")
    said = error((labeled, unlabeled), tmp_path / "run")
    assert said.endswith("no readable image is left") and "and 4 more" in said


def test_after_bad_data_the_same_command_works_on_good_data(own_folders, tmp_path):
    labeled, unlabeled = own_folders()
    assert "no such file" in error((tmp_path / "typo", unlabeled), tmp_path / "run")
    assert train((labeled, unlabeled), tmp_path / "run", "--json").result["pooled"]["n"] > 0


@pytest.mark.parametrize("method", ["unihssl", "supervised"])
def test_a_run_of_no_steps(own_folders, tmp_path, method):
    knobs = [f"--set={k}={v}" for k, v in (FAST | {"epochs": 0}).items() if k in ("backbone", "epochs", "batch_size")]
    labeled, unlabeled = own_folders()
    given = ["--labeled", labeled, "--unlabeled", unlabeled, "--method", method, *knobs]
    said = unihssl("train", *given, "--out", tmp_path / "run").error
    assert "0 steps to train (epochs=0): set epochs to 1 or more" in said
    # What it says to do can be done as it is: the refused run left nothing behind that stands in the way.
    assert unihssl("train", *given, "--out", tmp_path / "run", "--set", "epochs=1", "--json").result


def test_weights_that_do_not_fit(own_folders, tmp_path):
    folders = own_folders()
    good = SmallCNN().state_dict()
    first = next(iter(good))
    narrow = good | {first: good[first][:, :1].contiguous()}
    save_file(narrow, tmp_path / "narrow.safetensors")
    torch.save(narrow, tmp_path / "narrow.pt")
    for name in ("narrow.safetensors", "narrow.pt"):
        said = error(folders, tmp_path / "run", "--weights", tmp_path / name)
        shapes = f"{tuple(narrow[first].shape)} instead of {tuple(good[first].shape)}"
        assert f"{tmp_path / name}: 1 tensors have the wrong shape (first: {first} is {shapes})" in said
    save_file({first: good[first]}, tmp_path / "short.safetensors")
    said = error(folders, tmp_path / "run", "--weights", tmp_path / "short.safetensors")
    assert f"{len(good) - 1} of its {len(good)} tensors are missing" in said or "tensors are missing" in said
    (tmp_path / "damaged.safetensors").write_bytes(b"\x00" * 100)
    assert "damaged" in error(folders, tmp_path / "run", "--weights", tmp_path / "damaged.safetensors")
    torch.save({"run": os.system}, tmp_path / "code.pt")
    assert "it has objects" in error(folders, tmp_path / "run", "--weights", tmp_path / "code.pt")


def test_output_that_cannot_be_written(own_folders, tmp_path):
    folders = own_folders()
    (tmp_path / "file").write_text("mine")
    assert f"{tmp_path}/file: is a file" in error(folders, tmp_path / "file")
    assert f"{tmp_path}/file/run: could not be written (Not a directory)" in error(folders, tmp_path / "file" / "run")
    assert "/proc/none/run: could not be written" in error(folders, Path("/proc/none/run"))
    assert (tmp_path / "file").read_text() == "mine"


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
    for out in (disk / "p.csv", disk / "no" / "p.csv"):
        assert (
            f"{out}: could not be written" in unihssl("predict", tmp_path / "run", image_folders[0], "--out", out).error
        )


@pytest.mark.parametrize(
    ("room", "seconds"),
    [("4k", 0), ("12k", 0), ("16k", 0), ("64k", 0), ("280k", 0), ("64k", 1000)],
    ids=["description", "events", "metrics", "checkpoint", "second checkpoint", "model"],
)
def test_full_disk(image_folders, small_disk, room, seconds):
    """However far the run comes before the disk is full, it ends with one line and no half-written file."""
    disk = small_disk(room)
    said = error(image_folders, disk / "run", checkpoint_seconds=seconds, tensorboard=True)
    assert f"{disk}/run/" in said and "disk full" in said
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


def test_nan_stops_and_says_what_to_try(image_folders, tmp_path):
    said = error(image_folders, tmp_path / "run", lr=1e8)
    assert "loss" in said and "became NaN or infinite" in said and "no checkpoint yet" in said
    assert "--set lr=1e+07" in said
    assert not (tmp_path / "run" / "result.json").exists() and not (tmp_path / "run" / "model.safetensors").exists()


def test_a_learning_rate_beyond_floats_is_one_line(image_folders, tmp_path):
    assert error(image_folders, tmp_path / "run", lr=1e300)


def test_weights_that_break_in_the_very_last_step_are_not_passed_off_as_a_model(image_arrays, tmp_path, monkeypatch):
    real = UniHSSL.adapt

    def adapt(self, batch):
        losses = real(self, batch)
        if batch.step == batch.total_steps - 1:  # a finite loss whose gradient is none
            losses.terms["labeled"] = losses.terms["labeled"] + (0 * self.network.head.weight).sqrt().sum()
        return losses

    monkeypatch.setattr(UniHSSL, "adapt", adapt)
    with pytest.raises(UserError, match="became NaN or infinite"):
        fit(*image_arrays, tmp_path / "run", **FAST)
    assert not (tmp_path / "run" / "result.json").exists()


def test_nan_keeps_the_last_good_checkpoint(image_arrays, tmp_path, monkeypatch):
    knobs = {**FAST, "checkpoint_seconds": 0}
    real = UniHSSL.adapt

    def adapt(self, batch):
        losses = real(self, batch)
        if batch.step == 13:  # the last of the second epoch
            losses.terms["mixup"] = losses.terms["mixup"] * torch.nan
        return losses

    monkeypatch.setattr(UniHSSL, "adapt", adapt)
    with pytest.raises(
        UserError, match=r"^loss, mixup became NaN.* of adapt; the last good checkpoint is .*run/checkpoint\.pt"
    ):
        fit(*image_arrays, tmp_path / "run", **knobs)
    content = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)
    assert (content["stage"], content["step"]) == (1, 7)
    position, state, _ = load_checkpoint(tmp_path / "run" / "checkpoint.pt", content["fingerprint"])
    assert (position.stage, position.step) == (1, 7)
    assert all(t.isfinite().all() for t in state.values())
    monkeypatch.undo()
    fit(*image_arrays, tmp_path / "run", resume=True, **knobs)
    fit(*image_arrays, tmp_path / "whole", **knobs)
    for name, tensor in load_file(tmp_path / "whole" / "model.safetensors").items():
        assert torch.equal(tensor, load_file(tmp_path / "run" / "model.safetensors")[name]), name


def test_a_used_folder_is_not_trained_in(own_folders, tmp_path):
    (tmp_path / "run").mkdir()
    assert train(own_folders(), tmp_path / "run").code == 0  # an empty one is fine
    before = {p: p.read_bytes() for p in (tmp_path / "run").iterdir() if p.is_file()}
    said = error(own_folders(), tmp_path / "run")
    assert f"{tmp_path}/run: is not empty" in said and "--resume" in said and "another --out" in said
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
    said = error(folders, out, "--resume", epochs=100000, lr=0.5, beta=0.7)
    rate = 0.5
    assert f"{out}: a resumed run keeps its settings, but lr was" in said
    assert f"now {rate}" in said and "beta was 0.8, now 0.7" in said


def test_resume_with_other_images(stopped):
    folders, out = stopped
    Image.new("RGB", (16, 16)).save(folders[1] / "red" / "new.png")
    said = error(folders, out, "--resume", epochs=100000)
    assert f"{out}/checkpoint.pt: the data or settings have changed since this run began; start a new one" in said


def test_resume_with_other_pixels(image_arrays, tmp_path, monkeypatch):
    """Arrays name their samples 0, 1, 2, ...: other data of the same length must not pass for the run's own."""
    (x, y), unlabeled = image_arrays
    monkeypatch.setattr(UniHSSL, "begin_adapt", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        fit((x, y), unlabeled, tmp_path / "run", checkpoint_seconds=0, **FAST)
    monkeypatch.undo()
    with pytest.raises(UserError, match="the data or settings have changed"):
        fit((255 - x, y), unlabeled, tmp_path / "run", resume=True, checkpoint_seconds=0, **FAST)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


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
    said = error(folders, out, "--resume", epochs=100000)
    assert f"{checkpoint}: the checkpoint cannot be read" in said and "delete it to start again" in said


def test_deleting_a_damaged_checkpoint_starts_again(own_folders, tmp_path):
    knobs = {"epochs": 3, "checkpoint_seconds": 0}
    out = tmp_path / "run"
    started = Started(*train_args(*own_folders(), out, **knobs))
    started.wait_for(out / "checkpoint.pt")
    started.kill()
    (out / "checkpoint.pt").unlink()
    result = train(own_folders(), out, "--resume", "--json", **knobs).result
    assert result == train(own_folders(), tmp_path / "whole", "--json", **knobs).result | {"run": str(out)}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_cuda_without_a_gpu(own_folders, tmp_path):
    folders = own_folders()
    message = "device=cuda, but no CUDA GPU is available here: use cpu or auto"
    assert message in error(folders, tmp_path / "run", device="cuda")
    train(folders, tmp_path / "good")
    assert message in unihssl("predict", tmp_path / "good", folders[0], "--device", "cuda").error


def test_two_processes_in_one_run_directory(own_folders, tmp_path):
    folders, out = own_folders(), tmp_path / "run"
    first = Started(*train_args(*folders, out, epochs=100000, checkpoint_seconds=0))
    try:
        first.wait_for(out / "checkpoint.pt")
        said = error(folders, out, "--resume", epochs=100000)
        assert f"{out}: another process is training in this run directory" in said
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

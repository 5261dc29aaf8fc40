"""Data, weights and settings that cannot be trained on, and the one line that says so."""

import json
import os
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from warm_cli import FAST, error, train, unihssl

from unihssl import UserError, fit
from unihssl.methods.unihssl import UniHSSL
from unihssl.models.backbones import SmallCNN
from unihssl.run_folder import RunFolder
from unihssl.training.checkpoint import load_checkpoint


def test_empty_folder(own_folders, tmp_path):
    labeled, unlabeled = own_folders()
    (tmp_path / "empty" / "deeper").mkdir(parents=True)
    for pair in ((tmp_path / "empty", unlabeled), (labeled, tmp_path / "empty")):
        assert f"{tmp_path}/empty: no images found (looked for .bmp, .dcm, " in error(pair, tmp_path / "run")


def test_missing_folder_and_missing_option(own_folders, tmp_path):
    labeled, _ = own_folders()
    assert f"{tmp_path}/no: no such file or folder" in error((labeled, tmp_path / "no"), tmp_path / "run")
    assert "no labeled data given: pass --labeled" in unihssl("train", "--out", tmp_path / "run").error
    said = error((labeled, labeled), tmp_path / "run")
    assert "is given twice; it could be both trained and tested on; --labeled and --unlabeled are the same" in said


def test_one_class_only(own_folders, tmp_path):
    labeled, unlabeled = own_folders()
    for name in ("green", "red"):
        shutil.rmtree(labeled / name)
    printed = error((labeled, unlabeled), tmp_path / "run")
    assert f"{labeled}: found one class only (blue); training needs two or more" in printed


def test_images_outside_class_folders_and_empty_class_folders(own_folders, tmp_path):
    labeled, unlabeled = own_folders()
    (labeled / "yellow").mkdir()
    assert f"{labeled}: no images in class folder yellow" in error((labeled, unlabeled), tmp_path / "run")
    (labeled / "yellow").rmdir()
    (labeled / "blue" / "00.png").rename(labeled / "loose.png")
    printed = error((labeled, unlabeled), tmp_path / "run")
    assert "1 images lie outside any class folder (loose.png)" in printed and "<class>/<image>" in printed


def test_classes_that_do_not_match(own_folders, tmp_path):
    labeled, unlabeled = own_folders()
    (unlabeled / "green").rename(unlabeled / "greens")
    printed = error((labeled, unlabeled), tmp_path / "run")
    for part in (
        f"{unlabeled}: classes do not match",
        "greens (green?)",
        "missing here: green",
        "unlabeled_layout=flat",
    ):
        assert part in printed
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
    printed = train((labeled, unlabeled), tmp_path / "run")
    assert printed.code == 0
    note = next(line for line in printed.stderr.splitlines() if line.startswith(f"note: {labeled}"))
    assert "skipped 2 of 14 images as unreadable" in note
    assert "blue/empty.png: the file is empty" in note and "red/text.jpg: not an image" in note
    assert f"{unlabeled}: skipped 1 of 13 images as unreadable (red/cut.png: " in printed.stderr
    split = json.loads((tmp_path / "run" / "split.json").read_text())
    assert len(split["labeled"]["train"] + split["labeled"]["test"]) == 12
    assert "empty.png" not in json.dumps(split)


def test_a_class_that_loses_all_its_images_is_an_error(own_folders, tmp_path):
    labeled, unlabeled = own_folders()
    for image in (labeled / "green").iterdir():
        image.write_bytes(b"")
    printed = error((labeled, unlabeled), tmp_path / "run")
    assert (
        "skipped 4 of 12 images" in printed
        and "green/04.png" in printed
        and "no readable image is left in class green" in printed
    )


def test_a_domain_that_loses_all_its_images_is_an_error(own_folders, tmp_path):
    labeled, unlabeled = own_folders()
    for image in unlabeled.rglob("*.png"):
        image.write_bytes(b"GIF89a")
    printed = error((labeled, unlabeled), tmp_path / "run")
    assert printed.endswith("no readable image is left") and "and 4 more" in printed


def test_after_bad_data_the_same_command_works_on_good_data(own_folders, tmp_path):
    labeled, unlabeled = own_folders()
    assert "no such file" in error((tmp_path / "typo", unlabeled), tmp_path / "run")
    assert train((labeled, unlabeled), tmp_path / "run", "--json").result["pooled"]["n"] > 0


@pytest.mark.parametrize("method", ["unihssl", "supervised"])
def test_a_run_of_no_steps(own_folders, tmp_path, method):
    knobs = [f"--set={k}={v}" for k, v in (FAST | {"epochs": 0}).items() if k in ("backbone", "epochs", "batch_size")]
    labeled, unlabeled = own_folders()
    given = ["--labeled", labeled, "--unlabeled", unlabeled, "--method", method, *knobs]
    printed = unihssl("train", *given, "--out", tmp_path / "run").error
    assert "0 steps to train (--set epochs=0): use at least --set epochs=1" in printed
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
        printed = error(folders, tmp_path / "run", "--weights", tmp_path / name)
        shapes = f"{tuple(narrow[first].shape)} instead of {tuple(good[first].shape)}"
        assert f"{tmp_path / name}: 1 tensors have the wrong shape (first: {first} is {shapes})" in printed
    save_file({first: good[first]}, tmp_path / "short.safetensors")
    printed = error(folders, tmp_path / "run", "--weights", tmp_path / "short.safetensors")
    needed = [name for name in good if not name.endswith("num_batches_tracked")]
    assert f"{len(needed) - 1} of its {len(good)} tensors are missing, first {needed[1]}" in printed
    (tmp_path / "damaged.safetensors").write_bytes(b"\x00" * 100)
    assert "damaged" in error(folders, tmp_path / "run", "--weights", tmp_path / "damaged.safetensors")
    torch.save({"run": os.system}, tmp_path / "code.pt")
    assert "it has objects" in error(folders, tmp_path / "run", "--weights", tmp_path / "code.pt")


def test_nan_stops_and_says_what_to_try(image_folders, tmp_path):
    printed = error(image_folders, tmp_path / "run", lr=1e8)
    assert "loss" in printed and "became NaN or infinite" in printed and "no checkpoint yet" in printed
    assert "--set lr=1e+07" in printed
    assert not (tmp_path / "run" / "result.json").exists() and not (tmp_path / "run" / "model.safetensors").exists()


def test_nan_names_the_learning_rate_of_its_stage(image_arrays):
    knobs = FAST | {"method": "mcc+sup", "sup_epochs": 1, "sup_lr": 1e30}
    del knobs["pretrain_epochs"]
    with pytest.raises(UserError, match=r"of supervised; .*sup_lr=1e\+29"):
        fit(*image_arrays, **knobs)


def test_a_learning_rate_beyond_floats_is_one_line(image_folders, tmp_path):
    assert error(image_folders, tmp_path / "run", lr=1e300)


def test_weights_that_break_in_the_very_last_step_are_not_passed_off_as_a_model(image_arrays, tmp_path, monkeypatch):
    real = UniHSSL.adapt

    def adapt(self, batch):
        losses = real(self, batch)
        last = round(float(batch.step) / float(batch.progress)) - 1 if batch.progress else 0
        if batch.step == last:  # a finite loss whose gradient is none
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
    saved = load_checkpoint(RunFolder(tmp_path / "run"), content["fingerprint"])
    assert (saved.position.stage, saved.position.step) == (1, 7)
    assert all(t.isfinite().all() for t in saved.method.values())
    monkeypatch.undo()
    fit(*image_arrays, tmp_path / "run", resume=True, **knobs)
    fit(*image_arrays, tmp_path / "whole", **knobs)
    for name, tensor in load_file(tmp_path / "whole" / "model.safetensors").items():
        assert torch.equal(tensor, load_file(tmp_path / "run" / "model.safetensors")[name]), name


def test_cuda_without_a_gpu(own_folders, tmp_path):
    folders = own_folders()
    message = "device=cuda, but no CUDA GPU is available here: use cpu or auto"
    assert message in error(folders, tmp_path / "run", device="cuda")
    train(folders, tmp_path / "good")
    assert message in unihssl("predict", tmp_path / "good", folders[0], "--device", "cuda").error

"""`unihssl compare`: several methods on one's own folders, in one table."""

import json
import shutil

from warm_cli import unihssl

from unihssl.cli.compare import make_recipes
from unihssl.methods.recipe import resolve

QUICK = {"backbone": "small_cnn", "epochs": 1, "batch-size": 8, "methods": "supervised,mcc", "seeds": 1}


def call(labeled, unlabeled, out) -> list:
    options = QUICK | {"labeled": labeled, "unlabeled": unlabeled, "out": out}
    return ["compare", "--no-tensorboard", *(part for name, value in options.items() for part in (f"--{name}", value))]


def test_methods_are_measured_where_classes_are_known_and_finished_runs_are_kept(image_folders, tmp_path):
    printed = unihssl(*call(*image_folders, tmp_path / "runs"))
    assert "supervised" in printed.stdout and "mcc" in printed.stdout
    assert "own data: accuracy on both test parts pooled, %" in printed.stdout
    assert printed.stdout.rstrip().endswith(f"The runs are in {tmp_path / 'runs'}")
    assert "steps of all stages: mcc 7, supervised 7" in printed.stdout
    assert {folder.name for folder in (tmp_path / "runs").iterdir()} == {"supervised-0", "mcc-0"}
    written = (tmp_path / "runs" / "mcc-0" / "model.safetensors").stat().st_mtime_ns
    rows = json.loads(unihssl(*call(*image_folders, tmp_path / "runs"), "--json").stdout)["rows"]
    assert {row["method"] for row in rows} == {"supervised", "mcc"} and all(row["unlabeled"] for row in rows)
    assert (tmp_path / "runs" / "mcc-0" / "model.safetensors").stat().st_mtime_ns == written


def test_all_methods_train_as_long_unless_told_otherwise():
    length = {"epochs": 100, "max_steps": 5000}
    found = make_recipes("supervised, mcc,mcc:original", {"lr": 0.1})
    assert found["supervised"] == {"lr": 0.1, "method": "supervised"} | length
    assert found["mcc"] == {"lr": 0.1, "method": "mcc"} | length and resolve(found["mcc"])[0].steps == 0
    assert found["mcc:original"] == {"lr": 0.1, "method": "mcc", "preset": "original"}
    assert make_recipes("mcc", {"max_steps": 7}) == {"mcc": {"max_steps": 7, "method": "mcc"}}


def test_methods_are_ranked_where_no_class_is_known(image_folders, tmp_path):
    (tmp_path / "flat").mkdir()
    for i, path in enumerate(image_folders[1].rglob("*.png")):
        shutil.copy(path, tmp_path / "flat" / f"{i}.png")
    printed = unihssl(*call(image_folders[0], tmp_path / "flat", tmp_path / "runs")).stdout
    assert "No class of the unlabeled domain is known" in printed and "Best by" in printed
    assert "pooled" not in printed and "flat: in detail, %" in printed and "made with small_cnn" in printed


def test_what_compare_decides_itself_cannot_be_set(image_folders, tmp_path):
    refused = unihssl(*call(*image_folders, tmp_path / "runs"), "--set", "seed=3").error
    assert (
        refused == "error: --set seed: methods and seeds are chosen by --methods and --seeds (mcc:original is a preset)"
    )
    assert unihssl(*call(*image_folders, tmp_path / "runs"), "--method", "mcc").error.startswith("error: --method: ")
    assert "--method " not in unihssl("compare", "--help").stdout
    assert not (tmp_path / "runs").exists()


def test_runs_of_other_data_are_not_taken_for_these(image_folders, tmp_path):
    a, b = image_folders
    unihssl(*call(a, b, tmp_path / "runs"))
    refused = unihssl(*call(b, a, tmp_path / "runs")).error
    assert f"this run has finished, and its labeled data was {a}: choose another --out" in refused

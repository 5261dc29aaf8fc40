"""`unihssl data`, and training on a pair of the catalog, as a user would."""

import os
import signal
import time
from dataclasses import replace
from importlib.util import find_spec

import pytest
from warm_cli import Started, train, unihssl

from catalog_trees import lay_out, tiny
from unihssl.data import catalog

OFFICE31, CALTECH = catalog.get("office-31"), catalog.get("office-caltech-10")


@pytest.fixture(scope="module")
def office31(tmp_path_factory):
    """All 4,110 images, as published."""
    return lay_out(tmp_path_factory.mktemp("data") / "office31", OFFICE31, images="images")


@pytest.fixture
def small(tmp_path):
    """The layout of Office-31 with four images of each class."""
    domains = tuple(replace(d, counts=dict.fromkeys(OFFICE31.classes, 4)) for d in OFFICE31.domains)
    return lay_out(tmp_path / "office31", replace(OFFICE31, domains=domains))


def test_list():
    rows = {row["name"]: row for row in unihssl("data", "list", "--json").result}
    assert rows["office-31"]["pairs"] == ["W/A", "A/W", "A/D", "D/A", "D/W", "W/D"]
    assert rows["visda-2017"]["domains"]["real"] == {"short": "R", "images": 55388}
    assert [name for name, row in rows.items() if row["download"]] == ["visda-2017", "isic-2019", "digits"]
    shown = unihssl("data", "list").stdout
    assert all(f"{name}: " in shown for name in rows)
    assert max(map(len, shown.splitlines())) <= 80


def test_check_of_a_whole_data_set(office31):
    done = unihssl("data", "check", "office-31", "--root", office31)
    assert done.code == 0
    assert f"webcam (W): 795 of 795 images, as published: {office31}/webcam/images" in done.stdout
    result = unihssl("data", "check", "office31", "--root", office31.parent, "--json").result
    assert result["problems"] == [] and result["domains"]["amazon"]["images"] == 2817


def test_check_names_each_difference(small):
    done = unihssl("data", "check", "office-31", "--root", small, "--domains", "dslr,webcam")
    assert "error: office-31: 62 differences under" in done.error
    assert done.code == 1
    assert "  webcam/mug: expected 27 images, found 4\n" in done.stdout
    assert "amazon" not in done.stdout


def test_check_where_nothing_is(tmp_path, office31):
    (tmp_path / "photos.zip").write_bytes(b"")
    done = unihssl("data", "check", "office-home", "--root", tmp_path)
    assert "error: office-home: nothing found under" in done.error
    for part in (
        "    Real World/<class>/...",
        "archives: OfficeHomeDataset_10072016.zip",
        "source: https://www.hemanthdv.org/officeHomeDataset.html",
        f"photos.zip: not taken for Office-Home by its name; if it is, pass --root {tmp_path}/photos.zip",
    ):
        assert part in done.stdout
    done = unihssl("data", "check", "office-31", "--root", office31 / "webcam")
    assert f"is named like one of the domains: pass --root {office31}" in done.stdout


def test_check_of_another_data_set(tmp_path):
    """Office-Caltech-10 has folders of the same names, with ten of the classes."""
    lay_out(tmp_path / "office_caltech10", CALTECH)
    done = unihssl("data", "check", "office-31", "--root", tmp_path)
    printed = f"only 9 of 31 classes have images in {tmp_path}/office_caltech10/amazon, which may be another data set"
    assert printed in done.error and f"  amazon: {printed}" in done.stdout
    for part in ("    amazon/images/<class>/", "archives: domain_adaptation_images.tar.gz", "source: https://faculty"):
        assert part in done.stdout
    args = ("data", "prepare", "office-31", "--root", tmp_path, "--cache", tmp_path / "cache")
    assert printed in unihssl(*args).error and not (tmp_path / "cache").exists()
    args = ("benchmark", "office-31", "--root", tmp_path, "--pairs", "A/W", "--out", tmp_path / "runs")
    assert printed in unihssl(*args).error and not (tmp_path / "runs").exists()


def test_one_difference(tmp_path):
    lay_out(tmp_path, OFFICE31)
    (tmp_path / "dslr/mug/frame_00001.jpg").unlink()
    done = unihssl("data", "check", "office-31", "--root", tmp_path)
    assert f"error: office-31: 1 difference under {tmp_path}; first: dslr/mug: expected 8 images, found 7" in done.error
    assert "dslr (D): 497 of 498 images, 1 difference: " in done.stdout


def test_files_that_are_no_archives(tmp_path):
    assert "\nfiles: ISIC_2019_Training_Input.zip, " in unihssl("data", "check", "isic-2019", "--root", tmp_path).stdout


def test_digits_without_their_reader(tmp_path):
    if find_spec("h5py"):
        pytest.skip("h5py is here")
    (tmp_path / "usps.h5").write_bytes(b"")
    done = unihssl("data", "check", "digits", "--root", tmp_path)
    assert "error: digits: 1 difference under" in done.error and "usps.h5: reading it needs h5py" in done.error
    assert "mnist (M): 3,000 of 3,000 images, as published: embedded" in done.stdout
    assert "uci (UCI): 1,797 of 1,797 images, as published: embedded" in done.stdout


def test_digits_without_usps(tmp_path):
    done = unihssl("data", "check", "digits", "--root", tmp_path)
    assert done.code == 0
    assert "usps (U): absent; only pairs with it need it: unihssl data download digits\n" in done.stdout
    assert "uci (UCI): 1,797 of 1,797 images, as published: embedded" in done.stdout
    assert unihssl("data", "check", "digits", "--root", tmp_path, "--json").result["problems"] == []
    asked = unihssl("data", "check", "digits", "--root", tmp_path, "--domains", "usps")
    assert asked.code == 1 and "usps: not found" in asked.error


def test_wrong_names():
    assert "unknown data set 'ofice-31': did you mean office-31?" in unihssl("data", "check", "ofice-31").error
    assert "no domain 'X'" in unihssl("data", "check", "office-31", "--domains", "X").error


def test_prepare_keeps_finished_domains_when_killed(office31, tmp_path):
    args = ["data", "prepare", "office-31", "--root", office31, "--image-size", "48", "--cache", tmp_path / "cache"]
    started = Started(*args)
    while started.process.is_alive() and not list((tmp_path / "cache" / "index").glob("*")):
        time.sleep(0.005)
    started.kill()
    done = unihssl(*args)
    assert done.code == 0
    assert "amazon: 2,817 images, ready before" in done.stdout
    again = unihssl(*args, "--json").result["domains"]
    assert again["webcam"] == {"images": 795, "unreadable": {}, "new": False}
    assert [d["new"] for d in again.values()] == [False] * 3


def test_prepare_stopped_by_ctrl_c(office31, tmp_path):
    args = ["data", "prepare", "office-31", "--root", office31, "--image-size", "128", "--cache", tmp_path / "cache"]
    started = Started(*args)
    while started.process.is_alive() and not list((tmp_path / "cache" / "building").glob("*/samples.npy")):
        time.sleep(0.005)
    os.kill(started.process.pid, signal.SIGINT)
    done = started.finish()
    assert done.code == 130
    assert done.stderr.splitlines()[-1] == "stopped; rerun to continue"


def test_prepare_warns_of_what_differs_and_refuses_what_is_not_there(small, tmp_path):
    done = unihssl("data", "prepare", "office-31", "--root", small, "--domains", "W", "--image-size", "8")
    assert done.code == 0
    assert "warning: webcam/mug: expected 27 images, found 4" in done.stderr
    assert "webcam: 124 images, decoded in" in done.stdout
    gone = unihssl("data", "prepare", "office-31", "--root", tmp_path / "no")
    assert f"{tmp_path}/no: there is no such folder or archive" in gone.stderr
    assert "amazon: not found" in gone.error and "nothing was decoded" in gone.error
    (tmp_path / "file").write_text("in the way")
    args = ("--root", small, "--domains", "W", "--image-size", "12", "--cache", tmp_path / "file")
    blocked = unihssl("data", "prepare", "office-31", *args).error
    assert f"{tmp_path}/file: cannot keep webcam (53,568 bytes): " in blocked and "pass another --cache DIR" in blocked
    none = unihssl("data", "prepare", "office-31", "--root", small, "--cache", "none")
    assert "the cache is switched off" in none.error


def test_prepare_of_a_moved_data_set_decodes_nothing(small, tmp_path):
    args = [
        "data",
        "prepare",
        "office-31",
        "--domains",
        "W",
        "--image-size",
        "8",
        "--cache",
        tmp_path / "cache",
        "--root",
    ]
    assert "webcam: 124 images, decoded in" in unihssl(*args, small).stdout
    assert "webcam: 124 images, ready before" in unihssl(*args, small.rename(tmp_path / "elsewhere")).stdout


def test_report_counts_target_labels(own_folders, tmp_path):
    labeled, unlabeled = own_folders()
    (tmp_path / "own.csv").write_text("path,label\nred/08.png,red\nblue/00.png,blue\n")
    options = ["--labeled", labeled, "--unlabeled", unlabeled, "--set", f"target_labels={tmp_path / 'own.csv'}"]
    shown = unihssl("data", "report", *options)
    assert "Target labels: 2, trained on" in shown.stdout and shown.stdout.count("target labels") == 1
    found = unihssl("data", "report", *options, "--json").result
    assert found["unlabeled"]["target_labels"] == {"blue": 1, "green": 0, "red": 1}


def test_download_says_where_to_get_the_others():
    done = unihssl("data", "download", "office-home")
    assert "cannot be downloaded by a command" in done.error and "Google Drive" in done.error


def test_train_and_evaluate_on_a_pair(small, tmp_path):
    """A run notes where its domains came from, and finds them again."""
    for path in sorted(small.rglob("*.jpg")):
        path.unlink()
        path.write_bytes(tiny() + str(path).encode())  # no two are identical; what follows a JPEG's end is ignored
    pair = tuple(f"catalog:office-31/{domain}@{small}" for domain in ("W", "dslr"))
    done = train(pair, tmp_path / "run", "--json", epochs=1, test_fraction=0.25)
    assert any("office-31 is not as published" in note for note in done.result["notes"])
    result = unihssl("evaluate", tmp_path / "run", "--json").result
    assert result["pooled"]["n"] == 2 * 31
    assert result["pooled"]["accuracy"] == pytest.approx(done.result["pooled"]["accuracy"])

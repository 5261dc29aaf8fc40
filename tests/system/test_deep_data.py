"""Scans of more than 8 bits, from the command line: looked at, trained on, predicted."""

import json

import numpy as np
import pytest
from PIL import Image
from warm_cli import train, train_args, unihssl

SIDE = 24


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """12-bit scans in 16-bit PNG files, and the other scanner's reflectances from 0 to 10,000 as float TIFF."""
    root = tmp_path_factory.mktemp("scans")
    rng = np.random.default_rng(0)
    for number in range(24):
        ramp = np.linspace(0, 1, SIDE * SIDE).reshape(SIDE, SIDE)
        ramp = (ramp if number % 2 else ramp.T) + rng.uniform(0, 0.2, (SIDE, SIDE))
        for name, top, kind in (("a", 4095, np.uint16), ("b", 10000, np.float32)):
            path = root / name / ("across" if number % 2 else "down") / f"{number}.{'png' if name == 'a' else 'tif'}"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray((ramp / ramp.max() * top).astype(kind)).save(path)
    return root / "a", root / "b"


def test_report_train_predict(scans, tmp_path):
    shown = unihssl("data", "report", "--labeled", scans[0], "--unlabeled", scans[1])
    assert "PNG uint16: 0 to 4096" in shown.stdout and "24 TIFF float32" in shown.stdout
    done = train(scans, tmp_path / "run", epochs=1)
    assert "(PNG uint16): 0 to 4096 become the 256 grey levels (auto: the range of their values)" in done.stderr
    about = json.loads((tmp_path / "run" / "model.json").read_text())
    assert set(about["windows"]["labeled"]) == {"PNG uint16"} and set(about["windows"]["unlabeled"]) == {"TIFF float32"}
    predicted = unihssl("predict", tmp_path / "run", scans[1], "--out", tmp_path / "preds.csv")
    assert predicted.code == 0 and len((tmp_path / "preds.csv").read_text().splitlines()) == 25


def test_small_floats_are_warned_of_and_get_the_window_asked_for(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", x=rng.uniform(0, 0.01, (40, 16, 16)).astype(np.float32), y=np.arange(40) % 2)
    sources = tmp_path / "a.npz", tmp_path / "b.npz"
    done = train(sources, tmp_path / "run", epochs=1)
    warning = f"note: {sources[0]} (array float32): warning: almost all values share 4 of the 256 grey levels: export"
    assert warning in done.stderr and "or choose another --set intensity" in done.stderr
    done = train(sources, tmp_path / "wide", epochs=1, intensity="window:0,0.01")
    assert "0 to 0.01 become the 256 grey levels (window:0,0.01)" in done.stderr and "almost all" not in done.stderr
    options = ["--labeled", sources[0], "--unlabeled", sources[1], "--set", "intensity=window:0,0.01"]
    assert "array float32: 0 to 0.01" in unihssl("data", "report", *options).stdout


def test_five_bands_have_a_report(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        y = np.arange(40) % 2
        x = rng.integers(0, 90, (40, 16, 16, 5), dtype=np.uint8)
        x[y == 1, 4:12, 4:12, 3] += 120
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    arguments = train_args(tmp_path / "a.npz", tmp_path / "b.npz", tmp_path / "run", channels=5, test_fraction=0.3)
    done = unihssl(*(argument for argument in arguments if argument != "--no-report"))
    assert done.code == 0 and f"Report: {tmp_path / 'run' / 'report.html'}" in done.stderr
    assert (tmp_path / "run" / "report.html").read_text().count("data:image") > 20


def test_wrong_knobs(scans, tmp_path):
    assert (
        "intensity must be auto, full, percentile or window:LOW,HIGH"
        in train(scans, tmp_path / "run", intensity="wide").error
    )
    error = train(scans, tmp_path / "run", channels=5).error
    assert "1 channels (or pages), and --set channels=5: all images need the same number" in error
    assert (
        "the report is on images"
        in unihssl("data", "report", "--labeled", _vectors(tmp_path, "a"), "--unlabeled", _vectors(tmp_path, "b")).error
    )


def _vectors(folder, name):
    np.savez(folder / f"{name}.npz", x=np.eye(4), y=np.array([0, 1, 0, 1]))
    return folder / f"{name}.npz"

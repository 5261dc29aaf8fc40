"""`unihssl select`: finds the good run without labels, looks at no test image, and refuses what cannot be compared."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import unihssl
from unihssl.cli import app
from unihssl.experiments import selection
from unihssl.experiments.selection import score_runs, shared_images
from unihssl.run_folder import RunFolder

QUICK = {"epochs": 4, "batch_size": 16, "tensorboard": False, "method": "supervised"}


@pytest.fixture(scope="module")
def arrays(tmp_path_factory) -> tuple[Path, Path]:
    """Three classes of 40 vectors; those of the unlabeled domain are shifted a little."""
    folder, rng = tmp_path_factory.mktemp("arrays"), np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    for name, shift in (("a", 0.0), ("b", 0.5)):
        np.savez(folder / f"{name}.npz", x=rng.normal(size=(120, 5)) + 4 * np.eye(5)[y] + shift, y=y)
    return folder / "a.npz", folder / "b.npz"


@pytest.fixture(scope="module")
def runs(arrays, tmp_path_factory) -> Path:
    """Two seeds that learn, and a run that does not."""
    out = tmp_path_factory.mktemp("runs")
    for name, more in (("good", {}), ("seed", {"seed": 1}), ("bad", {"lr": 1e-8})):
        unihssl.fit(*map(str, arrays), out / name, **QUICK | more)
    return out


def command(*args: object) -> str:
    done = CliRunner().invoke(app, ["select", *map(str, args)], catch_exceptions=False, standalone_mode=False)
    return done.stdout


def test_the_run_that_learnt_nothing_comes_last(runs):
    ranked = unihssl.select(runs)
    accuracy = [unihssl.load(c.run).result["unlabeled"]["accuracy"] for c in ranked]
    assert accuracy[0] > 0.8 and ranked[-1].run == runs / "bad" and accuracy[-1] < 0.7
    assert {c.seed for c in ranked} == {0, 1} and "lr=1e-08" in ranked[-1].name
    for name in ("corr_c", "infomax", "mean_rank"):
        assert unihssl.select([runs / n for n in ("good", "seed", "bad")], name)[-1].run == runs / "bad"


def test_no_test_image_and_no_label_is_looked_at(runs, arrays, tmp_path):
    """Other labels and other test samples change no score."""
    folders = [RunFolder(runs / name) for name in ("good", "seed", "bad")]
    tested = {row for folder in folders for row in folder.read_split()["unlabeled"]["test"]}
    shared = shared_images(folders)
    assert len(tested) > 12 and not tested & set(shared) and len(tested) + len(shared) == 120
    with np.load(arrays[1]) as saved:
        x, y = saved["x"], saved["y"]
    x[[int(row) for row in tested]] = 99
    np.savez(tmp_path / "other.npz", x=x, y=np.roll(y, 40))
    own = score_runs(folders, shared, device="cpu")
    assert score_runs(folders, shared, str(tmp_path / "other.npz"), "cpu") == own


def test_the_table_and_json(runs, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    text, found = command(runs), json.loads(command(runs, "--json"))
    assert "Best by " in text and "points below the best run" in text and "lr=1e-08" in text
    assert found["best"] == found["runs"][0]["run"] and found["measured"]["pairs"] > 0
    scores = [row["score"] for row in found["runs"]]
    assert len(scores) == 3 and scores == sorted(scores, reverse=True)
    assert json.loads(command(runs, "--json", "--by", "corr_c"))["measured"] is None


def test_what_cannot_be_compared_is_one_line(runs, arrays, vector_arrays, tmp_path, monkeypatch):
    with pytest.raises(unihssl.UserError, match="one run only; choosing needs two or more"):
        unihssl.select([runs / "good"])
    with pytest.raises(unihssl.UserError, match="no such folder"):
        unihssl.select([runs / "none"])
    with pytest.raises(unihssl.UserError, match="no score 'luck'; there are confidence, entropy"):
        unihssl.select([runs], "luck")
    unihssl.fit(str(arrays[1]), str(arrays[0]), tmp_path / "reverse", **QUICK)
    with pytest.raises(unihssl.UserError, match="runs of different data cannot be compared; their labeled domains"):
        unihssl.select([runs, tmp_path / "reverse"])
    monkeypatch.setattr(selection, "FEWEST", 1000)
    with pytest.raises(unihssl.UserError, match="unlabeled training images in common, too few"):
        unihssl.select([runs])


def test_data_that_has_moved_is_named_again(runs, arrays, tmp_path):
    here = tmp_path / "runs"
    for name in ("good", "bad"):
        run = RunFolder(shutil.copytree(runs / name, here / name))
        split = run.read_split()
        split["unlabeled"]["source"] = str(tmp_path / "gone.npz")
        run.write_split(split)
    with pytest.raises(unihssl.UserError, match=r"gone\.npz: the unlabeled data of this run is not there; say where"):
        unihssl.select([here])
    assert unihssl.select([here], unlabeled=str(arrays[1]))[0].run == here / "good"
    with np.load(arrays[1]) as saved:
        np.savez(tmp_path / "fewer.npz", x=saved["x"][:50])
    with pytest.raises(unihssl.UserError, match=r"fewer.npz: .* training images are gone \("):
        unihssl.select([here], unlabeled=str(tmp_path / "fewer.npz"))

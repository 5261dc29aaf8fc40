"""Runs that earlier versions left behind, in tests/fixtures: still loaded, measured, listed, drawn and resumed."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import unihssl
from unihssl.cli import app
from unihssl.data.catalog.digits import embedded_digits
from unihssl.run_folder import RunFolder

FIXTURES = Path(__file__).parents[1] / "fixtures"
# The stopped ones were stopped at step 3 of 9 of their last stage, on labeled.npz and unlabeled.npz.
FINISHED = FIXTURES / "run-0.1.0-finished"  # MNIST to UCI digits, one epoch
EXPECTED = FIXTURES / "run-0.1.0-finished.json"  # class probabilities of the first digits of both domains
LATER = FIXTURES / "run-0.2.0-finished"  # of labeled.npz and unlabeled.npz; with features for novelty
LATER_EXPECTED = FIXTURES / "run-0.2.0-finished.json"
SOURCES = FIXTURES / "labeled.npz", FIXTURES / "unlabeled.npz"
VECTORS = FIXTURES / "vectors-labeled.npz", FIXTURES / "vectors-unlabeled.npz"


def progress(run: Path) -> list[dict]:
    """What every version says alike about a row of the log."""
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [{name: row[name] for name in ("stage", "epoch", "step", "global_step", "lr", "loss")} for row in rows]


def command(*args: object) -> str:
    done = CliRunner().invoke(app, [str(a) for a in args], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A copy: commands may lock a run, and the repository may be read-only."""
    return shutil.copytree(FINISHED, tmp_path / "grid" / "run")


@pytest.mark.parametrize("domain", ["mnist", "uci"])
def test_its_model_predicts_what_it_did(finished, domain):
    expected = np.array(json.loads(EXPECTED.read_text())[domain])
    model = unihssl.load(finished, device="cpu")
    x = embedded_digits(domain)[0][: len(expected)]
    found = model.predict_proba(x)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    first, second = np.sort(expected)[:, :-3:-1].T
    clear = first - second > 1e-2
    assert clear.sum() >= len(expected) - 2
    assert (model.predict(x)[clear] == model.classes_[expected.argmax(1)][clear]).all()


def test_it_is_measured_as_it_was(finished):
    noted = json.loads((finished / "result.json").read_text())
    found = unihssl.evaluate(finished, device="cpu")
    for part in ("pooled", "labeled", "unlabeled"):
        assert found[part]["n"] == noted[part]["n"]
        for measure in ("accuracy", "class_mean_accuracy", "macro_f1"):  # a digit or two may be a draw
            assert found[part][measure] == pytest.approx(noted[part][measure], abs=2.5 / found[part]["n"])
        assert found[part]["accuracy_by_rule"] == pytest.approx(
            noted[part]["accuracy_by_rule"], abs=2.5 / found[part]["n"]
        )


def test_it_is_in_the_table(finished):
    (row,) = json.loads(command("table", finished.parent, "--json"))
    noted = json.loads((finished / "result.json").read_text())
    assert (row["method"], row["seeds"]) == ("unihssl", 1)
    for part in ("pooled", "labeled", "unlabeled"):
        assert row[part] == pytest.approx(100 * noted[part]["accuracy"])
    assert "mnist/uci" in command("table", finished.parent)


def test_its_curves_are_drawn(finished, tmp_path):
    files = json.loads(command("plot", "learning", finished, "--out", tmp_path, "--json"))["files"]
    assert [Path(file).name for file in files] == ["learning.png", "learning.svg"]
    assert all(Path(file).stat().st_size for file in files)


@pytest.mark.parametrize(
    ("fixture", "done"),
    [
        ("run-0.1.0-stopped", 9),  # Uni-HSSL
        ("run-0.1.0-mcc-stopped", 3),  # schedule=inverse, a knob that has another name now
        ("run-0.1.0-fixmatch-stopped", 3),  # ema=0.9: its checkpoint calls the moving average otherwise
    ],
)
def test_a_stopped_one_resumes_to_its_end(tmp_path, fixture, done):
    run = shutil.copytree(FIXTURES / fixture, tmp_path / "run")
    before = progress(run)
    labeled, unlabeled = FIXTURES / "labeled.npz", FIXTURES / "unlabeled.npz"
    model = unihssl.fit(labeled, unlabeled, out=run, resume=True, device="cpu")
    rows = progress(run)
    assert len(before) == done and rows[:done] == before  # from where it was
    assert [row["global_step"] for row in rows] == list(range(1, done + 7))
    assert (run / "result.json").exists() and not (run / "checkpoint.pt").exists()
    assert model.classes_.tolist() == ["blue", "green", "red"] and model.result["pooled"]["n"] == 6
    x = np.load(unlabeled)["x"]
    np.testing.assert_array_equal(unihssl.load(run, device="cpu").predict(x), model.predict(x))


def test_a_resumed_one_keeps_its_schedule(tmp_path):
    run = shutil.copytree(FIXTURES / "run-0.1.0-mcc-stopped", tmp_path / "run")
    unihssl.fit(FIXTURES / "labeled.npz", FIXTURES / "unlabeled.npz", out=run, resume=True, device="cpu")
    config = RunFolder(run).read_config()
    factors = [(1 + config["decay_gamma"] * step) ** -config["decay_power"] for step in range(9)]
    assert [row["lr"] for row in progress(run)] == pytest.approx([config["lr"] * factor for factor in factors])


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """The same of 0.2.0, beside its data under the names that it noted."""
    return shutil.copytree(LATER, tmp_path / "grid" / "run")


def test_a_model_of_0_2_0_predicts_what_it_did(later, tmp_path):
    expected = json.loads(LATER_EXPECTED.read_text())
    model = unihssl.load(later, device="cpu")
    assert model.version == "0.2.0"
    for role, source in zip(("labeled", "unlabeled"), SOURCES, strict=True):
        x = np.load(source)["x"][:12]
        np.testing.assert_allclose(model.predict_proba(x), expected[role], atol=1e-4)
        assert np.isfinite(model.novelty(x)).all()
    command("predict", later, SOURCES[1], "--out", tmp_path / "preds.csv")
    assert len((tmp_path / "preds.csv").read_text().splitlines()) == 1 + len(np.load(SOURCES[1])["x"])


def test_a_run_of_0_2_0_is_measured_and_in_the_table(later):
    noted = json.loads((later / "result.json").read_text())
    labeled, unlabeled = SOURCES
    found = unihssl.evaluate(later, labeled, unlabeled, device="cpu", held_out=True)
    assert found["pooled"]["n"] == noted["pooled"]["n"] == 12
    assert found["pooled"]["accuracy"] == pytest.approx(noted["pooled"]["accuracy"], abs=1.5 / 12)  # one may be a draw
    (row,) = json.loads(command("table", later.parent, "--json"))
    assert row["pooled"] == pytest.approx(100 * noted["pooled"]["accuracy"])


def test_a_stopped_run_of_0_2_0_resumes_to_its_end(tmp_path):
    run = shutil.copytree(FIXTURES / "run-0.2.0-vectors-stopped", tmp_path / "run")
    before = progress(run)
    model = unihssl.fit(*VECTORS, out=run, resume=True, device="cpu")
    rows = progress(run)
    assert len(before) == 3 and rows[:3] == before
    assert [row["global_step"] for row in rows] == list(range(1, 10))
    assert (run / "result.json").exists() and not (run / "checkpoint.pt").exists()
    assert model.classes_.tolist() == ["ash", "birch", "cedar"]
    x, y = (np.load(VECTORS[0])[name] for name in "xy")
    assert model.score(x, y) > 0.9

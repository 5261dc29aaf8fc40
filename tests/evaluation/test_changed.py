"""`evaluate` and `predict` say when the data of a run, or this package, is not what it was in training."""

import json

import pytest
from typer.testing import CliRunner

import unihssl
from unihssl.cli import app
from unihssl.evaluation import changed
from unihssl.evaluation.changed import changed_data_notes, other_version_note

KNOBS = {"backbone": "small_cnn", "device": "cpu", "epochs": 1, "tensorboard": False, "method": "supervised"}


@pytest.mark.parametrize(("cache", "most"), [("cache", 2**29), ("none", 2**29), ("cache", 0)])
def test_changed_images_are_noticed(own_folders, tmp_path, monkeypatch, cache, most):
    """Files that the cache knows are not read; without it they are, unless there are too many bytes."""
    monkeypatch.setattr(changed, "MOST_BYTES", most)
    labeled, unlabeled = own_folders(per_class=8)
    cache = cache if cache == "none" else str(tmp_path / cache)
    model = unihssl.fit(labeled, unlabeled, tmp_path / "run", cache=cache, test_fraction=0.3, **KNOBS)
    assert changed_data_notes(model) == []
    image = next((unlabeled / "red").iterdir())
    image.write_bytes(next((unlabeled / "blue").iterdir()).read_bytes())
    (note,) = changed_data_notes(unihssl.load(tmp_path / "run"))
    assert note == f"the unlabeled data of this model changed since it was trained: {unlabeled}"
    with pytest.warns(UserWarning, match="the unlabeled data of this model changed"):
        assert note in unihssl.evaluate(tmp_path / "run", device="cpu")["notes"]
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "run"), str(image), "--out", str(tmp_path / "p.csv")])
    assert done.exit_code == 0 and done.stderr.count(f"note: {note}\n") == 1
    image.unlink()
    assert changed_data_notes(model) == [note]


def test_a_run_may_not_send_us_through_the_whole_disk(own_folders, tmp_path, monkeypatch):
    labeled, unlabeled = own_folders(per_class=8)
    model = unihssl.fit(labeled, unlabeled, tmp_path / "run", **KNOBS)
    for number in range(1300):
        (labeled / f"{number}.txt").touch()
    monkeypatch.setattr(changed, "_content", lambda *_: pytest.fail("it was listed"))
    monkeypatch.setattr(model, "data", {"labeled": model.data["labeled"]})
    model.version = "\x1b[31m"
    assert changed_data_notes(model) == []
    assert "\x1b" not in "".join(other_version_note(model))


def test_arrays_and_data_that_is_gone_are_not_spoken_of(image_arrays, own_folders, tmp_path):
    model = unihssl.fit(*image_arrays, out=tmp_path / "arrays", **KNOBS)
    assert changed_data_notes(model) == []
    labeled, unlabeled = own_folders(per_class=8)
    model = unihssl.fit(labeled, unlabeled, tmp_path / "run", **KNOBS)
    labeled.rename(tmp_path / "moved")
    unlabeled.rename(tmp_path / "moved too")
    assert changed_data_notes(model) == []


def test_another_version_is_said(vector_arrays, tmp_path, monkeypatch):
    model = unihssl.fit(*vector_arrays, out=tmp_path / "run", **KNOBS | {"backbone": "mlp"})
    model.save(tmp_path / "saved")
    assert other_version_note(model) == []
    monkeypatch.setattr(changed, "__version__", "9.0.0")
    for folder in ("run", "saved"):
        loaded = unihssl.load(tmp_path / folder)
        assert other_version_note(loaded) == [f"this model was trained by unihssl {model.version}, and this is 9.0.0"]
    description = json.loads((tmp_path / "run" / "model.json").read_text())
    del description["version"], description["checksum"]  # as written at first: the environment has the version
    (tmp_path / "run" / "model.json").write_text(json.dumps(description))
    assert unihssl.load(tmp_path / "run").version == model.version
    (tmp_path / "run" / "environment.json").write_text('{"packages": 5}')
    assert other_version_note(unihssl.load(tmp_path / "run")) == []

"""Novelty: against a slow loop, out of the pass that predicts, saved with the model, and for every method."""

import csv
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

import unihssl
from unihssl import methods
from unihssl.cli import app
from unihssl.config import Settings, knob_fields
from unihssl.evaluation.novelty import Reference
from unihssl.models.classifier import main_classifier
from unihssl.run_folder import RunFolder

QUICK = {"epochs": 1, "sup_epochs": 1, "router_epochs": 1, "pretrain_epochs": 1, "batch_size": 16, "tensorboard": False}
OLD = Path(__file__).parents[1] / "fixtures" / "run-0.1.0-finished"


def fit(method: str, arrays: tuple, out: Path | None = None) -> unihssl.Model:
    known = knob_fields(Settings, methods.get(method).Params)
    return unihssl.fit(*arrays, out, method=method, **{k: v for k, v in QUICK.items() if k in known})


@pytest.fixture(scope="module")
def run(vector_arrays, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("novelty") / "run"
    fit("supervised", vector_arrays, out)
    return out


def test_percentiles_agree_with_a_slow_loop():
    rng = np.random.default_rng(0)
    training, new = rng.normal(size=(30, 4)), rng.normal(size=(9, 4))

    def distance(a: np.ndarray, b: np.ndarray) -> float:
        return 1 - float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))

    own = [min(distance(a, b) for j, b in enumerate(training) if j != i) for i, a in enumerate(training)]
    expected = [100 * sum(d < min(distance(x, b) for b in training) for d in own) / 30 for x in new]
    found = Reference.of(torch.from_numpy(training)).novelty(torch.from_numpy(new))
    np.testing.assert_allclose(found, expected, atol=100 / 30 + 1e-3)  # rounding may turn one comparison
    assert len(set(expected)) > 3


def test_rounding_for_the_file_changes_nothing():
    reference = Reference.of(torch.randn(20, 6, generator=torch.Generator().manual_seed(0)))
    again = Reference.from_tensors(reference.tensors())
    torch.testing.assert_close(again.features, reference.features, rtol=0, atol=1e-6)
    assert reference.tensors()["features"].dtype == torch.float16


@pytest.mark.parametrize("method", sorted(methods.available()))
def test_every_method_has_a_reference_of_its_training_samples(method, vector_arrays):
    model = fit(method, vector_arrays)
    known = np.concatenate([x for x, _ in vector_arrays])
    novelty = model.novelty(known)
    assert novelty.shape == (120,) and (novelty >= 0).all() and (novelty <= 100).all()
    assert model.reference is not None and model.reference.features.shape[0] == 108  # test samples are not in it
    assert (novelty < 1).sum() >= 108  # each of these is its own nearest


def test_one_pass_gives_prediction_features_and_novelty(run, vector_arrays):
    model = unihssl.load(run)
    passes = []
    hook = main_classifier(model.network).encoder.register_forward_hook(lambda *_: passes.append(1))
    found = model.predictions(vector_arrays[1][0])
    hook.remove()
    assert len(passes) == 1 and found.novelty is not None and found.features is None
    x = torch.from_numpy(vector_arrays[1][0]).float()
    with torch.inference_mode():
        features = main_classifier(model.network).features(x)
    np.testing.assert_allclose(model.reference.novelty(features), found.novelty)


def test_it_is_saved_with_the_run_and_by_save(run, vector_arrays, tmp_path):
    x = vector_arrays[1][0] + 2
    expected = unihssl.load(run).novelty(x)
    unihssl.load(run).save(tmp_path / "copy")
    np.testing.assert_array_equal(unihssl.load(tmp_path / "copy").novelty(x), expected)
    bare = unihssl.load(run)
    bare.reference = None
    bare.save(tmp_path / "copy")
    assert not RunFolder(tmp_path / "copy").features.exists()
    with pytest.raises(unihssl.UserError, match="saved without features of its training samples"):
        unihssl.load(tmp_path / "copy").novelty(x)


def test_features_of_another_model_are_refused(run, tmp_path):
    folder = RunFolder(shutil.copytree(run, tmp_path / "run"))
    save_file(Reference.of(torch.eye(3)).tensors(), folder.features)
    with pytest.raises(unihssl.UserError, match=r"features\.safetensors: not the features that model\.json describes"):
        unihssl.load(folder.path)
    folder.features.write_bytes(b"no tensors")
    with pytest.raises(unihssl.UserError, match=r"features\.safetensors: cannot be read, it is damaged"):
        unihssl.load(folder.path)


def test_predict_writes_novelty_and_unknown(run, vector_arrays, tmp_path):
    np.save(tmp_path / "new.npy", np.concatenate([vector_arrays[0][0][:20], -9 * np.ones((2, 5))]))
    arguments = ["predict", run, tmp_path / "new.npy", "--out", tmp_path / "p.csv", "--unknown-above", 90]
    done = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    with (tmp_path / "p.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:5] == ["path", "class", "confidence", "novelty", "unknown"]
    unknown = [row["unknown"] == "yes" for row in rows]
    assert unknown == [float(row["novelty"]) > 90 for row in rows] and all(row["class"] for row in rows)
    assert f"22 images, {sum(unknown)} of them probably of no class (unknown)" in done.stdout


def test_an_earlier_run_has_no_such_column(tmp_path):
    model = unihssl.load(OLD, device="cpu")
    found = model.predictions(np.zeros((2, 16, 16), dtype=np.uint8))
    found.to_csv(tmp_path / "p.csv")
    assert "novelty" not in (tmp_path / "p.csv").read_text()
    with pytest.raises(unihssl.UserError, match="saved without features"):
        found.to_csv(tmp_path / "q.csv", unknown_above=99)
    np.save(tmp_path / "new.npy", np.zeros((2, 16, 16), dtype=np.uint8))
    with pytest.raises(unihssl.UserError, match="--unknown-above cannot be told: this model was saved without"):
        arguments = ["predict", OLD, tmp_path / "new.npy", "--out", tmp_path / "r.csv", "--unknown-above", 99]
        CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False, standalone_mode=False)
    assert not list(tmp_path.glob("[qr].csv"))


@pytest.mark.parametrize("above", [-1, 0, 0.99, 101, math.nan])
def test_a_percentile_is_from_1_to_100(run, vector_arrays, above):
    with pytest.raises(unihssl.UserError, match="unknown_above is a percentile from 1 to 100"):
        unihssl.load(run).predictions(vector_arrays[0][0]).is_unknown(above)

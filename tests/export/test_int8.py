"""int8: quantised, measured on both domains, and refused where it costs too much."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from exported_models import random_model

import unihssl
from unihssl.evaluation import export_int8
from unihssl.evaluation.samples import training_samples
from unihssl.run_folder import RunFolder

QUICK = {"backbone": "small_cnn", "method": "supervised", "epochs": 8, "batch_size": 8, "tensorboard": False}


@pytest.fixture(scope="module")
def run(image_folders, tmp_path_factory):
    """A run that learnt the labeled domain; its unlabeled domain has no labels that it knows of."""
    folder = tmp_path_factory.mktemp("int8") / "run"
    unihssl.fit(*image_folders, folder, unlabeled_layout="flat", **QUICK)
    return folder


def test_int8_is_quantised_measured_and_described(run, tmp_path, image_arrays):
    path = tmp_path / "deep" / "model.onnx"
    about = unihssl.export_run(run, path, int8=True, max_loss=100)
    content = onnx.load(path)
    kinds = [node.op_type for node in content.graph.node]
    assert kinds.count("QuantizeLinear") >= 4 and {tensor.data_type for tensor in content.graph.initializer} >= {3}
    assert {entry.key: json.loads(entry.value) for entry in content.metadata_props} == json.loads(json.dumps(about))
    labeled, unlabeled = about["int8"]["labeled"], about["int8"]["unlabeled"]
    assert labeled["n"] == 6 and labeled["held_out"]
    assert labeled["float"] == unihssl.load(run).result["labeled"]["accuracy"]
    assert unlabeled["n"] == 60 and not unlabeled["held_out"] and unlabeled["float"] == 1 >= unlabeled["int8"] > 0.8
    assert about["data"] == unihssl.load(run).data and len(set(about["data"].values())) == 2
    session = onnxruntime.InferenceSession(path)
    found = session.run(["probabilities"], {"images": image_arrays[0][0]})[0]
    assert np.abs(found - unihssl.load(run).predict_proba(image_arrays[0][0])).max() < 0.2


def test_int8_that_costs_too_much_is_refused(run, tmp_path, monkeypatch):
    """What is written in place of the quantised file answers at random."""
    wrong = random_model("supervised", "small_cnn")
    monkeypatch.setattr(export_int8, "quantize", lambda source, target, samples: wrong.export(target))
    message = r"model.onnx: not written, as int8 loses \d+\.\d points on .* samples \(.*max_loss=\d+.0 accepts that"
    with pytest.raises(unihssl.UserError, match=message):
        unihssl.export_run(run, tmp_path / "model.onnx", int8=True)
    assert not list(tmp_path.iterdir())


def test_int8_needs_a_run_and_its_data(run, tmp_path, vector_arrays):
    with pytest.raises(unihssl.UserError, match=r"int8=True is for .onnx files"):
        unihssl.export_run(run, tmp_path / "model.pt2", int8=True)
    unihssl.load(run).save(tmp_path / "saved")
    with pytest.raises(unihssl.UserError, match="int8=True needs the folder of a run"):
        unihssl.export_run(tmp_path / "saved", tmp_path / "model.onnx", int8=True)
    record = RunFolder(run).read_split()["labeled"]["source"]
    with pytest.raises(unihssl.UserError, match=r"elsewhere: .*"):
        unihssl.export_run(run, tmp_path / "model.onnx", int8=True, labeled=str(tmp_path / "elsewhere"))
    assert record and not (tmp_path / "model.onnx").exists()


def test_calibration_uses_training_samples_alone(run, image_arrays):
    from unihssl.pipeline.settings import settings_of

    folder = RunFolder(run)
    seen = training_samples(folder, "labeled", unihssl.load(run), settings_of(folder), None, 1000)
    assert len(seen) == len(folder.read_split()["labeled"]["train"]) == 54
    few = training_samples(folder, "labeled", unihssl.load(run), settings_of(folder), None, 10)
    assert len(few) == 10 and few.dtype == np.uint8 and few.shape[1:] == (16, 16, 3)

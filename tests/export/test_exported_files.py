"""Exported files give what the model gives, in a process without PyTorch."""

import json
import subprocess
import sys
import zipfile

import numpy as np
import onnx
import pytest
import torch
from exported_models import AUDIT, CLASSES, digits, random_model

import unihssl
from unihssl import methods
from unihssl.data import views
from unihssl.export import files

CASES = {  # each with the number of digits to compare, the prediction rule and the audit
    "unihssl-small_cnn": (200, "sum", AUDIT),
    "supervised+adabn-small_cnn": (200, None, AUDIT | {"labeled_temperature": None}),
    "mcc+sup-mlp": (200, None, AUDIT | {"threshold": None}),
    "fixmatch-resnet18": (6, None, None),
    "cdan-test_vit": (6, None, None),
}

WITHOUT_TORCH = """
import json, sys
from pathlib import Path
sys.modules.update(torch=None, unihssl=None)
import numpy as np, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
for path in sorted(Path(sys.argv[1]).glob("*.onnx")):
    session = onnxruntime.InferenceSession(path, options)
    with np.load(path.with_suffix(".npz")) as arrays:
        expected = dict(arrays)
    x = expected.pop("x")
    names = [output.name for output in session.get_outputs()]
    assert set(names) == set(expected), (path, names)
    for part in (x[:1], x[:2], x[:5], x):
        found = dict(zip(names, session.run(None, {session.get_inputs()[0].name: part})))
        for name, numbers in expected.items():
            wanted = numbers[: len(part)]
            assert found[name].dtype == wanted.dtype and found[name].shape == wanted.shape, (path, name)
            if wanted.dtype == bool:
                assert (found[name] == wanted).mean() > 0.95, (path, name)
                continue
            assert np.abs(found[name] - wanted).max() < 1e-4, (path, name)
            if name.startswith("probabilities"):
                logs = [np.log(np.maximum(p, 1e-12)) for p in (found[name], wanted)]  # logits, but for a constant
                # Untrained deep networks magnify rounding: in the ViT PyTorch's own float32 is 2e-4 from float64.
                tolerance = 1e-4 if path.stem.endswith(("small_cnn", "mlp")) else 1e-3
                assert np.abs(logs[0] - logs[1]).max() < tolerance, (path, name, np.abs(logs[0] - logs[1]).max())
                best = np.sort(wanted, axis=1)
                clear = best[:, -1] - best[:, -2] > 1e-4
                assert (found[name].argmax(1) == wanted.argmax(1))[clear].all(), (path, name)
print("same")
"""


def answers(model: unihssl.Model, x: np.ndarray) -> dict[str, np.ndarray]:
    """What the file should give, by the model's own methods."""
    found = model.predictions(x)
    expected = {"probabilities": model.probabilities(found)}
    if len(found.probabilities) > 1:
        expected |= {f"probabilities_{rule}": p for rule, p in found.probabilities.items()}
    if found.unlabeled_domain is not None:
        expected["unlabeled_domain"] = found.unlabeled_domain
    if model.audited is not None:
        calibrated = model.calibrated(found).astype(np.float32)
        least = np.inf if model.audited["threshold"] is None else model.audited["threshold"]
        abstain = model.probabilities(found).max(1) < least
        expected |= {"calibrated": calibrated, "confidence": calibrated.max(1), "abstain": abstain}
    return expected


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder with an ONNX file for each case, and what it should give."""
    folder = tmp_path_factory.mktemp("exported")
    for case, (count, rule, audit) in CASES.items():
        method, backbone = case.split("-")
        model = random_model(method, backbone, **({"prediction": rule} if rule else {}))
        model.audited = audit
        x = digits(count, vectors=backbone == "mlp")
        expected = answers(model, x)
        best = expected["probabilities"].argmax(1)
        assert len(set(best.tolist())) >= min(8, count // 3), "answers that are all alike would test nothing"
        model.export(folder / f"{case}.onnx")
        np.savez(folder / f"{case}.npz", x=x, **expected)
    return folder


def test_a_process_without_torch_gets_the_same(exported):
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, exported], capture_output=True, text=True)
    assert done.stdout.strip() == "same", done.stderr


def test_every_rule_is_among_the_cases():
    """A method with a prediction rule of its own needs a case."""
    tested = {methods.get(case.split("-")[0]).output.__func__ for case in CASES}
    assert {method.output.__func__ for method in methods.available().values()} == tested


def test_metadata_says_what_the_file_is_and_nothing_of_the_machine(exported):
    content = onnx.load(exported / "unihssl-small_cnn.onnx")
    about = {entry.key: json.loads(entry.value) for entry in content.metadata_props}
    assert about["classes"] == CLASSES and about["method"] == "unihssl" and about["stored_size"] == [16, 16]
    assert about["audit"] == AUDIT and about["rule"] == "sum" and about["int8"] is None
    assert about["unihssl_version"] and about["data"] == {}
    np.testing.assert_allclose(about["mean"], [0.485, 0.456, 0.406])
    assert b".py" not in content.SerializeToString()


def test_a_pt2_file_gives_the_same(tmp_path):
    model = random_model("unihssl", "small_cnn")
    model.audited = AUDIT
    model.export(tmp_path / "model.pt2")
    with zipfile.ZipFile(tmp_path / "model.pt2") as archive:  # nothing of the machine
        assert not any(b"/unihssl/" in archive.read(name) for name in archive.namelist())
    extra = {files.METADATA: ""}
    loaded = torch.export.load(tmp_path / "model.pt2", extra_files=extra).module()
    assert json.loads(extra[files.METADATA])["classes"] == CLASSES
    for count in (1, 2, 5):
        x = digits(200)[:count]
        found = loaded(torch.from_numpy(x))
        for name, numbers in answers(model, x).items():
            np.testing.assert_allclose(found[name].detach().numpy(), numbers, atol=1e-6)


def test_the_same_process_trains_and_predicts_afterwards(tmp_path, image_arrays):
    """Nothing that was made while tracing is kept."""
    views._kept_pixel_scale.cache_clear()
    model = random_model("supervised", "small_cnn")
    model.export(tmp_path / "model.pt2")
    knobs = {"backbone": "small_cnn", "method": "supervised", "epochs": 1, "tensorboard": False}
    unihssl.fit(*image_arrays, **knobs).predict(image_arrays[0][0])
    assert type(views._kept_pixel_scale(model.architecture.mean, torch.device("cpu"))) is torch.Tensor


def test_a_file_that_differs_from_pytorch_is_not_written(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_text("before")
    run = files.onnx_run
    monkeypatch.setattr(files, "onnx_run", lambda p: lambda x: {k: v + 0.01 for k, v in run(p)(x).items()})
    with pytest.raises(unihssl.UserError, match=r"model.onnx: not written, .* differs from PyTorch's by 0.01 in prob"):
        random_model("supervised", "mlp").export(path)
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_is_refused_in_one_line(tmp_path, monkeypatch):
    model = random_model("supervised", "mlp")
    with pytest.raises(unihssl.UserError, match=r"model.h5: exported models end in .onnx or .pt2"):
        model.export(tmp_path / "model.h5")
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(unihssl.UserError, match="is a folder"):
        model.export(tmp_path / "folder.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(unihssl.UserError, match=r"pip install 'unihssl\[export\]'"):
        model.export(tmp_path / "model.onnx")


@pytest.mark.parametrize(("suffix", "exporter"), [(".onnx", torch.onnx), (".pt2", torch.export)])
def test_what_torch_cannot_export_is_one_line(tmp_path, monkeypatch, suffix, exporter):
    def fail(*arguments, **named):
        raise NotImplementedError("an operator")

    monkeypatch.setattr(exporter, "export", fail)
    with pytest.raises(
        unihssl.UserError, match=r"torch .* cannot export this model.* \(NotImplementedError: an operator\)"
    ):
        random_model("supervised", "mlp").export(tmp_path / f"model{suffix}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
def test_images_of_any_size_are_resized_as_in_training(tmp_path, suffix):
    model = random_model("unihssl", "small_cnn")
    model.export(tmp_path / f"model{suffix}")
    if suffix == ".onnx":
        run = files.onnx_run(tmp_path / "model.onnx")
    else:
        loaded = torch.export.load(tmp_path / "model.pt2").module()

        def run(x):
            return {name: found.detach().numpy() for name, found in loaded(torch.from_numpy(x)).items()}

    rng = np.random.default_rng(0)
    for shape in ((1, 100, 37), (3, 5, 40), (2, 17, 16), (1, 300, 16), (1, 1, 1), (2, 16, 16)):
        x = rng.integers(0, 256, (*shape, 3), dtype=np.uint8)
        np.testing.assert_allclose(run(x)["probabilities"], model.predict_proba(x), atol=1e-4)

"""`unihssl export`, as a user calls it."""

import json

import torch
from warm_cli import train, unihssl


def test_an_audited_run_is_exported_with_its_audit(image_folders, tmp_path):
    run, path = tmp_path / "run", tmp_path / "new" / "model.pt2"
    assert train(image_folders, run).code == 0
    audit = {"temperature": 2.0, "labeled_temperature": None, "threshold": 0.4, "max_risk": 0.1, "delta": 0.1}
    sample = {"label": ["red"], "predicted": ["red"], "confidence": [0.9]}
    more = {"n": 1, "accuracy": {"value": 1.0, "low": 0.1, "high": 1.0, "n": 1}, "sample": sample, "reference": [0.9]}
    (run / "audit.json").write_text(json.dumps(audit | more | {"class_accuracy": {}, "class_shares": {}}))
    about = unihssl("export", run, path, "--json").result
    assert about["out"] == str(path) and about["audit"] == audit and about["classes"] == ["blue", "green", "red"]
    loaded = torch.export.load(path).module()
    outputs = loaded(torch.zeros(3, *about["stored_size"], 3, dtype=torch.uint8))
    assert outputs["calibrated"].shape == (3, 3) and outputs["abstain"].shape == (3,)
    said = unihssl("export", run, path)
    assert (
        said.stdout == f"unihssl on small_cnn, takes images of any size -> {path}\n"
        and said.stderr == f"note: {path} was there before and has been replaced\n"
    )
    assert unihssl("export", run, path, "--int8").error == f"error: {path}: --int8 is for .onnx files"
    for option in ("--max-loss", "--labeled", "--unlabeled"):
        refused = unihssl("export", run, tmp_path / "other.onnx", option, "2").error
        assert refused == f"error: {option} is for --int8 alone: add that, or leave it out"
    assert not (tmp_path / "other.onnx").exists()
    assert "no such run directory" in unihssl("export", tmp_path / "missing", path).error

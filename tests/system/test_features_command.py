"""`unihssl features`: the numbers that the bare backbone gives, in a file that training accepts."""

import numpy as np
import timm
import torch
from PIL import Image
from warm_cli import unihssl

from unihssl.data.views import Views

TINY = ["--backbone", "resnet10t", "--weights", "none", "--set", "image_size=32"]


def test_features_are_those_of_the_backbone(image_folders, tmp_path) -> None:
    weights = tmp_path / "weights.pt"
    torch.manual_seed(0)
    backbone = timm.create_model("resnet10t", num_classes=0).eval()
    torch.save(backbone.state_dict(), weights)
    out = tmp_path / "new" / "features.npz"
    options = ["--backbone", "resnet10t", "--weights", weights, "--set", "image_size=32"]
    summary = unihssl("features", image_folders[0], out, *options, "--json").result
    saved = np.load(out)
    assert summary["shape"] == list(saved["x"].shape) == [60, 512]
    assert summary["classes"] == ["blue", "green", "red"] and saved["y"][0] == "blue"
    assert saved["names"][0] == "blue/00.png" and saved["x"].dtype == np.float32
    image = Image.open(image_folders[0] / "blue/00.png").resize((32, 32), Image.Resampling.BILINEAR)
    expects = timm.data.resolve_model_data_config(backbone)
    view = Views(expects["input_size"][1], tuple(expects["mean"]), tuple(expects["std"])).test
    with torch.no_grad():
        alone = backbone(view(torch.from_numpy(np.array(image)[None])))[0]
    np.testing.assert_allclose(saved["x"][0], alone.numpy(), rtol=1e-3, atol=1e-3)


def test_random_weights_are_those_of_the_seed(image_folders, tmp_path) -> None:
    found = []
    for number, seed in enumerate((0, 0, 1)):
        out = tmp_path / f"{number}.npz"
        summary = unihssl("features", image_folders[0], out, *TINY, "--set", f"seed={seed}", "--json").result
        assert summary["notes"][-1].startswith(f"the weights of resnet10t are random, by --set seed={seed}: ")
        found.append(np.load(out)["x"])
    np.testing.assert_array_equal(found[0], found[1])
    assert np.abs(found[0] - found[2]).max() > 0.01


def test_features_train_and_bad_targets_are_refused(image_folders, vector_arrays, tmp_path) -> None:
    for folder, name in zip(image_folders, ("a.npz", "b.npz"), strict=True):
        assert unihssl("features", folder, tmp_path / name, *TINY, "--json").code == 0
    sources = ["--labeled", tmp_path / "a.npz", "--unlabeled", tmp_path / "b.npz"]
    settings = [f"--set={s}" for s in ("epochs=1", "pretrain_epochs=1", "tensorboard=false")]
    assert unihssl("train", *sources, "--out", tmp_path / "run", *settings, "--json").result["pooled"]["n"] > 0
    assert ".npz" in unihssl("features", image_folders[0], tmp_path / "x.csv", *TINY).error
    assert "feature vectors already" in unihssl("features", tmp_path / "a.npz", tmp_path / "x.npz", *TINY).error

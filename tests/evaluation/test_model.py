"""A trained model: asked, saved, loaded."""

import copy
import json

import numpy as np
import pytest
import torch
from PIL import Image

import unihssl

QUICK = {"epochs": 2, "pretrain_epochs": 2, "batch_size": 8, "tensorboard": False}


@pytest.fixture(scope="module", params=["argmax", "sum"])
def model(request, image_arrays) -> unihssl.Model:
    return unihssl.fit(*image_arrays, backbone="small_cnn", prediction=request.param, **QUICK)


@pytest.fixture
def exact(model, doubles) -> unihssl.Model:
    """The same in double precision, where no rounding turns a near draw of two classes."""
    exact = copy.deepcopy(model)
    exact.network.double()
    return exact


@pytest.fixture(scope="module")
def on_vectors(vector_arrays) -> unihssl.Model:
    return unihssl.fit(*vector_arrays, **QUICK)


def test_shapes_and_consistency(model, image_arrays):
    x = image_arrays[1][0]
    probabilities, domain = model.predict_proba(x), model.predict_domain(x)
    assert probabilities.shape == (60, 3) and domain.shape == (60,)
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-6)
    assert (probabilities >= 0).all() and (domain >= 0).all() and (domain <= 1).all()
    assert (model.predict(x) == model.classes_[probabilities.argmax(1)]).all()


def test_the_rule_goes_from_2c_outputs_to_a_class_as_it_says(exact, image_arrays):
    """From the network's own outputs: argmax over 2C mod C, or argmax of the sum of halves."""
    model = exact
    x = image_arrays[0][0]
    pixels = torch.from_numpy(x).permute(0, 3, 1, 2) / 255
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (model.architecture.mean, model.architecture.std))
    with torch.inference_mode():
        joint = model.network((pixels - mean) / std).softmax(1)
    by_rule = {"argmax": joint.argmax(1) % 3, "sum": (joint[:, :3] + joint[:, 3:]).argmax(1)}
    assert (model.predict(x) == model.classes_[by_rule[model.rule]]).all()
    np.testing.assert_allclose(model.predict_domain(x), joint[:, 3:].sum(1), atol=1e-9)
    assert model.result["rule"] == model.rule


def test_a_saved_model_predicts_the_same(model, image_arrays, tmp_path):
    model.save(tmp_path / "deep" / "er")
    loaded = unihssl.load(tmp_path / "deep" / "er", device="auto")
    for x, _ in image_arrays:
        assert (loaded.predict(x) == model.predict(x)).all()
        assert (loaded.predict_proba(x) == model.predict_proba(x)).all()
        assert (loaded.predict_domain(x) == model.predict_domain(x)).all()
    assert loaded.classes_.dtype == model.classes_.dtype and loaded.rule == model.rule
    saved = {p.name for p in (tmp_path / "deep" / "er").iterdir()}
    assert saved == {"model.safetensors", "model.json", "features.safetensors", "README.md"}


def test_saving_again_replaces_the_model(model, on_vectors, vector_arrays, tmp_path):
    model.save(tmp_path)
    on_vectors.save(tmp_path)
    assert (unihssl.load(tmp_path).predict(vector_arrays[0][0]) == on_vectors.predict(vector_arrays[0][0])).all()


def test_one_at_a_time_or_all_together(exact, image_arrays):
    x = image_arrays[0][0]
    one_by_one = np.concatenate([exact.predict_proba(x[i : i + 1]) for i in range(5)])
    np.testing.assert_allclose(one_by_one, exact.predict_proba(x)[:5], atol=1e-9)
    many = np.concatenate([x] * 6)  # more than the batch it works in
    np.testing.assert_allclose(exact.predict_proba(many), np.tile(exact.predict_proba(x), (6, 1)), atol=1e-9)
    assert (exact.predict(many) == np.tile(exact.predict(x), 6)).all()


def test_files_folders_and_arrays_of_the_same_images_agree(model, image_arrays, tmp_path):
    x = image_arrays[0][0][:3]
    for i, pixels in enumerate(x):
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
    np.save(tmp_path / "x.npy", x)
    paths = sorted(tmp_path.glob("*.png"))
    for same in (tmp_path, paths, [str(p) for p in paths], tmp_path / "x.npy", x / 255.0, list(x)):
        np.testing.assert_allclose(model.predict_proba(same), model.predict_proba(x), atol=1e-5)


def test_no_file_is_left_out_in_silence(model, image_arrays, tmp_path):
    """A list has an answer for each of its files, or none at all."""
    for i, pixels in enumerate(image_arrays[0][0][:2]):
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
    (tmp_path / "bad.png").write_text("no image")
    with pytest.warns(UserWarning, match=r"skipped 1 of 3 images as unreadable .*bad.png"):
        assert len(model.predict(tmp_path)) == 2
    with pytest.raises(unihssl.UserError, match=r"bad.png: cannot be read; predictions\(\) leaves"):
        model.predict([tmp_path / "bad.png", tmp_path / "0.png"])
    with pytest.raises(unihssl.UserError, match=r"bad.png: cannot be read"):
        model.predict([tmp_path / "bad.png", tmp_path])
    with pytest.raises(unihssl.UserError, match="no samples were given"):
        model.predict([])
    assert "small_cnn, 3 classes" in repr(model)


def test_a_list_of_two_is_two_samples(model, on_vectors, image_arrays, vector_arrays):
    """Not samples and labels, as in training."""
    for asked, x in ((model, image_arrays[0][0]), (on_vectors, vector_arrays[0][0])):
        assert (asked.predict(list(x[:2])) == asked.predict(x[:2])).all()


def test_samples_of_another_kind_are_refused(model, on_vectors, image_arrays, vector_arrays):
    with pytest.raises(unihssl.UserError, match="this model takes images, and got samples of shape"):
        model.predict(vector_arrays[0][0])
    with pytest.raises(unihssl.UserError, match="this model takes vectors of length 5"):
        on_vectors.predict(image_arrays[0][0])
    with pytest.raises(unihssl.UserError, match="this model takes vectors of length 5"):
        on_vectors.predict(vector_arrays[0][0][:, :4])
    with pytest.raises(unihssl.UserError, match="shape"):
        model.predict(image_arrays[0][0][:0])


def test_a_model_of_the_labeled_domain_alone_knows_no_domains(image_arrays):
    quick = {name: value for name, value in QUICK.items() if name != "pretrain_epochs"}
    supervised = unihssl.fit(*image_arrays, backbone="small_cnn", method="supervised", **quick)
    with pytest.raises(unihssl.UserError, match="supervised does not tell the domains apart"):
        supervised.predict_domain(image_arrays[0][0])
    assert supervised.predict_proba(image_arrays[0][0]).shape == (60, 3)


def test_loading_what_is_no_model(model, on_vectors, tmp_path):
    with pytest.raises(unihssl.UserError, match="no such run directory or saved model"):
        unihssl.load(tmp_path / "missing")
    with pytest.raises(unihssl.UserError, match="device must be one of auto, cpu, cuda, got 'tpu'"):
        unihssl.load(tmp_path, device="tpu")
    with pytest.raises(unihssl.UserError, match=r"model\.json: not found"):
        unihssl.load(tmp_path)
    model.save(tmp_path)
    weights = (tmp_path / "model.safetensors").read_bytes()
    on_vectors.save(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(weights)
    with pytest.raises(unihssl.UserError, match=r"model\.safetensors does not fit its model\.json"):
        unihssl.load(tmp_path)
    for content, message in (
        (json.dumps({"format": 99}), "format 99"),
        ("{}", "not the description"),
        ("[]", "expected names and values"),
    ):
        (tmp_path / "model.json").write_text(content)
        with pytest.raises(unihssl.UserError, match=message):
            unihssl.load(tmp_path)


def test_a_run_that_has_not_finished_says_so(image_arrays, tmp_path, monkeypatch):
    monkeypatch.setattr("unihssl.methods.unihssl.UniHSSL.begin_adapt", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        unihssl.fit(*image_arrays, tmp_path, backbone="small_cnn", **QUICK)
    with pytest.raises(unihssl.UserError, match=f"has not finished; resume it with: .*out='{tmp_path}', resume=True"):
        unihssl.load(tmp_path)
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(unihssl.UserError, match="this run has finished, but its model is not there"):
        unihssl.load(tmp_path)


def test_one_image_without_its_batch_is_refused(model):
    with pytest.raises(unihssl.UserError, match=r"looks like one image: pass x\[None\]"):
        model.predict(np.zeros((16, 16, 3), dtype=np.uint8))


def test_predictions_have_classes_and_names(model, image_arrays):
    x = image_arrays[1][0]
    found = model.predictions(x)
    np.testing.assert_array_equal(found.classes, model.predict(x))
    assert len(found.names) == len(found.classes) == len(x)


def test_a_model_of_a_method_that_is_not_installed_says_so(model, tmp_path):
    model.save(tmp_path)
    description = json.loads((tmp_path / "model.json").read_text())
    changed = description | {"method": "theirs"}
    (tmp_path / "model.json").write_text(json.dumps(changed))
    with pytest.raises(unihssl.UserError, match=r"changed since it was written; .* on purpose, remove its checksum"):
        unihssl.load(tmp_path)
    del changed["checksum"]
    (tmp_path / "model.json").write_text(json.dumps(changed))
    with pytest.raises(unihssl.UserError, match="its method 'theirs' is not installed here"):
        unihssl.load(tmp_path)


def test_images_of_pillow_are_seen_as_their_files_are(model, tmp_path):
    rng = np.random.default_rng(3)
    pictures = [Image.fromarray(rng.integers(0, 256, (20 + i, 31, 3), dtype=np.uint8)) for i in range(3)]
    pictures.append(pictures[0].convert("L"))
    for i, picture in enumerate(pictures):
        picture.save(tmp_path / f"{i}.png")
    expected = model.predict_proba(tmp_path)
    assert np.array_equal(model.predict_proba(pictures), expected)
    assert model.predict_proba(pictures[1]) == pytest.approx(expected[1:2], abs=1e-5)


def test_images_of_pillow_that_cannot_be_taken_are_refused(model, on_vectors):
    with pytest.raises(unihssl.UserError, match="mode F do not say how they were stored"):
        model.predict(Image.fromarray(np.zeros((4, 4), dtype=np.float32)))
    with pytest.raises(unihssl.UserError, match="takes vectors of length 5, and got images"):
        on_vectors.predict(Image.new("RGB", (4, 4)))
    assert len(model.predict(Image.new("YCbCr", (4, 4)))) == 1


def test_a_model_is_saved_into_a_folder_of_its_own(model, on_vectors, vector_arrays, tmp_path, monkeypatch):
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(unihssl.UserError, match="is a folder of other files: save the model into a folder of its own"):
        model.save(tmp_path)
    run = tmp_path / "run"
    trained = unihssl.fit(*vector_arrays, run, **QUICK)
    with pytest.raises(unihssl.UserError, match="is a run's folder"):
        on_vectors.save(run)
    trained.save(run)  # back to where it comes from
    monkeypatch.chdir(tmp_path)
    loaded = unihssl.load("run")
    monkeypatch.chdir(run)
    loaded.save(run)
    assert (tmp_path / "README.md").read_text() == "mine"
    assert unihssl.load(run).result["labeled"] == trained.result["labeled"]


def test_labels_may_be_whole_floats(on_vectors, vector_arrays):
    (x, y), _ = vector_arrays
    assert on_vectors.score(x, y.astype(float)) == on_vectors.score(x, y)
    assert on_vectors.audit(x, y.astype(float))["accuracy"] == on_vectors.audit(x, y)["accuracy"]


def test_a_loaded_model_is_evaluated_where_it_is(on_vectors, vector_arrays):
    with pytest.raises(unihssl.UserError, match="device='cuda' is for a run's folder; this model is loaded, on cpu"):
        unihssl.evaluate(on_vectors, *vector_arrays, device="cuda")
    assert unihssl.evaluate(on_vectors, *vector_arrays, device="cpu")["pooled"]["n"] > 0

"""The nearest training images beside an answer."""

import numpy as np
import pytest
import torch
from PIL import Image

import unihssl
from colour_domains import colour_images, write_domain
from unihssl.evaluation.given_samples import given_domain
from unihssl.evaluation.nearest import training_images
from unihssl.run_folder import RunFolder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("nearest"))


def trained(place):
    """A run of two folders of images beside it."""
    labeled, unlabeled = (write_domain(place / name, *colour_images(6, 60 * i, i)) for i, name in enumerate("ab"))
    knobs = {"backbone": "small_cnn", "image_size": 16, "max_steps": 3, "tensorboard": False, "verbose": False}
    unihssl.fit(labeled, unlabeled, place / "run", **knobs)
    return place / "run"


@pytest.mark.parametrize("role", ["labeled", "unlabeled"])
def test_a_training_image_is_its_own_nearest(role, run, client):
    place = run.parent / {"labeled": "a", "unlabeled": "b"}[role]
    for name in RunFolder(run).read_split()[role]["train"][:5]:
        sent = {"files": (place / name).read_bytes()}
        nearest = client(path=run).post("/predict?nearest=true", files=sent).json()["predictions"][0]["nearest"]
        assert len(nearest) == 3 and all(image["image"].startswith("data:image/jpeg;base64,") for image in nearest)
        assert nearest[0]["domain"] == role
        assert nearest[0]["class"] == (name.split("/")[0] if role == "labeled" else None)
    model = unihssl.load(run, "cpu")
    _, store = model.decode(given_domain([place / name], model))
    features = model.predict_store(store, keep_features=True).features
    image = training_images(model)[int(model.reference.nearest(torch.from_numpy(features), 1))]
    assert np.array_equal(image.pixels, np.asarray(Image.open(place / name)))


def test_nothing_is_shown_unasked_or_without_the_images(run, client, pngs, folder):
    asked = {"files": pngs[0]}
    assert client(path=run).post("/predict", files=asked).json()["predictions"][0]["nearest"] is None
    assert client(path=folder).post("/predict?nearest=true", files=asked).json()["predictions"][0]["nearest"] is None


def test_images_that_are_gone_are_not_shown(client, pngs, tmp_path):
    run, asked = trained(tmp_path), {"files": pngs[0]}
    service = client(path=run)
    (run.parent / "b").rename(run.parent / "elsewhere")
    found = service.post("/predict?nearest=true", files=asked)  # gone since the service began
    assert found.status_code == 200 and all(n["domain"] == "labeled" for n in found.json()["predictions"][0]["nearest"])
    assert client(path=run).post("/predict?nearest=true", files=asked).json()["predictions"][0]["nearest"] is None

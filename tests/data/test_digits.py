"""The embedded pair of domains."""

from importlib.resources import files

import numpy as np
import pytest

from unihssl.data.catalog.digits import SIDE, embedded_digits


@pytest.mark.parametrize(("name", "count", "fewest"), [("mnist", 3000, 250), ("uci", 1797, 174)])
def test_shapes_and_classes(name, count, fewest):
    images, labels = embedded_digits(name)
    assert images.shape == (count, SIDE, SIDE)
    assert images.dtype == np.uint8
    assert labels.dtype == np.int64
    assert labels.shape == (count,)
    counts = np.bincount(labels)
    assert len(counts) == 10
    assert counts.min() >= fewest
    assert images.min() == 0
    assert images.max() > 240


@pytest.mark.parametrize("name", ["mnist", "uci"])
def test_images_are_the_digits_they_are_called(name):
    """Each image's nearest class mean, learned from the other half, is mostly its own."""
    images, labels = embedded_digits(name)
    pixels = images.reshape(len(images), -1).astype(np.float32)
    means = np.stack([pixels[::2][labels[::2] == digit].mean(0) for digit in range(10)])
    distances = ((pixels[1::2, None] - means) ** 2).sum(-1)
    assert (distances.argmin(1) == labels[1::2]).mean() > 0.7


def test_loading_twice_gives_the_same():
    for first, again in zip(embedded_digits("mnist"), embedded_digits("mnist"), strict=True):
        np.testing.assert_array_equal(first, again)


def test_embedded_file_is_small_and_holds_no_pickle():
    file = files("unihssl.data").joinpath("embedded/mnist3000.npz")
    assert len(file.read_bytes()) < 2**20
    with file.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
        assert {name: arrays[name].dtype.kind for name in arrays} == {"x": "u", "y": "u"}
        assert len(arrays["x"]) == len(arrays["y"]) == 3000

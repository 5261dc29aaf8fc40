"""Resizing inside of exported files: Pillow's, to the last bit."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from unihssl.data.images import resized
from unihssl.export.resizing import resize

SIDES = st.integers(1, 90)


@settings(max_examples=150, deadline=None)
@given(st.tuples(SIDES, SIDES), st.tuples(SIDES, SIDES), st.integers(0, 2**31), st.booleans())
def test_every_pixel_is_pillows(old, new, seed, extreme):
    rng = np.random.default_rng(seed)
    pixels = rng.choice([0, 255], (*old, 3)) if extreme else rng.integers(0, 256, (*old, 3))
    pixels = pixels.astype(np.uint8)
    expected = np.asarray(resized(Image.fromarray(pixels), *new))
    np.testing.assert_array_equal(resize(torch.from_numpy(pixels)[None], *new)[0].numpy(), expected)


def test_columns_come_before_rows():
    """Pillow 13 begins with the rows of a tall image, and rounds otherwise."""
    pixels = np.random.default_rng(0).integers(0, 256, (255, 71, 3), dtype=np.uint8)
    across = Image.fromarray(pixels).resize((22, 255), Image.Resampling.BILINEAR)
    expected = across.resize((22, 32), Image.Resampling.BILINEAR)
    assert resized(Image.fromarray(pixels), 32, 22) == expected

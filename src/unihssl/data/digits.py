"""The embedded domain pair: 3,000 MNIST digits and the 1,797 UCI digits that scikit-learn ships."""

from importlib.resources import files
from typing import Literal

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

SIDE = 20
Arrays = tuple[np.ndarray, np.ndarray]


def load_domain(name: Literal["mnist", "uci"]) -> Arrays:
    """Grey images (N, 20, 20) uint8 and their digits; UCI's 8x8 are enlarged."""
    if name == "uci":
        digits = load_digits()
        small = np.rint(digits.images * (255 / 16)).astype(np.uint8)
        large = [Image.fromarray(i).resize((SIDE, SIDE), Image.Resampling.BILINEAR) for i in small]
        return np.stack([np.asarray(i) for i in large]), digits.target.astype(np.int64)
    with files("unihssl.data").joinpath("embedded/mnist3000.npz").open("rb") as file, np.load(file) as arrays:
        return arrays["x"], arrays["y"].astype(np.int64)

"""The embedded domain pair: 3,000 MNIST digits and the 1,797 UCI digits that scikit-learn ships."""

from importlib.resources import files

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

SIDE = 16
DOMAINS = ("mnist", "uci")
Arrays = tuple[np.ndarray, np.ndarray]


def load_domain(name: str) -> Arrays:
    """Grey images (N, 16, 16) uint8 and their digits: UCI's 8x8 enlarged, MNIST's ink boxes of 20x20 shrunk."""
    if name == "uci":
        digits = load_digits()
        images, labels = np.rint(digits.images * (255 / 16)).astype(np.uint8), digits.target
    else:
        with files("unihssl.data").joinpath("embedded/mnist3000.npz").open("rb") as file, np.load(file) as arrays:
            images, labels = arrays["x"], arrays["y"]
    resized = [Image.fromarray(i).resize((SIDE, SIDE), Image.Resampling.BILINEAR) for i in images]
    return np.stack([np.asarray(i) for i in resized]), labels.astype(np.int64)

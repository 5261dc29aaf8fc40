"""Images of three colours in two domains: a problem that trains in well under a second."""

from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("blue", "green", "red")
SIDE = 16


def colour_images(count: int, brightness: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy images of three colours, `count` of each, and the colours' names; brightness is the domain."""
    rng = np.random.default_rng(seed)
    colours = np.repeat(np.arange(3), count)
    tint = 40 * np.eye(3)[2 - colours] + rng.normal(
        scale=15, size=(3 * count, 3)
    )  # some of each class look like another
    pixels = rng.integers(20, 120, (3 * count, SIDE, SIDE, 3)) + tint[:, None, None, :]
    return np.clip(pixels + brightness, 0, 255).astype(np.uint8), np.array(CLASSES)[colours]


def write_domain(root: Path, x: np.ndarray, y: np.ndarray) -> Path:
    """The images as PNG files in class folders."""
    for number, (pixels, name) in enumerate(zip(x, y, strict=True)):
        (root / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(root / name / f"{number:02d}.png")
    return root

"""Images as data URIs, small enough for a page."""

import base64
import io

import numpy as np
from PIL import Image

from unihssl.data.values import shown

COLD, WARM = np.array([38.0, 70.0, 160.0]), np.array([255.0, 190.0, 40.0])
SMALLEST = 48  # images of fewer pixels keep sharp edges when they are enlarged


def data_uri(pixels: np.ndarray, side: int) -> str:
    """A JPEG of uint8 pixels (H, W, C), its longer side reduced or enlarged to `side`."""
    image = Image.fromarray(shown(pixels))
    scale = side / max(image.size)
    size = max(round(image.width * scale), 1), max(round(image.height * scale), 1)
    small = max(image.size) < SMALLEST
    image = image.resize(size, Image.Resampling.NEAREST if small else Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=82)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def overlay(pixels: np.ndarray, heat: np.ndarray) -> np.ndarray:
    """The image in grey under its heat map (H, W) in 0..1: blue is cold, yellow is where the network looks."""
    grey = pixels.mean(2, keepdims=True)
    colour = COLD + (WARM - COLD) * heat[..., None]
    return np.asarray(np.clip(0.5 * grey + 0.5 * colour, 0, 255), dtype=np.uint8)

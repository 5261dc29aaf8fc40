"""Two domains in which only colour tells the class: crops of PACS tinted in seven hues, bright photographs and dull paintings.

    python hue_field.py STAGE

STAGE is the folder with pacs; the domains are written to STAGE/tint/bright and STAGE/tint/dull.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES, COUNT, SIDE = 7, 1050, 224


def tint(job):
    source, target, hue, seed, bright = job
    rng = np.random.default_rng(seed)
    image = Image.open(source).convert("RGB")
    side = int(min(image.size) * rng.uniform(0.5, 0.9))
    x, y = (int(rng.integers(0, length - side + 1)) for length in image.size)
    pixels = np.asarray(image.crop((x, y, x + side, y + side)).resize((SIDE, SIDE)).convert("HSV")).astype(float)
    shifted = (hue / CLASSES + rng.normal(0, 0.025) + (0 if bright else 0.03)) % 1
    pixels[..., 0] = (shifted * 256 + rng.normal(0, 3, pixels.shape[:2])) % 256
    pixels[..., 1] = np.clip(pixels[..., 1] * 0.4 + (90 if bright else 40), 0, 255)
    pixels[..., 2] *= 1 if bright else 0.8
    target.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8), "HSV").convert("RGB").save(target, quality=92)


if __name__ == "__main__":
    stage, rng, jobs = Path(sys.argv[1]), np.random.default_rng(0), []
    for domain, name in (("photo", "bright"), ("art_painting", "dull")):
        files = sorted((stage / "pacs" / domain).rglob("*.jpg"))
        for i, pick in enumerate(rng.permutation(len(files))[:COUNT]):
            target = stage / "tint" / name / f"hue{i % CLASSES}" / f"{i}.jpg"
            jobs.append((files[pick], target, i % CLASSES, 10000 * (name == "dull") + i, name == "bright"))
    with ProcessPoolExecutor() as pool:
        list(pool.map(tint, jobs, chunksize=50))

"""Small images in which only colour tells the class, with `small_cnn`: which views should the class confusion see?

    python hue_small.py STAGE SEEDS NAMES

1,200 crops of PACS's photographs and of its paintings, 32 pixels, tinted in ten hues; the paintings are unlabeled, duller
and shifted in hue. STAGE is the folder with pacs, NAMES are of RULES, SEEDS and NAMES have commas.
"""

import json
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import unihssl

CLASSES, COUNT, SIDE = 10, 1200, 32
BEFORE = {"labeled_view": "weak", "lambda_consistency": 0.0, "apart": 0.0}
RULES = {"strong": {"min_affinity": 0.0}, "weak": {"min_affinity": 1.0}}
RULES |= {f"{name} before": BEFORE | knobs for name, knobs in RULES.items()} | {"mcc+sup": {"method": "mcc+sup"}}


def field(folder, bright):
    files, rng = sorted(folder.rglob("*.jpg")), np.random.default_rng(0 if bright else 1)
    images = []
    for i in range(COUNT):
        image = Image.open(files[rng.integers(len(files))]).convert("RGB")
        side = int(min(image.size) * rng.uniform(0.5, 0.9))
        x, y = (int(rng.integers(0, length - side + 1)) for length in image.size)
        pixels = np.asarray(image.crop((x, y, x + side, y + side)).resize((SIDE, SIDE)).convert("HSV")).astype(float)
        hue = (i % CLASSES / CLASSES + rng.normal(0, 0.02) + (0 if bright else 0.04)) % 1
        pixels[..., 0] = (hue * 256 + rng.normal(0, 6, pixels.shape[:2])) % 256
        pixels[..., 1] = np.clip(pixels[..., 1] * 0.4 + (90 if bright else 40), 0, 255)
        pixels[..., 2] *= 1 if bright else 0.7
        images.append(np.asarray(Image.fromarray(pixels.clip(0, 255).astype(np.uint8), "HSV").convert("RGB")))
    return np.stack(images), np.arange(COUNT) % CLASSES


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    stage = Path(sys.argv[1])
    labeled, unlabeled = field(stage / "pacs/photo", True), field(stage / "pacs/art_painting", False)
    common = {"backbone": "small_cnn", "device": "cpu", "flip": False, "tensorboard": False, "verbose": False}
    for name in sys.argv[3].split(","):
        for seed in map(int, sys.argv[2].split(",")):
            with tempfile.TemporaryDirectory() as out:
                result = unihssl.fit(labeled, unlabeled, f"{out}/run", seed=seed, **common, **RULES[name]).result
                last = json.loads((Path(out) / "run/metrics.jsonl").read_text().splitlines()[-1])
            row = {"name": name, "dataset": "hue_small", "seed": seed, "affinity": last["stats"].get("affinity")}
            row |= {part: round(100 * result[part]["accuracy"], 1) for part in ("pooled", "labeled", "unlabeled")}
            print(json.dumps(row | {"test_f1": round(100 * result["unlabeled"]["macro_f1"], 1)}), flush=True)

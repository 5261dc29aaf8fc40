"""How fast images are loaded: plain Pillow, decoding into the cache, and starts that find them decoded.

    python benchmarks/loading.py [--images N] [--root DIR] [--side S] [--repeats R] [--json FILE]

Without --root, photo-like JPEGs of about 500x400 are made in a temporary folder. The cache is a temporary one too,
and nothing under --root is changed. Each figure is the best of the repeats; files come from the page cache.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from common import report
from PIL import Image

from unihssl.config import Settings
from unihssl.data.domain import Domain, unlabeled_domain
from unihssl.data.images import find_images
from unihssl.data.store import fill_store


def make_photos(folder: Path, count: int) -> Path:
    """Smooth colours under sensor noise: they compress, and decode, about as photos of this size do."""
    rng = np.random.default_rng(0)
    for number in range(count):
        height, width = rng.integers(360, 440), rng.integers(450, 550)
        coarse = Image.fromarray(rng.integers(0, 256, (25, 31, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC)).astype(int)
        pixels = np.clip(smooth + rng.integers(-12, 13, smooth.shape), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:06d}.jpg", quality=85)
    return folder


def plain_pillow(domain: Domain, side: int) -> None:
    """The reference: one thread, nothing but decoding and resizing."""
    for path in domain.items:
        np.asarray(Image.open(path).convert("RGB").resize((side, side), Image.Resampling.BILINEAR))


def measure(domain: Domain, side: int, cache: Path, repeats: int) -> dict[str, float]:
    """Seconds of each way to load, the best of the repeats."""

    def nothing() -> None:
        pass

    def no_cache() -> None:
        shutil.rmtree(cache, ignore_errors=True)

    def no_index() -> None:
        shutil.rmtree(cache / "index")

    def ours() -> None:
        fill_store(domain, (side, side), cache=cache)

    ways: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
        "plain Pillow, one thread": (nothing, lambda: plain_pillow(domain, side)),
        "decoded into memory": (nothing, lambda: fill_store(domain, (side, side)) and None),
        "cold: decoded into the cache": (no_cache, ours),
        "warm: nothing changed": (nothing, ours),
        "warm: files touched or moved": (no_index, ours),
    }
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(repeats):
        for name, (prepare, load) in ways.items():
            prepare()
            start = time.perf_counter()
            load()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how fast images are loaded.")
    parser.add_argument("--images", type=int, default=2000, help="how many to make, or the most to take from --root")
    parser.add_argument("--root", type=Path, help="folder of images to load in place of made ones")
    parser.add_argument("--side", type=int, default=256, help="side of the stored images")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        if options.root is None:
            (Path(temporary) / "images").mkdir()
        root = options.root or make_photos(Path(temporary) / "images", options.images)
        whole = unlabeled_domain(root, ("a", "b"), Settings(unlabeled_layout="flat"))
        domain = whole.keep(np.arange(min(options.images, len(whole))))
        seconds = measure(domain, options.side, Path(temporary) / "cache", options.repeats)
        megabytes = sum(path.stat().st_size for path in find_images(root)[: len(domain)]) / 1e6
    reference = next(iter(seconds.values()))
    rows = [
        {"way": way, "seconds": s, "images/s": len(domain) / s, "times plain Pillow": reference / s}
        for way, s in seconds.items()
    ]
    report(f"loading {len(domain)} images ({megabytes:.0f} MB) at {options.side} px", rows, options)


if __name__ == "__main__":
    main()

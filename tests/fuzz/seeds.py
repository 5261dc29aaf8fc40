"""Whole files to mutate: one of each kind that is opened, as small as they come."""

import contextlib
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

RUN = Path(__file__).parents[1] / "fixtures" / "run-0.1.0-finished"
NEWER_RUN = RUN.with_name("run-0.2.0-finished")
CONFIG = "method: unihssl\nseed: 3\nlr: 0.01\nflip: true\nbackbone: small_cnn\nlabeled: a\nsplit: stratified\n"
TABLE = "path,label,patient\n1.png,cat,a\n2.png,dog,b\n3.png,,c\n"


def image(kind: str, **options: Any) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (12, 9, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    deep = options.pop("deep", False)
    picture = Image.fromarray(pixels[..., 0].astype(np.uint16) * 257) if deep else Image.fromarray(pixels)
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def images() -> dict[str, bytes]:
    found = {kind.lower(): image(kind) for kind in ("PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF", "PPM", "TGA", "DDS")}
    found |= {"deep.png": image("PNG", deep=True), "deep.tiff": image("TIFF", deep=True)}
    found |= {"lzw.tiff": image("TIFF", compression="tiff_lzw"), "progressive.jpeg": image("JPEG", progressive=True)}
    found["eps"] = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    return found


def other_images() -> dict[str, bytes]:
    """Of formats that are not read, as far as Pillow writes them."""
    kinds = ("ICO", "AVIF", "JPEG2000", "PCX", "SGI", "PDF", "XBM", "IM", "MSP", "QOI")
    found = {}
    for kind in kinds:
        with contextlib.suppress(OSError, KeyError, ValueError):
            found[kind.lower()] = image(kind)
    return found


def dicom() -> dict[str, bytes]:
    """As small as pydicom's own examples come: of numbers, colours, several frames, compressed and without an image."""
    from pydicom.data import get_testdata_file  # the tests for a GPU are collected without it

    names = ("CT_small", "MR_small_RLE", "MR_small_bigendian", "rtplan", "ExplVR_LitEndNoMeta", "examples_palette")
    names += ("JPEG2000_UNC", "SC_rgb_small_odd", "rtdose_1frame")
    paths = {name: get_testdata_file(f"{name}.dcm", download=False) for name in names}
    return {name: Path(str(path)).read_bytes() for name, path in paths.items() if path}


def arrays() -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=np.ones((3, 4), np.float32), y=np.array(["a", "b", "a"]))
    return buffer.getvalue()


def archive(kind: str) -> bytes:
    buffer, content = io.BytesIO(), image("PNG")
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("data/a/1.png", content)
            packed.writestr("data/b/2.png", content)
        return buffer.getvalue()
    with tarfile.open(fileobj=buffer, mode="w:gz" if kind == "tar.gz" else "w") as tar:
        for name in ("data/a/1.png", "data/b/2.png"):
            about = tarfile.TarInfo(name)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))
    return buffer.getvalue()


def run_file(name: str) -> Any:
    return json.loads((RUN / name).read_text())

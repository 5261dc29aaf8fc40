"""Domains of images of more than 8 bits, written as files of any kind."""

from pathlib import Path

import numpy as np
import pytest
from test_images import png_16

from unihssl.config import Settings
from unihssl.data.pair import DomainPair, load_pair, read_domains

pydicom = pytest.importorskip("pydicom")
tifffile = pytest.importorskip("tifffile")
get_testdata_file = pytest.importorskip("pydicom.data").get_testdata_file

SIDE = 24
PER_CLASS = 6


def values(number: int, top: float, dtype: str, channels: int = 1) -> np.ndarray:
    """A ramp with noise, from 0 to `top` in every image."""
    rng = np.random.default_rng(number)
    ramp = np.linspace(0, 1, SIDE * SIDE).reshape(SIDE, SIDE, 1) + rng.uniform(-0.1, 0.1, (SIDE, SIDE, channels))
    ramp = (ramp - ramp.min()) / (ramp.max() - ramp.min()) * top
    return ramp.astype(dtype) if np.dtype(dtype).kind == "f" else np.rint(ramp).astype(dtype)


def write_png(path: Path, pixels: np.ndarray) -> None:
    path.with_suffix(".png").write_bytes(png_16(pixels, {1: 0, 2: 4, 3: 2, 4: 6}[pixels.shape[2]]))


def write_tiff(path: Path, pixels: np.ndarray, **options: object) -> None:
    more = {"photometric": "rgb"} if pixels.shape[2] == 3 else {"photometric": "minisblack"}
    tifffile.imwrite(path.with_suffix(".tif"), pixels.squeeze(), **(more | {"planarconfig": "contig"} | options))


def write_dicom(path: Path, pixels: np.ndarray, **changes: object) -> None:
    about = pydicom.dcmread(get_testdata_file("CT_small.dcm"))
    about.Rows, about.Columns = pixels.shape[:2]
    about.PixelData = pixels.astype(np.int16).tobytes()
    about["PixelData"].VR = "OW"
    del about.PixelPaddingValue
    for name, value in changes.items():
        setattr(about, name, value)
    about.save_as(path.with_suffix(".dcm"))


def domain(root: Path, write, top: float, dtype: str, channels: int = 1, start: int = 0, **options: object) -> Path:
    for number in range(2 * PER_CLASS):
        folder = root / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / str(number), values(start + number, top, dtype, channels), **options)
    return root


def two(root: Path, write, top: float, dtype: str, channels: int = 1, **options: object) -> tuple[Path, Path]:
    """Two domains of one kind."""
    a = domain(root / "a", write, top, dtype, channels, **options)
    return a, domain(root / "b", write, top, dtype, channels, start=50, **options)


def load(labeled: Path, unlabeled: Path, **knobs: object) -> DomainPair:
    settings = Settings(**{"image_size": SIDE, "cache": "none", "test_fraction": 0.25} | knobs)
    return load_pair(*read_domains(labeled, unlabeled, settings), settings, None, lambda _: lambda *_: None)


def level(pixels: np.ndarray, low: float, high: float) -> np.ndarray:
    """The grey level of each value, in plain arithmetic."""
    return np.clip((pixels.astype(np.float64) - low) / (high - low), 0, 1) * 255


def truth(part, top: float, dtype: str, channels: int = 1, start: int = 0) -> np.ndarray:
    return np.stack([values(start + int(Path(n).stem), top, dtype, channels) for n in part.domain.names])

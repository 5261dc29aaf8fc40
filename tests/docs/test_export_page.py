"""The script of docs/export.md answers as `predict` does, without PyTorch."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import unihssl

PAGE = Path(__file__).parents[2] / "docs" / "export.md"
SHORT, DEEP = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
WITHOUT_TORCH = (
    "import sys; sys.modules.update(torch=None, unihssl=None); del sys.argv[0]; exec(open(sys.argv[0]).read())"
)
QUICK = {"epochs": 2, "pretrain_epochs": 2, "batch_size": 8, "tensorboard": False, "backbone": "small_cnn"}


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    """Images of 8 bits, of every kind that is decoded in its own way."""
    rng = np.random.default_rng(0)
    rgb = rng.integers(0, 256, (40, 30, 3), dtype=np.uint8)
    rotated = Image.Exif()
    rotated[0x0112] = 6
    kinds = {
        "grey.png": Image.fromarray(rgb[..., 0]),
        "cmyk.jpg": Image.fromarray(rgb).convert("CMYK"),
        "palette.png": Image.fromarray(rgb).quantize(16),
        "transparent.png": Image.fromarray(np.concatenate([rgb, rgb[..., :1]], axis=2)),
        "small.bmp": Image.fromarray(rgb[:7, :9]),
        "stored.png": Image.fromarray(rgb[:16, :16]),
    }
    for name, image in kinds.items():
        image.save(tmp_path / name)
    Image.fromarray(rgb).save(tmp_path / "rotated.jpg", exif=rotated)
    return sorted(p for p in tmp_path.iterdir() if p.suffix != ".onnx")


def deep_scans(folder: Path, top: int, seed: int, count: int = 16) -> Path:
    """Grey PNGs of 16 bits whose values go up to `top`; classes differ by where they are bright."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        ramp = np.linspace(0, 1, 40 * 30).reshape(40, 30)
        ramp = (ramp if number % 2 else ramp[::-1]) * 0.8 + rng.uniform(0, 0.2, ramp.shape)
        path = folder / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.rint(ramp * top).astype(np.uint16)).save(path)
    return folder


def run_script(script: str, folder: Path, model: unihssl.Model, images: list[Path]) -> subprocess.CompletedProcess[str]:
    model.export(folder / "model.onnx")
    (folder / "classify.py").write_text(script)
    arguments = [folder / "classify.py", folder / "model.onnx", *images]
    return subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *arguments], capture_output=True, text=True)


def check_answers(script: str, folder: Path, model: unihssl.Model, images: list[Path]) -> None:
    done = run_script(script, folder, model, images)
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == [str(path) for path in images]
    assert [row[1] for row in rows] == model.predict(images).tolist()
    np.testing.assert_allclose([float(row[2]) for row in rows], model.predict_proba(images).max(1), atol=1e-4)


@pytest.mark.parametrize(("script", "channels"), [(SHORT, 3), (DEEP, 3), (DEEP, 1)])
def test_the_scripts_answer_as_predict_does(tmp_path, images, image_arrays, script, channels):
    model = unihssl.fit(*image_arrays, channels=channels, **QUICK)
    scans = sorted(deep_scans(tmp_path / "deep", 65535, 0, 2).rglob("*.png")) if script == SHORT else []
    check_answers(script, tmp_path, model, [*images, *scans])


@pytest.mark.parametrize(("channels", "other"), [(3, 4095), (3, 60000), (1, 9000)])
def test_images_of_12_bits_get_the_windows_of_the_metadata(tmp_path, images, channels, other):
    scans = deep_scans(tmp_path / "a", 4095, 0), deep_scans(tmp_path / "b", other, 1)
    model = unihssl.fit(*scans, channels=channels, image_size=24, **QUICK)
    assert {len(kinds) for kinds in model.windows.values()} == {1}
    deep = [path for folder in scans for path in sorted(folder.rglob("*.png"))]
    new = sorted(deep_scans(tmp_path / "new", (4095 + other) // 2, 2, 4).rglob("*.png"))
    check_answers(DEEP, tmp_path, model, [*deep, *new, *images])


def test_one_domain_of_8_bits_leaves_one_window(tmp_path, images):
    plain = deep_scans(tmp_path / "b", 255, 1)
    for path in plain.rglob("*.png"):
        Image.fromarray(np.asarray(Image.open(path)).astype(np.uint8)).save(path)
    model = unihssl.fit(deep_scans(tmp_path / "a", 4095, 0), plain, image_size=24, **QUICK)
    check_answers(DEEP, tmp_path, model, [*sorted((tmp_path / "a").rglob("*.png")), *images])


def test_what_the_scripts_cannot_read_is_refused(tmp_path, image_arrays):
    model = unihssl.fit(*image_arrays, **QUICK)
    Image.fromarray(np.zeros((20, 20), np.float32)).save(tmp_path / "float.tif")
    Image.fromarray(np.zeros((20, 20), np.uint16)).save(tmp_path / "deep.tif")
    for path in (tmp_path / "float.tif", tmp_path / "deep.tif"):
        done = run_script(DEEP, tmp_path, model, [path])
        said = f"{path}: this script is for 8 bits or grey PNGs of 16 as in training, and for 1 or 3 channels\n"
        assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
    model = unihssl.fit(*image_arrays, channels=1, **QUICK)
    done = run_script(SHORT, tmp_path, model, [path])
    assert done.returncode == 1 and "use classify_deep.py" in done.stderr

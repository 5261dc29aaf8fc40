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
WITHOUT_TORCH = (
    "import sys; sys.modules.update(torch=None, unihssl=None); del sys.argv[0]; exec(open(sys.argv[0]).read())"
)


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    """Images of every kind that is decoded in its own way."""
    rng = np.random.default_rng(0)
    rgb = rng.integers(0, 256, (40, 30, 3), dtype=np.uint8)
    rotated = Image.Exif()
    rotated[0x0112] = 6
    deep = rng.integers(0, 65536, (50, 20), dtype=np.uint16)
    kinds = {
        "grey.png": Image.fromarray(rgb[..., 0]),
        "cmyk.jpg": Image.fromarray(rgb).convert("CMYK"),
        "deep.png": Image.fromarray(deep),
        "transparent.png": Image.fromarray(np.concatenate([rgb, rgb[..., :1]], axis=2)),
        "small.bmp": Image.fromarray(rgb[:7, :9]),
        "stored.png": Image.fromarray(rgb[:16, :16]),
    }
    for name, image in kinds.items():
        image.save(tmp_path / name)
    Image.fromarray(rgb).save(tmp_path / "rotated.jpg", exif=rotated)
    return sorted(p for p in tmp_path.iterdir() if p.suffix != ".onnx")


def test_the_script_answers_as_predict_does(tmp_path, images, image_arrays):
    quick = {"epochs": 2, "pretrain_epochs": 2, "batch_size": 8, "tensorboard": False}
    model = unihssl.fit(*image_arrays, backbone="small_cnn", **quick)
    model.export(tmp_path / "model.onnx")
    script = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL).group(1)
    assert len([line for line in script.splitlines() if line.strip()]) <= 20
    (tmp_path / "classify.py").write_text(script)
    arguments = [tmp_path / "classify.py", tmp_path / "model.onnx", *images]
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == [str(path) for path in images]
    assert [row[1] for row in rows] == model.predict(images).tolist()
    np.testing.assert_allclose([float(row[2]) for row in rows], model.predict_proba(images).max(1), atol=1e-4)

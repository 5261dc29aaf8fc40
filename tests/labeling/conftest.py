"""A label file with images of several kinds, and its server."""

import csv
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from label_files import CLASSES
from PIL import Image

from unihssl.labeling.images import listed_images
from unihssl.labeling.server import LabelServer
from unihssl.labeling.sheet import LabelSheet


@pytest.fixture
def todo(tmp_path: Path) -> Path:
    """Four images and one that is missing: a colour PNG, 16-bit TIFF, JPEG, small grey PNG."""
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (40, 30, 3), dtype=np.uint8)).save(tmp_path / "a.png")
    Image.fromarray(np.array([[0, 65535], [257, 257 * 128]], dtype=np.uint16)).save(tmp_path / "b.tif")
    Image.fromarray(rng.integers(0, 256, (300, 200, 3), dtype=np.uint8)).save(tmp_path / "c.jpg")
    Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(tmp_path / "e.png")
    path = tmp_path / "todo.csv"
    names = ["a.png", "b.tif", "c.jpg", "gone.png", "e.png"]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label"), *((name, "") for name in names)])
    return path


@pytest.fixture
def serve() -> Callable[..., Any]:
    """`with serve(todo) as server:` serves a label file."""

    @contextmanager
    def running(path: Path, guess: Any = None, classes: Sequence[str] = CLASSES) -> Iterator[LabelServer]:
        sheet = LabelSheet(path, classes)
        items = listed_images(path, [row["path"] for row in sheet.rows], None)
        with LabelServer(sheet, items, guess) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                yield server
            finally:
                server.shutdown()
                thread.join()

    return running

"""What `unihssl data report` says about two domains, whose copies are planted."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from unihssl.config import Settings
from unihssl.data.near_copies import looks, near_copies
from unihssl.data.pair import load_pair, read_domains
from unihssl.data.report import pair_report
from unihssl.data.store import Store, as_tensor

SETTINGS = Settings(cache="none", image_size=48, test_fraction=0.25)


def photo(seed: int, size: tuple[int, int] = (64, 48)) -> Image.Image:
    """Smooth blobs: no two seeds look alike."""
    coarse = np.random.default_rng(seed).integers(0, 256, (7, 7, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)


@pytest.fixture
def folders(tmp_path):
    for number, root in enumerate(("a", "b")):
        for i in range(16):
            path = tmp_path / root / "xy"[i % 2] / f"{i:02}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            photo(100 * number + i).save(path)
    return tmp_path / "a", tmp_path / "b"


def report(folders):
    pair = load_pair(*read_domains(*folders, SETTINGS), SETTINGS, 224, lambda _: lambda *_: None)
    return pair, pair_report(pair, SETTINGS)


def test_classes_that_are_not_tested_are_named(folders):
    for number, root in enumerate(folders):
        (root / "z").mkdir()
        photo(300 + number).save(root / "z" / "one.png")
    notes = report(folders)[0].labeled.domain.notes
    assert f"{folders[0]}: no test sample of z: each has too few samples" in notes


def test_what_there_is(folders):
    (folders[1] / "x" / "wide.png").parent.mkdir(exist_ok=True)
    photo(7, (96, 48)).save(folders[1] / "x" / "wide.png")
    found = report(folders)[1]
    assert found["labeled"]["classes"] == {"x": {"train": 6, "test": 2}, "y": {"train": 6, "test": 2}}
    assert found["unlabeled"]["sizes"] == {
        "smallest": [48, 64],
        "median": [48, 64],
        "largest": [48, 96],
        "different": 2,
    }
    assert found["labeled"]["stored"] == {"8 bits": 16} and found["labeled"]["windows"] == {}
    assert found["labeled"]["grey"]["low"] < 20 and found["labeled"]["grey"]["high"] > 235
    assert 100 < found["labeled"]["grey"]["mean"] < 155


def test_target_labels_are_counted(folders, tmp_path):
    assert report(folders)[1]["unlabeled"]["target_labels"] == {}
    (tmp_path / "own.csv").write_text("path,label\nx/00.png,x\nx/02.png,x\ny/01.png,y\n")
    settings = replace(SETTINGS, target_labels=str(tmp_path / "own.csv"))
    pair = load_pair(*read_domains(*folders, settings), settings, 224, lambda _: lambda *_: None)
    found = pair_report(pair, settings)
    assert found["unlabeled"]["target_labels"] == {"x": 2, "y": 1} and found["labeled"]["target_labels"] == {}


def test_lost_grey_levels_are_said_once(folders):
    for path in sorted(folders[0].rglob("*.png")):
        with Image.open(path) as image:
            image.point(lambda value: value // 8).save(path)
    found = report(folders)[1]
    assert found["labeled"]["notes"] == [] and len(found["warnings"]) == 1
    assert f"{folders[0]} (8 bits): almost all values share 32 of the 256 grey levels: export" in found["warnings"][0]


def test_copies_in_both_domains_are_noted(folders):
    for path in sorted((folders[0] / "x").iterdir())[:3]:
        (folders[1] / "x" / f"also_{path.name}").write_bytes(path.read_bytes())
    notes = report(folders)[1]["unlabeled"]["notes"]
    assert f"{folders[1]}: 3 samples also in {folders[0]}, byte for byte: remove them from either" in notes[-1]


def test_nothing_is_alike(folders):
    found = report(folders)[1]
    assert found["across"] == {"copies": 0, "near_copies": 0}
    assert found["leaks"] == {"exact": 0, "near": 0, "examples": []}
    assert found["warnings"] == []


def test_copies_and_leaks(folders):
    pair, _ = report(folders)
    part = pair.labeled
    test, train, other = part.domain.items[part.split.test[0]], part.domain.items[part.split.train[0]], folders[1]
    with Image.open(train) as image:
        image.resize((80, 60)).save(test.with_suffix(".jpg"), quality=70)  # a new image, but not a new motif
    test.unlink()
    test.with_suffix(".jpg").rename(test)  # the split goes by position
    (other / "y" / "same.png").write_bytes(train.read_bytes())
    with Image.open(train) as image:
        image.point(lambda value: min(255, round(1.1 * value))).save(other / "x" / "brighter.png")
    found = report(folders)[1]
    assert found["across"] == {"copies": 1, "near_copies": 2}
    assert found["labeled"]["near_copies"] == 2
    assert found["leaks"]["near"] == 1
    assert found["leaks"]["examples"][0][0] == f"labeled {test.relative_to(folders[0])}"
    (warning,) = found["warnings"]
    assert "test image" in warning and "almost like a training image" in warning


def test_near_copies_by_all_pairs():
    """Against a loop over all pairs, with the definition of the hash written out."""
    rng = np.random.default_rng(0)
    base = np.stack([np.asarray(photo(n, (27, 24))) for n in range(40)]).astype(int)
    noisy = np.clip(base[:20] + rng.integers(-25, 26, base[:20].shape), 0, 255)
    images = np.concatenate([base, noisy, np.zeros_like(base[:2])]).astype(np.uint8)
    found = {tuple(pair) for pair in near_copies([looks(Store(as_tensor(images)))]).tolist()}
    grey = images.astype(float).mean(3)
    cells = grey.reshape(-1, 8, 3, 9, 3).mean((2, 4))
    bits = (np.diff(cells, axis=2) > 0).reshape(len(images), -1)
    close = {(i, j) for i in range(60) for j in range(i + 1, 60) if (bits[i] != bits[j]).sum() <= 5}
    assert found <= close
    assert {(n, 40 + n) for n in range(20)} & close <= found
    assert len(found) >= 15

"""Decoding once: stored sizes, exact pixels, and what becomes of files that cannot be read."""

import numpy as np
import pytest
import torch
from PIL import Image

from unihssl.config import Settings
from unihssl.data.domain import labeled_domain, unlabeled_domain
from unihssl.data.store import Store, _by_reason, fill_store, stored_size
from unihssl.errors import UserError

DEFAULTS = Settings()


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def save_noise(path, height=16, width=16, seed=0, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise(height, width, 3, seed=seed)).save(path, **options)


def bilinear(pixels, height, width):
    return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.BILINEAR))


def damage(path, how):
    content = path.read_bytes()
    path.write_bytes({"empty": b"", "text": b"this is no image", "cut": content[: len(content) // 2]}[how])


@pytest.fixture
def folder(tmp_path):
    """Three classes of four images of 24x24."""
    for name in ("a", "b", "c"):
        for i in range(4):
            save_noise(tmp_path / name / f"{i}.png", 24, 24, seed=i)
    return tmp_path


@pytest.mark.parametrize(
    ("sizes", "requested", "model_side", "expected"),
    [
        ([(300, 200), (500, 400)], 0, 224, (256, 256)),
        ([(300, 200), (500, 400)], 0, 384, (439, 439)),
        ([(300, 200)], 0, None, (32, 32)),
        ([(300, 200)], 100, 224, (100, 100)),
        ([(20, 20), (20, 20)], 0, 224, (20, 20)),
        ([(20, 30), (20, 30)], 0, None, (20, 30)),
        ([(64, 64)], 0, 224, (64, 64)),
        ([(65, 65)], 0, 224, (256, 256)),
        ([(20, 20), (24, 24)], 0, 224, (256, 256)),
        ([(20, 20), (24, 24)], 0, None, (32, 32)),
        ([(20, 20)], 48, 224, (48, 48)),
    ],
)
def test_stored_size(tmp_path, sizes, requested, model_side, expected):
    for i, (height, width) in enumerate(sizes):
        save_noise(tmp_path / "files" / f"{i}.png", height, width)
    from_files = unlabeled_domain(tmp_path / "files", ("a", "b"), DEFAULTS)
    from_arrays = [unlabeled_domain(np.zeros((2, *size), np.uint8), (0, 1), DEFAULTS) for size in sizes]
    assert stored_size([from_files], requested, model_side) == expected
    assert stored_size(from_arrays, requested, model_side) == expected


def test_stored_size_looks_past_unreadable_files(folder):
    damage(folder / "a" / "0.png", "empty")
    assert stored_size([labeled_domain(folder, DEFAULTS)], 0, 224) == (24, 24)
    for first in folder / "a" / "00.png", folder / "b" / "zz.png":
        save_noise(first, 60, 60)
        first.write_bytes(first.read_bytes()[:2000])
    assert stored_size([labeled_domain(folder, DEFAULTS)], 0, 224) == (24, 24)


def test_small_rotated_images_keep_their_upright_size(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    save_noise(tmp_path / "1.png", 20, 30, exif=exif)
    domain = unlabeled_domain(tmp_path, ("a", "b"), DEFAULTS)
    size = stored_size([domain], 0, None)
    assert size == (30, 20)
    upright = np.rot90(noise(20, 30, 3), -1)
    np.testing.assert_array_equal(fill_store(domain, size)[1].samples[0], upright)


@pytest.mark.parametrize("size", [(24, 24), (16, 12), (40, 48)])
def test_files_are_resized_as_pillow_does(folder, size):
    told = []
    domain, store = fill_store(labeled_domain(folder, DEFAULTS), size, lambda done, total: told.append((done, total)))
    assert store.samples.dtype == torch.uint8
    assert store.samples.shape == (12, *size, 3)
    assert len(store) == len(domain) == 12
    for row in range(12):
        np.testing.assert_array_equal(store.samples[row], bilinear(noise(24, 24, 3, seed=row % 4), *size))
    assert told == [(i, 12) for i in range(1, 13)]
    assert domain.notes == ()


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (noise(4, 10, 8), noise(4, 10, 8)[..., None].repeat(3, 3)),
        (noise(4, 10, 8, 1), noise(4, 10, 8, 1).repeat(3, 3)),
        (noise(4, 10, 8, 3), noise(4, 10, 8, 3)),
        (noise(4, 10, 8, 3) / 255, noise(4, 10, 8, 3)),
        ((noise(4, 10, 8, 3) / 255).astype(np.float32), noise(4, 10, 8, 3)),
        (noise(4, 10, 8, 3).astype(np.int64), noise(4, 10, 8, 3)),
    ],
)
@pytest.mark.parametrize("size", [(10, 8), (16, 16)])
def test_arrays(array, expected, size):
    _, store = fill_store(unlabeled_domain(array, (0, 1), DEFAULTS), size)
    assert store.samples.dtype == torch.uint8
    assert store.samples.shape == (4, *size, 3)
    for stored, image in zip(store.samples, expected, strict=True):
        np.testing.assert_array_equal(stored, bilinear(image, *size))


def test_vectors():
    vectors = np.random.default_rng(0).normal(size=(5, 7))
    _, store = fill_store(unlabeled_domain(vectors, (0, 1), DEFAULTS), (0, 0))
    assert store.samples.dtype == torch.float32
    np.testing.assert_array_equal(store.samples, vectors.astype(np.float32))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.full((2, 4, 4), 255.0), r"float64 in 255\.\.255"),
        (np.full((2, 4, 4), -0.5), "floats in 0..1"),
        (np.full((2, 4, 4), np.nan), "floats in 0..1"),
        (np.full((2, 4, 4), 300), "int64 in 300..300"),
        (noise(2, 4, 4, 4), r"array of shape \(2, 4, 4, 4\), channels last: 4 channels"),
        (noise(2, 3, 8, 8), r"\(2, 3, 8, 8\), which looks like \(N, channels, .* or channels=8 if"),
        (noise(2, 8, 8, 8), r"\(2, 8, 8, 8\), channels last: 8 channels .*this model takes 3"),
        (np.array([[1.0, np.nan]] * 2), "not finite"),
        (np.array([[1.0, np.inf]] * 2), "not finite"),
    ],
)
def test_bad_arrays(array, message):
    with pytest.raises(UserError, match=message):
        fill_store(unlabeled_domain(array, (0, 1), DEFAULTS), (4, 4))


def test_an_array_with_as_many_channels_as_the_settings_say_is_taken():
    array = noise(2, 3, 8, 8)
    assert unlabeled_domain(array, (0, 1), Settings(channels=8)).items is array


def test_take():
    store = Store(torch.arange(12, dtype=torch.uint8).view(4, 3))
    assert store.take(torch.tensor([2, 0])).tolist() == [[6, 7, 8], [0, 1, 2]]


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "bmp", "tiff"])
@pytest.mark.parametrize(("how", "reason"), [("empty", "the file is empty"), ("text", "not an image"), ("cut", "")])
def test_unreadable_files_are_skipped_counted_and_named(folder, suffix, how, reason):
    save_noise(folder / "b" / f"x.{suffix}", 24, 24)
    damage(folder / "b" / f"x.{suffix}", how)
    domain, store = fill_store(labeled_domain(folder, DEFAULTS), (24, 24))
    assert len(domain) == len(store) == len(domain.items) == len(domain.labels) == 12
    assert f"b/x.{suffix}" not in domain.names
    assert np.bincount(domain.labels).tolist() == [4, 4, 4]
    assert len(domain.notes) == 1
    assert f"{folder}: skipped 1 of 13 images as unreadable (b/x.{suffix}: {reason}" in domain.notes[0]
    for row, name in enumerate(domain.names):
        np.testing.assert_array_equal(store.samples[row], noise(24, 24, 3, seed=int(name[2])))


def test_several_unreadable_files(folder):
    for name in ("a/0", "a/3", "c/1"):
        damage(folder / f"{name}.png", "empty")
    domain, store = fill_store(labeled_domain(folder, DEFAULTS), (24, 24))
    assert len(store) == 9
    assert np.bincount(domain.labels).tolist() == [2, 4, 3]
    assert "skipped 3 of 12" in domain.notes[0]
    assert "(a/0.png, a/3.png, c/1.png: the file is empty)" in domain.notes[0]


def test_a_reason_is_given_once(folder):
    for name in ("a/0", "b/1", "c/1"):
        damage(folder / f"{name}.png", "empty")
    damage(folder / "c" / "0.png", "text")
    (note,) = fill_store(labeled_domain(folder, DEFAULTS), (24, 24))[0].notes
    assert note.endswith("(a/0.png, b/1.png, c/1.png: the file is empty; c/0.png: not an image)")


def test_many_reasons_are_cut():
    problems = [(f"{n}.png", f"reason {n % 10}") for n in range(20)]
    assert _by_reason(problems).endswith("; 7.png, 17.png: reason 7; and 4 more")


def test_notes_add_up(tmp_path):
    for i in range(3):
        save_noise(tmp_path / "may" / f"{i}.png")
    damage(tmp_path / "may" / "1.png", "empty")
    domain, _ = fill_store(unlabeled_domain(tmp_path, ("a", "b"), DEFAULTS), (16, 16))
    assert ["name no class" in domain.notes[0], "skipped 1 of 3" in domain.notes[1]] == [True, True]


def test_a_class_that_loses_all_is_an_error(folder):
    for i in range(4):
        damage(folder / "b" / f"{i}.png", "cut")
    with pytest.raises(UserError, match=r"skipped 4 of 12 .*no readable image is left in class b$"):
        fill_store(labeled_domain(folder, DEFAULTS), (24, 24))


def test_no_readable_image_is_an_error(tmp_path):
    for i in range(12):
        save_noise(tmp_path / f"{i}.png")
        damage(tmp_path / f"{i}.png", "empty")
    with pytest.raises(
        UserError, match=r"skipped 12 of 12 .* and 4 more: the file is empty\); no readable image is left$"
    ):
        fill_store(unlabeled_domain(tmp_path, ("a", "b"), DEFAULTS), (16, 16))


def test_a_file_that_vanished(folder):
    domain = labeled_domain(folder, DEFAULTS)
    (folder / "a" / "2.png").unlink()
    domain, store = fill_store(domain, (24, 24))
    assert len(store) == 11
    assert "a/2.png: " in domain.notes[0]

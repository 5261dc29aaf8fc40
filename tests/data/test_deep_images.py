"""Images of more than 8 bits and of any number of channels, against the values that they were written from."""

import hashlib
import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from deep_files import (
    PER_CLASS,
    SIDE,
    domain,
    get_testdata_file,
    level,
    load,
    pydicom,
    tifffile,
    truth,
    two,
    values,
    write_dicom,
    write_png,
    write_tiff,
)
from PIL import Image
from test_images import TO_STORED

import unihssl
from unihssl.config import Settings
from unihssl.data.cache import files_signature
from unihssl.data.decode import array_key, content_key
from unihssl.data.dicom import read_dicom
from unihssl.data.images import upright_size
from unihssl.data.intensity import Window
from unihssl.data.pair import DomainPair, load_pair, read_domains
from unihssl.data.rendering import PNG_16, Rendering, open_to_show, render
from unihssl.data.tiff import read_tiff
from unihssl.data.values import upright
from unihssl.errors import UserError, worded
from unihssl.evaluation.export_model import describe, random_samples
from unihssl.evaluation.extract import extract_features
from unihssl.evaluation.given_samples import given_domain

KINDS = [
    (write_png, 4095, "uint16", 1, "PNG uint16"),
    (write_png, 65535, "uint16", 1, "PNG uint16"),
    (write_png, 4095, "uint16", 3, "PNG uint16"),
    (write_tiff, 4095, "uint16", 1, "TIFF uint16"),
    (write_tiff, 30000, "int16", 1, "TIFF int16"),
    (write_tiff, 2**31 - 1, "int32", 1, "TIFF int32"),
    (write_tiff, 2**32 - 1, "uint32", 1, "TIFF uint32"),
    (write_tiff, 10000, "float32", 1, "TIFF float32"),
    (write_tiff, 1, "float32", 3, "TIFF float32"),
    (write_tiff, 10000, "float64", 1, "TIFF float64"),
    (write_tiff, 40000, "uint16", 3, "TIFF uint16"),
    (write_dicom, 4095, "int16", 1, "DICOM CT"),
]


@pytest.mark.parametrize(("write", "top", "dtype", "channels", "kind"), KINDS)
def test_every_kind_keeps_its_values(tmp_path, write, top, dtype, channels, kind):
    """Within one grey level of the true values, on almost all levels, with one window for the domain."""
    pair = load(*two(tmp_path, write, top, dtype, channels))
    window = pair.labeled.windows[kind]
    offset = -1024 if kind == "DICOM CT" else 0  # its rescale intercept
    true = level(truth(pair.labeled, top, dtype, channels) + float(offset), window.low[0], window.high[0])
    found = pair.labeled.store.samples.numpy()
    assert found.shape == (2 * PER_CLASS, SIDE, SIDE, 3)
    assert np.abs(found - true).max() <= 1
    assert len(np.unique(found)) >= 200
    assert f"9 images of more than 8 bits ({kind}): " in pair.labeled.domain.notes[0]
    assert window.low[0] <= offset and window.high[0] == pytest.approx(top + offset, rel=0.07)


@pytest.mark.parametrize("options", [{}, {"extratags": [(42113, "s", 0, "7", True)]}])
@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_large_whole_numbers_keep_small_differences(tmp_path, dtype, options):
    """float32 has steps of 128 there."""
    start = 2**31 - 5000

    def write(path: Path, pixels: np.ndarray) -> None:
        write_tiff(path, (pixels + start).astype(dtype), **options)

    part = load(*two(tmp_path, write, 4095, "int64")).labeled
    window = part.windows[f"TIFF {dtype}"]
    assert start - 300 <= window.low[0] <= start and start + 4095 <= window.high[0] <= start + 4395
    true = level(truth(part, 4095, "int64") + start, window.low[0], window.high[0])
    assert np.abs(part.store.samples.numpy() - true).max() <= 1


def test_full_and_fixed_and_percentile(tmp_path):
    a, b = two(tmp_path, write_png, 4095, "uint16")
    full = load(a, b, intensity="full").labeled
    assert (full.windows["PNG uint16"].low, full.windows["PNG uint16"].high) == ((0,), (65535,))
    assert "share 17 of the 256 grey levels" in full.domain.notes[1]
    fixed = load(a, b, intensity="window:1000,2000").labeled
    assert np.abs(fixed.store.samples.numpy() - level(truth(fixed, 4095, "uint16"), 1000, 2000)).max() <= 1
    window = load(a, b, intensity="percentile").labeled.windows["PNG uint16"]
    train = truth(full, 4095, "uint16")[full.split.train]
    assert window.low[0] == pytest.approx(np.quantile(train, 0.005), abs=20)
    assert window.high[0] == pytest.approx(np.quantile(train, 0.995), abs=20)
    for wrong in ("window:2,1", "window:1", "gamma"):
        with pytest.raises(UserError, match="window:LOW,HIGH with LOW < HIGH"):
            Settings(intensity=wrong)


def test_training_images_alone_decide(tmp_path):
    """Test images of other values change nothing, and are clipped."""
    a, b = (
        domain(tmp_path / "a", write_png, 4095, "uint16"),
        domain(tmp_path / "b", write_png, 60000, "uint16", start=50),
    )
    before = load(a, b).labeled
    assert len(before.split.test) == 3
    for row in before.split.test:
        write_png(before.domain.items[row], values(99, 65535, "uint16"))
    after = load(a, b).labeled
    assert after.windows == before.windows
    np.testing.assert_array_equal(after.store.samples[after.split.train], before.store.samples[before.split.train])
    for row in before.split.train:
        write_png(before.domain.items[row], values(99 + row, 65535, "uint16"))
    assert load(a, b).labeled.windows["PNG uint16"].high == (65536,)


def test_outliers_do_not_take_the_levels(tmp_path):
    a, b = two(tmp_path, write_png, 4095, "uint16")
    for number in (0, 1):
        pixels = values(number, 4095, "uint16")
        pixels[3, 3] = 65535
        write_png(a / "ab"[number] / str(number), pixels)
    part = load(a, b, test_fraction=0).labeled
    assert part.windows["PNG uint16"].high[0] <= 4400
    assert "0.1% at either end" in part.domain.notes[0]


def test_five_bands_each_have_their_window(tmp_path):
    scale = np.array([1, 10, 100, 1000, 10000], dtype=np.float32)

    def write(path: Path, pixels: np.ndarray) -> None:
        write_tiff(path, pixels * scale)

    a, b = two(tmp_path, write, 1, "float32", 5)
    with pytest.raises(UserError, match=r"\.tif: 5 channels \(or pages\), and channels=3.*channels=5 takes 5"):
        load(a, b)
    part = load(a, b, channels=5).unlabeled
    window = part.windows["TIFF float32"]
    assert window.high == pytest.approx(scale, rel=0.07)
    true = level(truth(part, 1, "float32", 5, 50) * scale, np.array(window.low), np.array(window.high))
    assert part.store.samples.shape == (12, SIDE, SIDE, 5)
    assert np.abs(part.store.samples.numpy() - true).max() <= 1


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_pages_are_channels(tmp_path, dtype):
    top = np.iinfo(dtype).max

    def write(path: Path, pixels: np.ndarray) -> None:
        tifffile.imwrite(path.with_suffix(".tif"), np.moveaxis(pixels, 2, 0), photometric="minisblack")

    a, b = two(tmp_path, write, top, dtype, 4)
    part = load(a, b, channels=4).labeled
    true = level(truth(part, top, dtype, 4), 0, top)
    assert np.abs(part.store.samples.numpy() - true).max() <= 1
    assert upright_size(part.domain.items[0]) == (SIDE, SIDE)


def test_one_channel(tmp_path):
    for name, start in (("a", 0), ("b", 50)):
        domain(tmp_path / name, lambda p, x: Image.fromarray(x).save(p.with_suffix(".png")), 255, "uint8", 3, start)
    part = load(tmp_path / "a", tmp_path / "b", channels=1).labeled
    true = truth(part, 255, "uint8", 3) @ np.array([0.299, 0.587, 0.114])
    assert np.abs(part.store.samples.numpy()[..., 0] - true).max() <= 1


def test_arrays_are_scaled_too():
    x = np.stack([values(n, 4095, "uint16", 1)[..., 0] for n in range(12)])
    y = np.array([0, 1] * 6)
    settings = Settings(image_size=SIDE, test_fraction=0.25)
    pair = load_pair(*read_domains((x, y), x + 1, settings), settings, None, lambda _: lambda *_: None)
    window = pair.labeled.windows["array uint16"]
    assert np.abs(pair.labeled.store.samples.numpy()[..., 0] - level(x, window.low[0], window.high[0])).max() <= 1


class TestDicom:
    def read(self, tmp_path, *names, **knobs):
        """A domain of pydicom's own files."""
        for number in range(6):
            for which, folder in enumerate(("a", "b")):
                path = tmp_path / folder / "xy"[number % 2] / f"{number}.dcm"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(
                    Path(get_testdata_file(names[number % len(names)])).read_bytes() + bytes(1 + number + 9 * which)
                )
        return load(tmp_path / "a", tmp_path / "b", **knobs).labeled

    def test_hounsfield_units(self, tmp_path):
        part = self.read(tmp_path, "CT_small.dcm", image_size=128, intensity="window:-160,240")
        stored = pydicom.dcmread(get_testdata_file("CT_small.dcm")).pixel_array
        true = level(stored - 1024.0, -160, 240)
        assert np.abs(part.store.samples[0, :, :, 0].numpy() - true).max() <= 1

    @pytest.mark.parametrize(("value", "limit"), [(5, None), (5, 9), (9, 5)])
    def test_padding_has_no_value(self, tmp_path, value, limit):
        pixels = np.arange(SIDE * SIDE).reshape(SIDE, SIDE, 1)
        write_dicom(tmp_path / "scan", pixels)
        about = pydicom.dcmread(tmp_path / "scan.dcm")
        for name, number in (("PixelPaddingValue", value), ("PixelPaddingRangeLimit", limit)):
            if number is not None:
                about.add_new(name, "SS", number)
        about.save_as(tmp_path / "scan.dcm")
        found = read_dicom((tmp_path / "scan.dcm").read_bytes()).pixels
        np.testing.assert_array_equal(np.isnan(found), (pixels >= 5) & (pixels <= (9 if limit else 5)))

    @pytest.mark.parametrize("name", ["MR_small.dcm", "MR_small_RLE.dcm", "MR_small_bigendian.dcm"])
    def test_the_files_own_window(self, tmp_path, name):
        part = self.read(tmp_path, name, image_size=64)
        assert (part.windows["DICOM MR"].low, part.windows["DICOM MR"].high) == ((-200,), (1399,))
        true = level(pydicom.dcmread(get_testdata_file("MR_small.dcm")).pixel_array, -200, 1399)
        assert np.abs(part.store.samples[0, :, :, 0].numpy() - true).max() <= 1
        assert "the median of the files' windows" in part.domain.notes[0]

    def test_colours_of_8_bits_stay(self, tmp_path):
        part = self.read(tmp_path, "examples_rgb_color.dcm", image_size=0)
        assert part.windows == {} and part.domain.notes == ()
        pixels = Image.fromarray(pydicom.dcmread(get_testdata_file("examples_rgb_color.dcm")).pixel_array)
        resized = np.asarray(pixels.resize((32, 32), Image.Resampling.BILINEAR)).astype(int)
        assert np.abs(part.store.samples[0].numpy() - resized).max() <= 1

    def test_monochrome1_is_inverted(self, tmp_path):
        change = {"PhotometricInterpretation": "MONOCHROME1", "RescaleIntercept": "0"}
        for name, start in (("a", 0), ("b", 50)):
            domain(tmp_path / name, write_dicom, 4095, "int16", 1, start, **change)
        part = load(tmp_path / "a", tmp_path / "b").labeled
        window = part.windows["DICOM CT"]
        true = 255 - level(truth(part, 4095, "int16"), window.low[0], window.high[0])
        assert np.abs(part.store.samples.numpy() - true).max() <= 1


def test_all_black(tmp_path):
    good = domain(tmp_path / "good", write_png, 4095, "uint16")
    deep = domain(tmp_path / "deep", lambda path, x: write_png(path, 0 * x), 1, "uint16")
    for number, path in enumerate(deep.rglob("*.png")):
        path.write_bytes(path.read_bytes() + bytes(number))
    with pytest.raises(UserError, match=r"deep: all training images \(PNG uint16\) hold the one value 0: .*; export"):
        load(deep, good)
    plain = domain(
        tmp_path / "plain", lambda p, x: Image.fromarray(x[..., 0] * 0).save(p.with_suffix(".png")), 1, "uint8"
    )
    with pytest.raises(UserError, match="plain: all training images are black"):
        load(plain, good)
    write_png(good / "a/0", np.zeros((SIDE, SIDE, 1), np.uint16))
    notes = load(
        good, domain(tmp_path / "b", write_png, 4095, "uint16", start=50), test_fraction=0
    ).labeled.domain.notes
    assert any("1 training images hold one value only" in note for note in notes)


def test_a_blank_deep_image_is_noted_where_there_are_others(tmp_path):
    def plain(path: Path, pixels: np.ndarray) -> None:
        Image.fromarray(pixels[..., 0]).save(path.with_suffix(".png"))

    folders = two(tmp_path, plain, 255, "uint8")
    write_png(folders[0] / "a/0", np.full((SIDE, SIDE, 1), 700, np.uint16))
    for _ in range(2):  # the second time as the cache has it
        part = load(*folders, test_fraction=0, cache=str(tmp_path / "cache")).labeled
        (note,) = part.domain.notes
        assert note.endswith("a: warning: 1 of the training images (PNG uint16) hold the one value 700")
        assert len(part.domain) == 2 * PER_CLASS
    write_tiff(folders[1] / "a/0", values(0, 4095, "uint16"))
    write_dicom(folders[1] / "a/1", np.zeros((SIDE, SIDE, 1)))
    notes = load(*folders, test_fraction=0).unlabeled.domain.notes
    assert sum("(DICOM CT) hold the one value -1024" in note for note in notes) == 1


@pytest.mark.parametrize(
    ("rule", "dtype"), [("window:5000,6000", "uint16"), ("window:-9,-1", "uint16"), ("full", "uint32")]
)
def test_a_window_that_makes_all_images_one_grey_is_named(tmp_path, rule, dtype):
    message = rf"a: all training images \(TIFF {dtype}\) become one grey level, as intensity='{rule}' makes .* black "
    with pytest.raises(UserError, match=message + r"and .* white, and their values are 0 to 4095: nothing can be"):
        load(*two(tmp_path, write_tiff, 4095, dtype), intensity=rule)


def test_the_survey_is_kept(tmp_path, monkeypatch):
    folders = two(tmp_path, write_png, 4095, "uint16")
    cold = load(*folders, cache=str(tmp_path / "cache"))
    monkeypatch.setattr("unihssl.data.survey._may_be_deep", lambda _: pytest.fail("looked again"))
    warm = load(*folders, cache=str(tmp_path / "cache"))
    assert warm.labeled.store.found and warm.labeled.store.key == cold.labeled.store.key
    assert warm.labeled.windows == cold.labeled.windows
    other = load(*folders, cache=str(tmp_path / "cache"), intensity="full")
    assert other.labeled.store.key != cold.labeled.store.key and not other.labeled.store.found


def test_a_model_keeps_its_windows(tmp_path):
    """12-bit and 16-bit scans, both as 16-bit PNG: evaluated and predicted as they were trained."""
    a, b = (
        domain(tmp_path / "a", write_png, 4095, "uint16"),
        domain(tmp_path / "b", write_png, 60000, "uint16", start=50),
    )
    knobs = {"backbone": "small_cnn", "image_size": SIDE, "epochs": 1, "pretrain_epochs": 1, "batch_size": 4}
    with pytest.warns(UserWarning, match="become the 256 grey levels"):
        model = unihssl.fit(a, b, tmp_path / "run", tensorboard=False, test_fraction=0.25, **knobs)
    loaded = unihssl.load(tmp_path / "run")
    assert loaded.windows == model.windows
    assert loaded.windows["labeled"]["PNG uint16"].high == (4096,)
    assert loaded.windows["unlabeled"]["PNG uint16"].high[0] > 50000
    measured = unihssl.evaluate(tmp_path / "run")
    assert measured["pooled"]["accuracy"] == model.result["pooled"]["accuracy"]
    for role, root in (("labeled", a), ("unlabeled", b)):
        unknown = loaded.predictions(root)
        store = loaded.decode(given_domain(root, loaded), role)[1]
        np.testing.assert_array_equal(loaded.probabilities(unknown), loaded.probabilities(loaded.predict_store(store)))
    Image.fromarray(values(1, 1, "float32")[..., 0]).save(tmp_path / "other.tif")
    (note,) = loaded.predictions(tmp_path / "other.tif").notes
    assert "1 image stored as TIFF float32, of which no training image was" in note


def test_five_channels_train_and_load(tmp_path):
    a, b = two(tmp_path, write_tiff, 10000, "float32", 5)
    knobs = {"backbone": "small_cnn", "channels": 5, "image_size": SIDE, "epochs": 1, "pretrain_epochs": 1}
    knobs |= {"batch_size": 4, "tensorboard": False, "unlabeled_view": "strong", "strong_view": "randaugment_cutout"}
    with pytest.warns(UserWarning):
        model = unihssl.fit(a, b, tmp_path / "run", **knobs)
    loaded = unihssl.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict_proba(a), model.predict_proba(a))
    about = describe(loaded)
    assert about["channels"] == 5 and len(about["windows"]["labeled"]["TIFF float32"]["high"]) == 5
    assert random_samples(loaded, 2).shape == (2, SIDE, SIDE, 5)
    Image.new("RGB", (8, 8)).save(tmp_path / "photo.jpg")
    with pytest.raises(UserError, match=r"photo\.jpg: 3 channels \(or pages\), and this model takes 5$"):
        loaded.predict(tmp_path / "photo.jpg")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_deep_images_come_out_upright(orientation):
    true = np.arange(2 * 3 * 1).reshape(2, 3, 1).astype(np.uint8)
    stored = np.asarray(TO_STORED[orientation](Image.fromarray(true[..., 0])))[..., None]
    np.testing.assert_array_equal(upright(stored, orientation), true)


@pytest.mark.parametrize("channels", [2, 4])
def test_transparent_deep_pixels_are_laid_on_white(tmp_path, channels):
    pixels = values(0, 65535, "uint16", channels)
    write_png(tmp_path / "image", pixels)
    window = Window((0,), (65535,), (0, 65535))
    found, unscaled = render((tmp_path / "image.png").read_bytes(), Rendering((SIDE, SIDE), 3, {PNG_16: (window,)}))
    colours, alpha = level(pixels[..., :-1], 0, 65535), pixels[..., -1:] / 65535
    assert np.abs(found - (alpha * colours + (1 - alpha) * 255)).max() <= 1 and not unscaled


def test_plain_images_have_the_keys_that_they_always_had():
    """As version 0.1.0 had them: decoded images that are in the cache are found, and stopped runs can be resumed."""
    digests = [hashlib.blake2b(content, digest_size=32).digest() for content in (b"one", b"two")]
    plain = Rendering((8, 9))
    assert content_key(digests, plain) == "3956284cf7b42cbb459195992e14b2a5debe5414bf92792a11e7879c12d99744"
    signature = "41161f5b3c9ff24f1724e1df3d1f3ba4f004b9b1944d643300bd23709235c1a1"
    assert files_signature([Path("/no/such/file")], plain) == signature
    window = Window((0,), (4096,), (0, 4000))
    others = [Rendering((8, 9), 1), Rendering((8, 9), 3, {PNG_16: (window,)})]
    assert len({content_key(digests, how) for how in (plain, *others)}) == 3
    same = replace(others[1], windows={PNG_16: (replace(window, seen=(0, 4090)),)})
    assert content_key(digests, same) == content_key(digests, others[1])


def test_a_source_that_gets_few_levels_is_named(tmp_path):
    """Two sources of one domain share its window."""
    a = domain(tmp_path / "a", write_png, 65535, "uint16")
    tops = {"b": 4095, "c": 65535}
    sources = [domain(tmp_path / name, write_png, top, "uint16", start=top) for name, top in tops.items()]
    notes = load(a, sources).unlabeled.domain.notes
    (warning,) = [note for note in notes if "warning" in note]
    assert "b (PNG uint16): warning: almost all values share 17 of the 256 grey levels" in warning


def test_images_to_look_at(tmp_path):
    """People see the whole range of an image, three of its channels, and a DICOM's own window."""
    write_png(tmp_path / "scan", values(0, 4095, "uint16"))
    scan = np.asarray(open_to_show(tmp_path / "scan.png"))
    assert np.abs(scan - level(values(0, 4095, "uint16"), 0, 4095)).max() <= 1
    bands = values(1, 10000, "float32", 5)
    write_tiff(tmp_path / "bands", bands)
    bands = bands[..., :3]
    assert np.abs(np.asarray(open_to_show(tmp_path / "bands.tif")) - level(bands, bands.min(), bands.max())).max() <= 1
    found = np.asarray(open_to_show(Path(get_testdata_file("MR_small.dcm"))))
    true = level(pydicom.dcmread(get_testdata_file("MR_small.dcm")).pixel_array, -200, 1399)
    assert np.abs(found[..., 0] - true).max() <= 1


def test_features_of_deep_images(tmp_path):
    """Features come from images in the window of all of them, as nothing is trained."""
    scale = np.array([1, 1, 1, 1, 10], dtype=np.float32)
    root = domain(tmp_path / "a", lambda path, pixels: write_tiff(path, scale * pixels), 1000, "float32", 5)
    settings = Settings(backbone="small_cnn", weights="none", channels=5, image_size=SIDE, cache="none")
    found = extract_features(root, settings, lambda _: lambda *_: None)
    assert found.x.shape == (12, 64)
    assert "become the 256 grey levels" in found.notes[0]
    assert "each channel or kind of file has grey levels of its own: for comparable features" in found.notes[1]


def test_no_data_of_one_band_is_not_a_value():
    content, values = io.BytesIO(), np.arange(64, dtype=np.float32).reshape(8, 8)
    values[0] = -9999
    tifffile.imwrite(content, values, extratags=[(42113, "s", 0, "-9999", True)])
    found = read_tiff(content.getvalue(), 3)
    assert np.isnan(found.pixels[0]).all() and np.nanmin(found.pixels) == 8


def test_a_tiff_of_twelve_bits_is_read():
    imagecodecs = pytest.importorskip("imagecodecs")
    values = np.random.default_rng(0).integers(0, 4096, (16, 16), dtype=np.uint16)
    content = io.BytesIO()
    tifffile.imwrite(content, values, bitspersample=12)
    assert imagecodecs and np.array_equal(read_tiff(content.getvalue(), 3).pixels[..., 0], values)


def test_a_tiff_of_five_bands_is_not_taken_for_its_first_three():
    content = io.BytesIO()
    tifffile.imwrite(content, np.zeros((8, 8, 5), np.uint8), photometric="minisblack", planarconfig="contig")
    assert read_tiff(content.getvalue(), 3).pixels.shape == (8, 8, 5)


@pytest.mark.parametrize(("write", "top", "dtype"), [(write_png, 4095, "uint16"), (write_tiff, 0.7, "float32")])
def test_the_window_of_features_can_be_given_again(tmp_path, write, top, dtype):
    settings = Settings(backbone="small_cnn", weights="none", image_size=SIDE, cache="none")
    root = domain(tmp_path / "a", write, top, dtype)
    torch.manual_seed(0)
    first = extract_features(root, settings, lambda _: lambda *_: None)
    (setting,) = re.findall(
        r"intensity='(\S+)' gives another folder the same grey levels", worded(" ".join(first.notes))
    )
    for file in list(root.rglob("*.*"))[::2]:
        file.unlink()
    write(root / "a/other", values(9, 10 * top, dtype))
    torch.manual_seed(0)
    fewer = extract_features(root, replace(settings, intensity=setting), lambda _: lambda *_: None)
    rows = {name: row for row, name in enumerate(first.names)}
    kept = [row for row, name in enumerate(fewer.names) if name in rows]
    assert len(kept) == PER_CLASS and not any("another folder" in note for note in fewer.notes)
    np.testing.assert_allclose(fewer.x[kept], first.x[[rows[fewer.names[row]] for row in kept]], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("orientation", [1, 6])
def test_the_size_of_a_turned_tiff(tmp_path, orientation):
    Image.fromarray(np.zeros((20, 60, 3), np.uint8)).save(tmp_path / "a.tif", tiffinfo={274: orientation})
    assert upright_size(tmp_path / "a.tif") == ((20, 60) if orientation == 1 else (60, 20))


def test_a_white_mark_on_dark_scans_does_not_hide_that_they_share_few_levels(tmp_path):
    rng = np.random.default_rng(0)
    for role in ("labeled", "unlabeled"):
        for i in range(12):
            values = rng.integers(0, 1000, (32, 32))
            values[0, :6] = 65535  # 0.6%
            folder = tmp_path / role / "ab"[i % 2]
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(values.astype(np.uint16)).save(folder / f"{i}.png")
    notes = " ".join(load(tmp_path / "labeled", tmp_path / "unlabeled").labeled.domain.notes)
    assert "warning: almost all values share" in notes


@pytest.mark.parametrize(("trained", "given"), [("float32", "float64"), ("float64", "float32"), ("float32", "float16")])
def test_floats_of_any_precision_are_predicted_alike(image_arrays, trained, given):
    (x, y), (u, _) = ((4 * images.astype(np.int64), labels) for images, labels in image_arrays)  # not 8 bits
    knobs = {"backbone": "small_cnn", "epochs": 1, "device": "cpu", "verbose": False}
    with pytest.warns(UserWarning, match=f"array {trained}"):
        model = unihssl.fit((x.astype(trained), y), u.astype(trained), **knobs)
    true = model.predict_proba(x.astype(trained))
    np.testing.assert_array_equal(model.predict_proba(x.astype(given)), true)
    np.testing.assert_allclose(model.predict_proba(list(x.astype(given)[:2])), true[:2], atol=1e-5)


def test_arrays_of_one_type_and_two_scales_are_told_apart(image_arrays):
    """Floats in 0..1 in one domain, in 0..255 in the other."""
    (x, y), (u, _) = image_arrays
    small = (x / 255).astype(np.float32)
    model = unihssl.fit((small, y), u.astype(np.float32), backbone="small_cnn", epochs=1, device="cpu", verbose=False)
    assert set(model.windows) == {"labeled", "unlabeled"}
    np.testing.assert_allclose(model.predict_proba(small), model.predict_proba(x), atol=1e-3)


@pytest.mark.filterwarnings("ignore")
def test_plain_floats_of_another_precision_beside_deep_ones_keep_their_greys(tmp_path) -> None:
    rng = np.random.default_rng(0)
    deep = rng.uniform(0, 576, (16, 16, 16)).astype(np.float32)
    plain = rng.uniform(0, 1, (16, 16, 16))
    y = np.arange(16) % 2
    quick = {"backbone": "small_cnn", "epochs": 1, "pretrain_epochs": 1, "batch_size": 4, "tensorboard": False}
    model = unihssl.fit((deep, y), (plain, y), tmp_path / "run", **quick)
    probabilities = model.predict_proba(plain)
    assert probabilities.std(0).max() > 1e-4  # not all black
    np.testing.assert_allclose(model.predict_proba(plain.astype(np.float32)), probabilities, atol=0.02)
    np.testing.assert_array_equal(model.predict_proba(deep.astype(np.float64)), model.predict_proba(deep))


def float_pair(top: float, dtype: str = "float32", **knobs: object) -> DomainPair:
    """Two domains as arrays from 0 to `top`."""
    x = np.stack([values(n, top, dtype)[..., 0] for n in range(24)])
    settings = Settings(**{"image_size": SIDE, "test_fraction": 0.25} | knobs)
    sources = read_domains((x[:12], np.arange(12) % 2), x[12:], settings)
    return load_pair(*sources, settings, None, lambda _: lambda *_: None)


@pytest.mark.parametrize(("rule", "high"), [("window:0,0.01", 0.01), ("percentile", 0.0098), ("full", 1.0)])
def test_an_array_gets_the_window_that_was_asked_for(rule, high):
    part = float_pair(0.01, intensity=rule).labeled
    window = part.windows["array float32"]
    assert window.high[0] == pytest.approx(high, rel=0.03) and window.low[0] == pytest.approx(0, abs=3e-4)
    true = level(part.domain.items, window.low[0], window.high[0])
    assert np.abs(part.store.samples.numpy()[..., 0] - true).max() <= 1


def test_small_whole_numbers_get_the_window_that_was_asked_for():
    part = float_pair(60, "uint16", intensity="window:0,60").labeled
    assert part.store.samples.max() == 255 and part.windows["array uint16"].high == (60,)
    assert not float_pair(60, "uint8", intensity="window:0,60").labeled.windows  # 8 bits stay as they are


def test_a_model_of_small_floats_sees_new_ones_in_its_window(tmp_path):
    x = np.stack([values(n, 0.01, "float32")[..., 0] for n in range(24)])
    knobs = {"backbone": "small_cnn", "epochs": 1, "device": "cpu", "verbose": False, "batch_size": 4}
    with pytest.warns(UserWarning, match="0 to 0.01 become the 256 grey levels"):
        model = unihssl.fit((x[:12], np.arange(12) % 2), x[12:], intensity="window:0,0.01", **knobs)
    _, store = model.decode(given_domain(x, model))
    assert store.samples.unique().numel() > 200


@pytest.mark.parametrize(
    ("top", "dtype", "kind", "used"),
    [(0.01, "float32", "array float32", 4), (60, "uint16", "array uint16", 61), (60, "uint8", "8 bits", 61)],
)
def test_arrays_that_lose_most_levels_are_noted(top, dtype, kind, used):
    part = float_pair(top, dtype).labeled
    (note,) = part.domain.notes
    start = f"labeled array ({kind}): warning: almost all values share {used} of the 256 grey levels: export the images"
    assert note.startswith(start) and ("intensity" in note) == (dtype != "uint8") and not part.windows


def test_dark_images_of_8_bits_are_noted(tmp_path):
    def write(path: Path, pixels: np.ndarray) -> None:
        Image.fromarray(pixels[..., 0]).save(path.with_suffix(".png"))

    dark = domain(tmp_path / "dark", write, 90, "uint8")
    pair = load(dark, domain(tmp_path / "usual", write, 255, "uint8", start=50))
    (note,) = pair.labeled.domain.notes
    assert note.startswith(f"{dark} (8 bits): warning: almost all values share 91 of the 256 grey levels: ")
    assert note.endswith("export the images with more depth")
    assert pair.unlabeled.domain.notes == ()


@pytest.mark.parametrize(("top", "dtype"), [(1, "float32"), (1, "float64"), (255, "uint8"), (255, "int64")])
def test_ordinary_arrays_stay_as_they_were(top, dtype):
    """Without a window or a note, rounded as ever, under the key of these pixels alone."""
    part = float_pair(top, dtype).labeled
    array = part.domain.items
    stored = array if dtype == "uint8" else np.rint(array * (255 if array.dtype.kind == "f" else 1)).astype(np.uint8)
    np.testing.assert_array_equal(part.store.samples.numpy(), np.repeat(stored[..., None], 3, axis=-1))
    assert part.domain.notes == () and not part.windows
    assert part.store.key == array_key(part.store.samples.numpy())


def test_drawings_in_black_and_white_and_vectors_are_not_noted():
    drawings = (np.random.default_rng(0).random((24, SIDE, SIDE)) > 0.5).astype(np.float32)
    for x in (drawings, 0.01 * np.random.default_rng(0).random((24, 9))):
        settings = Settings(test_fraction=0.25)
        sources = read_domains((x[:12], np.arange(12) % 2), x[12:], settings)
        pair = load_pair(*sources, settings, None, lambda _: lambda *_: None)
        assert pair.labeled.domain.notes == pair.unlabeled.domain.notes == ()


def test_premultiplied_colours_are_what_they_were(tmp_path):
    """A grey of one half, half transparent, in both ways that a TIFF has."""
    alpha, grey = 32768, 32768
    shown = []
    for kind, stored in (("unassalpha", grey), ("assocalpha", grey * alpha // 65535)):
        pixels = np.empty((8, 8, 4), np.uint16)
        pixels[..., :3], pixels[..., 3] = stored, alpha
        tifffile.imwrite(tmp_path / f"{kind}.tif", pixels, photometric="rgb", extrasamples=[kind])
        shown.append(np.asarray(open_to_show(tmp_path / f"{kind}.tif")).astype(int))
    assert np.abs(shown[0] - shown[1]).max() <= 1

"""Every kind of image file comes out as upright 8-bit RGB of the right colours."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from unihssl.data.images import load_square, open_rgb

RED, GREEN, BLUE, GREY = (255, 0, 0), (0, 255, 0), (0, 0, 255), (90, 90, 90)
WHITE, BLACK = (255, 255, 255), (0, 0, 0)
ORIENTATION = 0x0112
TO_STORED = {  # how a camera lays out an upright picture, by the orientation it writes beside it
    1: lambda upright: upright,
    2: ImageOps.mirror,
    3: lambda upright: upright.rotate(180),
    4: ImageOps.flip,
    5: lambda upright: upright.transpose(Image.Transpose.TRANSPOSE),
    6: lambda upright: upright.rotate(90, expand=True),
    7: lambda upright: upright.transpose(Image.Transpose.TRANSVERSE),
    8: lambda upright: upright.rotate(-90, expand=True),
}
RAMP = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
RAMP_8 = np.rint(RAMP / 257).astype(np.uint8)


def quadrants():
    """Red, green over blue, grey: each of the eight orientations looks different."""
    image = Image.new("RGB", (48, 32))
    for colour, corner in zip((RED, GREEN, BLUE, GREY), ((0, 0), (24, 0), (0, 16), (24, 16)), strict=True):
        image.paste(colour, (*corner, corner[0] + 24, corner[1] + 16))
    return image


def corners(image):
    """The colours well inside the four quadrants."""
    width, height = image.size
    return [image.getpixel((x, y)) for y in (height // 4, 3 * height // 4) for x in (width // 4, 3 * width // 4)]


def palette_image():
    image = Image.new("P", (8, 8), 1)
    image.putpalette([*BLUE, 200, 100, 50])
    image.paste(0, (0, 0, 8, 4))
    return image


def png_16(pixels, colour_type):
    """A 16-bit PNG of several channels, which Pillow reads but cannot write."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 16, colour_type, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize("suffix", ["jpg", "jpeg", "png", "webp", "bmp", "tif", "tiff", "PNG"])
def test_formats_keep_their_colours(tmp_path, suffix):
    path = tmp_path / f"image.{suffix}"
    quadrants().save(path)
    opened = open_rgb(path)
    assert (opened.mode, opened.size) == ("RGB", (48, 32))
    assert np.abs(np.subtract(corners(opened), [RED, GREEN, BLUE, GREY])).max() <= 4
    if suffix.lower() not in ("jpg", "jpeg", "webp"):
        np.testing.assert_array_equal(opened, quadrants())


def test_the_bytes_decide_not_the_suffix(tmp_path):
    quadrants().save(tmp_path / "image.jpg", format="PNG")
    np.testing.assert_array_equal(open_rgb(tmp_path / "image.jpg"), quadrants())


@pytest.mark.parametrize(
    ("mode", "colour", "suffix", "options", "expected"),
    [
        ("L", 77, "png", {}, (77, 77, 77)),
        ("L", 77, "jpg", {}, (77, 77, 77)),
        ("L", 7, "png", {"transparency": 7}, WHITE),
        ("1", 1, "png", {}, WHITE),
        ("1", 0, "bmp", {}, BLACK),
        ("1", 1, "tiff", {}, WHITE),
        ("LA", (100, 255), "png", {}, (100, 100, 100)),
        ("LA", (100, 0), "png", {}, WHITE),
        ("LA", (0, 128), "png", {}, (127, 127, 127)),
        ("RGB", (1, 2, 3), "png", {"transparency": (1, 2, 3)}, WHITE),
        ("RGBA", (*BLUE, 255), "png", {}, BLUE),
        ("RGBA", (*BLUE, 0), "png", {}, WHITE),
        ("RGBA", (*RED, 128), "png", {}, (255, 127, 127)),
        ("RGBA", (*RED, 0), "webp", {"lossless": True}, WHITE),
        ("RGBA", (*RED, 0), "tiff", {}, WHITE),
        ("CMYK", (0, 255, 255, 0), "jpg", {}, RED),
        ("CMYK", (255, 0, 255, 0), "jpg", {}, GREEN),
        ("CMYK", (0, 0, 0, 255), "jpg", {}, BLACK),
        ("CMYK", (0, 0, 0, 0), "tiff", {}, WHITE),
        ("YCbCr", (76, 85, 255), "jpg", {}, (254, 0, 0)),
    ],
)
def test_modes_become_rgb(tmp_path, mode, colour, suffix, options, expected):
    path = tmp_path / f"image.{suffix}"
    Image.new(mode, (16, 16), colour).save(path, **options)
    pixels = np.asarray(open_rgb(path)).astype(int)
    assert pixels.shape == (16, 16, 3)
    assert np.abs(pixels - expected).max() <= (2 if suffix == "jpg" else 0)


@pytest.mark.parametrize(
    ("options", "lower"),
    [
        ({}, (200, 100, 50)),
        ({"transparency": 1}, WHITE),
        ({"transparency": bytes([255, 128])}, (227, 177, 152)),
    ],
)
def test_palettes(tmp_path, options, lower):
    palette_image().save(tmp_path / "image.png", **options)
    opened = open_rgb(tmp_path / "image.png")
    assert opened.getpixel((3, 1)) == BLUE
    assert opened.getpixel((3, 6)) == lower


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tiff"])
def test_exif_rotation_comes_out_upright(tmp_path, suffix, orientation):
    path = tmp_path / f"image.{suffix}"
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    TO_STORED[orientation](quadrants()).save(path, exif=exif)
    opened = open_rgb(path)
    assert opened.size == (48, 32)
    assert np.abs(np.subtract(corners(opened), [RED, GREEN, BLUE, GREY])).max() <= 4


def test_rotation_keeps_transparency(tmp_path):
    exif = Image.Exif()
    exif[ORIENTATION] = 3
    palette_image().save(tmp_path / "image.png", exif=exif, transparency=1)
    opened = open_rgb(tmp_path / "image.png")
    assert opened.getpixel((3, 1)) == WHITE
    assert opened.getpixel((3, 6)) == BLUE


@pytest.mark.parametrize("suffix", ["png", "tiff"])
@pytest.mark.parametrize("dtype", ["<u2", ">u2"])
def test_16_bit_greys_are_scaled_not_clipped(tmp_path, suffix, dtype):
    path = tmp_path / f"deep.{suffix}"
    Image.fromarray(RAMP.astype(dtype)).save(path)
    pixels = np.asarray(open_rgb(path))
    for channel in range(3):
        np.testing.assert_array_equal(pixels[..., channel], RAMP_8)


def test_dark_16_bit_grey_stays_dark(tmp_path):
    Image.fromarray(np.full((8, 8), 200, dtype=np.uint16)).save(tmp_path / "dark.png")
    assert np.asarray(open_rgb(tmp_path / "dark.png")).max() == 1


@pytest.mark.parametrize(
    "pixels", [RAMP.astype(np.int32), (RAMP / 65535).astype(np.float32), RAMP_8.astype(np.float32)]
)
def test_deep_tiffs_are_scaled_by_their_range(tmp_path, pixels):
    Image.fromarray(pixels).save(tmp_path / "deep.tiff")
    np.testing.assert_array_equal(np.asarray(open_rgb(tmp_path / "deep.tiff"))[..., 0], RAMP_8)


@pytest.mark.parametrize("colour_type", [2, 4, 6])
def test_16_bit_colour_png(tmp_path, colour_type):
    alpha = np.full_like(RAMP, 65535)
    channels = {2: [RAMP, RAMP.T, 65535 - RAMP], 4: [RAMP, alpha], 6: [RAMP, RAMP.T, 65535 - RAMP, alpha]}[colour_type]
    expected = [RAMP_8] * 3 if colour_type == 4 else [RAMP_8, RAMP_8.T, 255 - RAMP_8]
    (tmp_path / "deep.png").write_bytes(png_16(np.stack(channels, axis=-1), colour_type))
    pixels = np.asarray(open_rgb(tmp_path / "deep.png")).astype(int)
    assert np.abs(pixels - np.stack(expected, axis=-1)).max() <= 1


def test_load_square_is_pillows_bilinear(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "image.png")
    resized = Image.fromarray(pixels).resize((12, 16), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(load_square(tmp_path / "image.png", 16, 12), resized)
    np.testing.assert_array_equal(load_square(tmp_path / "image.png", 20, 30), pixels)

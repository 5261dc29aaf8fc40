"""Training and test views, read back from images whose colours say where each pixel came from."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from unihssl.data.batch_random import BatchRandom
from unihssl.data.views import Views

ZERO, ONE = (0.0,) * 3, (1.0,) * 3
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def draws(seed=0):
    return BatchRandom(seed=seed)


def maps(count, height, width):
    """The same image `count` times; its red is the row, its green the column."""
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    image = torch.stack([rows, columns, torch.full_like(rows, 7)], dim=-1).to(torch.uint8)
    return image.expand(count, -1, -1, -1).clone()


def plain(side, weak_view="crop", flip=True):
    return Views(side, ZERO, ONE, weak_view, flip)


def origins(view):
    """Rows and columns that each sample's pixels came from; every row and column must agree on it."""
    red, green, blue = torch.round(view * 255).long().unbind(1)
    assert (blue == 7).all()
    assert (red == red[:, :, :1]).all()
    assert (green == green[:, :1, :]).all()
    return red[:, :, 0].numpy(), green[:, 0, :].numpy()


def unflipped(columns):
    """Columns in increasing order, and which samples were mirrored."""
    mirrored = columns[:, 0] > columns[:, -1]
    return np.where(mirrored[:, None], columns[:, ::-1], columns), mirrored


@pytest.mark.parametrize(("height", "width"), [(40, 40), (50, 36)])
def test_crop_is_a_window_of_the_image(height, width):
    rows, columns = origins(plain(32).weak(maps(300, height, width), draws()))
    columns, mirrored = unflipped(columns)
    np.testing.assert_array_equal(rows, rows[:, :1] + np.arange(32))
    np.testing.assert_array_equal(columns, columns[:, :1] + np.arange(32))
    assert set(rows[:, 0]) == set(range(height - 32 + 1))
    assert set(columns[:, 0]) == set(range(width - 32 + 1))
    assert 0.4 < mirrored.mean() < 0.6


@pytest.mark.parametrize("weak_view", ["crop", "translate", "resized_crop"])
def test_every_sample_has_its_own_draw(weak_view):
    out = plain(32, weak_view).weak(maps(12, 60, 60), draws())
    assert len({tuple(sample.flatten().tolist()) for sample in out}) >= 10


@pytest.mark.parametrize("weak_view", ["crop", "translate", "resized_crop"])
@pytest.mark.parametrize("stored", [20, 40])
def test_the_seed_decides(weak_view, stored):
    images = torch.randint(256, (8, stored, stored, 3), dtype=torch.uint8, generator=draws(3).generator)
    views = plain(32, weak_view)
    first, again, other = (views.weak(images, draws(seed)) for seed in (1, 1, 2))
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    assert not torch.equal(first, other)


def test_flip_is_an_exact_mirror():
    images = torch.randint(256, (64, 16, 16, 3), dtype=torch.uint8, generator=draws(3).generator)
    shifted = plain(None).weak(images, draws())
    unmirrored = []
    for sample, image in zip(shifted, images, strict=True):
        whole = image.permute(2, 0, 1).float() / 255
        windows = F.pad(whole, (2, 2, 2, 2), mode="replicate").unfold(1, 16, 1).unfold(2, 16, 1)
        straight = (windows.permute(1, 2, 0, 3, 4) - sample).abs().amax((2, 3, 4)).min() < 1e-6
        mirrored = (windows.permute(1, 2, 0, 3, 4) - sample.flip(2)).abs().amax((2, 3, 4)).min() < 1e-6
        assert straight != mirrored
        unmirrored.append(bool(straight))
    assert 16 < sum(unmirrored) < 48


@pytest.mark.parametrize(("weak_view", "stored"), [("crop", 40), ("crop", 32), ("translate", 40), ("resized_crop", 40)])
def test_no_flip_means_none(weak_view, stored):
    green = plain(32, weak_view, flip=False).weak(maps(200, stored, stored), draws())[:, 1]
    assert (green[:, :, -1] > green[:, :, 0]).all()


@pytest.mark.parametrize(
    ("height", "width", "side", "top", "left"), [(256, 256, 224, 16, 16), (41, 40, 32, 4, 4), (50, 33, 32, 9, 0)]
)
def test_test_view_is_the_centre(height, width, side, top, left):
    rows, columns = origins(plain(side).test(maps(2, height, width)))
    np.testing.assert_array_equal(rows, np.tile(np.arange(top, top + side), (2, 1)))
    np.testing.assert_array_equal(columns, np.tile(np.arange(left, left + side), (2, 1)))


def test_test_view_of_small_images_is_all_of_them():
    images = maps(2, 20, 28)
    np.testing.assert_allclose(plain(None).test(images) * 255, images.permute(0, 3, 1, 2), atol=1e-4)


def test_normalisation():
    images = torch.randint(256, (5, 12, 12, 3), dtype=torch.uint8, generator=draws().generator)
    expected = (images.permute(0, 3, 1, 2) / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    torch.testing.assert_close(Views(None, MEAN, STD).test(images), expected, rtol=1e-5, atol=1e-6)
    white = torch.full((5, 12, 12, 3), 255, dtype=torch.uint8)
    for weak_view in ("crop", "translate", "resized_crop"):
        out = Views(8, MEAN, STD, weak_view).weak(white, draws())
        for channel in range(3):
            torch.testing.assert_close(out[:, channel], torch.full((5, 8, 8), (1 - MEAN[channel]) / STD[channel]))


@pytest.mark.parametrize(
    ("views", "height", "width", "reach"),
    [
        (plain(None), 32, 32, (4, 4)),
        (plain(None), 20, 28, (2, 4)),
        (plain(32), 32, 32, (4, 4)),
        (plain(None, "translate"), 16, 16, (2, 2)),
    ],
)
def test_small_images_are_shifted_by_an_eighth_with_their_edges_repeated(views, height, width, reach):
    rows, columns = origins(views.weak(maps(400, height, width), draws()))
    columns, _ = unflipped(columns)
    assert rows.shape == (400, height)
    assert columns.shape == (400, width)
    for found, length, most in ((rows, height, reach[0]), (columns, width, reach[1])):
        shifts = found[:, length // 2] - length // 2
        assert set(shifts) == set(range(-most, most + 1))
        np.testing.assert_array_equal(found, np.clip(np.arange(length) + shifts[:, None], 0, length - 1))


def test_translate_shifts_the_centre_of_larger_images():
    rows, columns = origins(plain(32, "translate", flip=False).weak(maps(400, 40, 40), draws()))
    for found in (rows, columns):
        shifts = found[:, 16] - 20
        assert set(shifts) == set(range(-4, 5))
        np.testing.assert_array_equal(found, np.clip(np.arange(4, 36) + shifts[:, None], 4, 35))


def test_center_is_the_test_view_flipped_or_not():
    images = torch.randint(256, (40, 40, 36, 3), dtype=torch.uint8, generator=draws().generator)
    views = plain(32, "center")
    mirrored = [
        torch.equal(weak, test.flip(2)) if not torch.equal(weak, test) else None
        for weak, test in zip(views.weak(images, draws()), views.test(images), strict=True)
    ]
    assert False not in mirrored
    assert 10 < mirrored.count(True) < 30
    unflipped_view = plain(32, "center", flip=False)
    assert torch.equal(unflipped_view.weak(images, draws()), unflipped_view.test(images))


def test_another_view_can_be_asked_for():
    images = maps(8, 40, 40)
    asked = plain(32, "resized_crop").weak(images, draws(), "crop")
    assert torch.equal(asked, plain(32, "crop").weak(images, draws()))


def test_images_are_enlarged_to_the_models_side():
    images = maps(3, 20, 20)
    views = plain(40, flip=False)
    assert views.weak(images, draws()).shape == (3, 3, 40, 40)
    out = views.test(images)
    assert out.shape == (3, 3, 40, 40)
    ramp = np.clip((np.arange(40) + 0.5) / 2 - 0.5, 0, 19)  # the old pixel centres each new one lies between
    np.testing.assert_allclose(out[0, 0] * 255, np.tile(ramp[:, None], (1, 40)), atol=1e-3)
    np.testing.assert_allclose(out[0, 1] * 255, np.tile(ramp, (40, 1)), atol=1e-3)


@pytest.mark.parametrize(("height", "width"), [(20, 60), (60, 20)])
def test_an_image_smaller_on_one_side_fits_whole(height, width):
    views = plain(32, flip=False)
    assert views.weak(maps(2, height, width), draws()).shape == (2, 3, 32, 32)
    out = views.test(maps(2, height, width))
    assert out.shape == (2, 3, 32, 32)
    for channel, length in ((0, height), (1, width)):
        values = out[0, channel] * 255
        assert values.min() <= length / 32
        assert values.max() >= length - 1 - length / 32


@pytest.mark.parametrize(("stored", "side", "out"), [((40, 40), 32, (32, 32)), ((40, 30), None, (40, 30))])
def test_resized_crop(stored, side, out):
    images = torch.randint(50, 201, (64, *stored, 3), dtype=torch.uint8, generator=draws().generator)
    crops = plain(side, "resized_crop").weak(images, draws())
    assert crops.shape == (64, 3, *out)
    assert crops.min() >= 50 / 255 - 1e-6
    assert crops.max() <= 200 / 255 + 1e-6
    assert crops.std() > 0.05


@pytest.mark.parametrize("least", [0.08, 0.5])
def test_resized_crop_areas_and_aspects(least):
    out = Views(32, ZERO, ONE, "resized_crop", least_area=least).weak(maps(500, 100, 100), draws()) * 255
    slope_y = (out[:, 0, 20, 16] - out[:, 0, 12, 16]) / 8
    slope_x = (out[:, 1, 16, 20] - out[:, 1, 16, 12]) / 8
    height, width = slope_y * 32 / 100, slope_x.abs() * 32 / 100
    assert (height > 0).all()
    assert 0.4 < (slope_x < 0).float().mean() < 0.6
    inside = (height < 0.99) & (width < 0.99)
    area = (height * width)[inside]
    assert least - 0.01 < area.min() < least + 0.04
    assert 0.85 < area.max() < 1
    aspect = (width / height)[inside]
    assert 0.74 < aspect.min() < 0.8
    assert 1.25 < aspect.max() < 1.35
    assert (out[:, :2] >= 0).all()
    assert (out[:, :2] <= 99).all()


@pytest.mark.parametrize("weak_view", ["crop", "translate", "resized_crop"])
@pytest.mark.parametrize("stored", [20, 32, 40])
def test_views_lie_channels_last(weak_view, stored):
    views = plain(32, weak_view)
    for out in (views.weak(maps(4, stored, stored), draws()), views.test(maps(4, stored, stored))):
        assert out.dtype == torch.float32
        assert out.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("weak_view", ["crop", "translate", "resized_crop"])
def test_vectors_pass_unchanged(weak_view):
    vectors = torch.randn(4, 9, generator=draws().generator)
    views = Views(None, MEAN, STD, weak_view)
    assert torch.equal(views.weak(vectors, draws()), vectors)
    assert torch.equal(views.test(vectors), vectors)


def test_images_are_left_as_they_were():
    images = maps(4, 40, 40)
    for weak_view in ("crop", "translate", "resized_crop"):
        plain(32, weak_view).weak(images, draws())
    assert torch.equal(images, maps(4, 40, 40))

"""Strong views against timm, PIL and torchvision, one op at a time and as whole policies."""

import math
import random

import numpy as np
import pytest
import torch
import torchvision.transforms.functional as tvf
from PIL import Image
from timm.data import auto_augment as timm_ops
from torch.utils._python_dispatch import TorchDispatchMode

from unihssl.data import color_jitter, pixels, randaugment
from unihssl.data.batch_random import BatchRandom
from unihssl.data.color_jitter import moco_view
from unihssl.data.randaugment import FIXMATCH_IMAGENET, TIMM_M10_N2, TORCHSSL, Op, RandAugment, rand_augment

HEIGHT, WIDTH = 40, 56
POLICIES = {"timm": TIMM_M10_N2, "torchssl": TORCHSSL, "fixmatch": FIXMATCH_IMAGENET}
TIMM_NAMES = {
    Op.AUTOCONTRAST: "AutoContrast",
    Op.EQUALIZE: "Equalize",
    Op.INVERT: "Invert",
    Op.ROTATE: "Rotate",
    Op.POSTERIZE: "Posterize",
    Op.SOLARIZE: "Solarize",
    Op.SOLARIZE_ADD: "SolarizeAdd",
    Op.COLOR: "Color",
    Op.CONTRAST: "Contrast",
    Op.BRIGHTNESS: "Brightness",
    Op.SHARPNESS: "Sharpness",
    Op.SHEAR_X: "ShearX",
    Op.SHEAR_Y: "ShearY",
    Op.TRANSLATE_X: "TranslateXRel",
    Op.TRANSLATE_Y: "TranslateYRel",
}
ENHANCE = (0.05, 0.1, 0.5, 0.95, 1.0, 1.37, 1.9)
POINTWISE = {
    Op.EQUALIZE: (0,),
    Op.INVERT: (0,),
    Op.POSTERIZE: (1, 2, 3, 4, 6, 8),
    Op.SOLARIZE: (0, 1, 77, 128, 255, 256),
    Op.SOLARIZE_ADD: (0, 1, 60, 110),
    Op.BRIGHTNESS: ENHANCE,
    Op.CONTRAST: ENHANCE,
    Op.COLOR: ENHANCE,
    Op.SHARPNESS: ENHANCE,
}
WARPS = {
    Op.ROTATE: (-30, -11.3, 0.7, 30),
    Op.SHEAR_X: (-0.3, 0.08, 0.3),
    Op.SHEAR_Y: (-0.3, 0.08, 0.3),
    Op.TRANSLATE_X: (-0.449, 0.113, 0.449),
    Op.TRANSLATE_Y: (-0.449, 0.113, 0.449),
}
SINGLE_CALLS = [(op, argument) for op, arguments in (POINTWISE | WARPS).items() for argument in arguments]


def draws(seed=0):
    return BatchRandom(seed=seed)


def noise(height=HEIGHT, width=WIDTH):
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def scene(height=HEIGHT, width=WIDTH):
    """Smooth shading with a few edges, and less than the full range of values, as in a photograph."""
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    channels = [120 + 70 * np.sin(5 * x + 2 * y), 90 + 60 * np.cos(4 * y - x), 60 + 120 * x * y]
    image = np.stack(channels, axis=2)
    image[height // 3 : height // 2, width // 4 : width // 2] += 35
    return image.astype(np.uint8)


def flat_red(height=HEIGHT, width=WIDTH):
    image = scene(height, width)
    image[:, :, 0] = 130
    return image


PICTURES = {"noise": noise, "scene": scene, "flat_red": flat_red}


def batch(*images):
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float()


def arrays(images):
    assert torch.equal(images, images.round())
    return images.permute(0, 2, 3, 1).numpy().astype(np.int64)


def apply_one(image, op, argument, policy=TIMM_M10_N2):
    out = randaugment.apply_ops(batch(image), torch.tensor([[int(op)]]), torch.tensor([[float(argument)]]), policy)
    return arrays(out)[0]


def apply_timm(image, op, argument):
    function, arguments = timm_ops.NAME_TO_OP[TIMM_NAMES[op]], () if op in (Op.EQUALIZE, Op.INVERT) else (argument,)
    warp = {"resample": Image.Resampling.BILINEAR, "fillcolor": TIMM_M10_N2.fill}
    return np.asarray(function(Image.fromarray(image), *arguments, **warp)).astype(np.int64)


@pytest.mark.parametrize("picture", PICTURES)
@pytest.mark.parametrize(("op", "argument"), [(op, each) for op, several in POINTWISE.items() for each in several])
def test_ops_on_values_are_those_of_pil(op, argument, picture):
    image = PICTURES[picture]()
    np.testing.assert_array_equal(apply_one(image, op, argument), apply_timm(image, op, argument))


@pytest.mark.parametrize("seed", range(8))
def test_autocontrast_is_that_of_pil_but_for_its_double_rounding(seed):
    """PIL multiplies by a rounded scale, so that even the lightest value may become 254; ours divides exactly."""
    low, high = sorted(np.random.default_rng(seed).choice(256, 2, replace=False))
    image = np.random.default_rng(seed).integers(low, high + 1, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    ours = apply_one(image, Op.AUTOCONTRAST, 0)
    theirs = np.asarray(timm_ops.auto_contrast(Image.fromarray(image))).astype(np.int64)
    assert set(np.unique(ours - theirs)) <= {0, 1}
    np.testing.assert_array_equal(ours, (image.astype(np.int64) - low) * 255 // (high - low))


def test_autocontrast_leaves_a_flat_channel():
    out = apply_one(flat_red(), Op.AUTOCONTRAST, 0)
    assert (out[:, :, 0] == 130).all()
    assert (out[:, :, 1].min(), out[:, :, 1].max()) == (0, 255)


def test_posterize_to_no_bits_is_black():
    """As PIL did before it refused 0 bits; timm asks for them below level 2.5."""
    assert not apply_one(noise(), Op.POSTERIZE, 0).any()


@pytest.mark.parametrize("side", [(HEIGHT, WIDTH), (16, 16), (96, 64)])
@pytest.mark.parametrize("picture", ["noise", "scene"])
@pytest.mark.parametrize(("op", "argument"), [(op, each) for op, several in WARPS.items() for each in several])
def test_warps_are_those_of_pil(op, argument, picture, side):
    """PIL samples in double, we in float32: a value on the brink of the next grey level, or a pixel on the brink of
    the image, may fall to the other side. Nothing else may differ. The shifts are no round fractions of a pixel, which
    would put many values on the brink.
    """
    image = PICTURES[picture](*side)
    difference = np.abs(apply_one(image, op, argument) - apply_timm(image, op, argument))
    assert (difference > 1).any(2).mean() < 0.005
    assert (difference == 1).mean() < 0.05


@pytest.mark.parametrize(("op", "argument"), [(op, each) for op, several in WARPS.items() for each in several])
def test_torchssl_warps_take_the_nearest_pixel_and_fill_with_black(op, argument):
    image = Image.fromarray(noise())
    matrices = {
        Op.SHEAR_X: (1, argument, 0, 0, 1, 0),
        Op.SHEAR_Y: (1, 0, 0, argument, 1, 0),
        Op.TRANSLATE_X: (1, 0, argument * WIDTH, 0, 1, 0),
        Op.TRANSLATE_Y: (1, 0, 0, 0, 1, argument * HEIGHT),
    }
    theirs = image.rotate(argument) if op == Op.ROTATE else image.transform(image.size, Image.AFFINE, matrices[op])
    assert (apply_one(noise(), op, argument, TORCHSSL) != np.asarray(theirs)).any(2).mean() < 0.02


def test_translation_by_pixels():
    out = apply_one(noise(), Op.TRANSLATE_X, 7, FIXMATCH_IMAGENET)
    np.testing.assert_array_equal(out[:, :-7], noise()[:, 7:])
    assert (out[:, -7:] == 128).all()


def test_every_sample_of_a_batch_gets_its_own_op_and_argument():
    images = [PICTURES[name]() for name in PICTURES] * len(SINGLE_CALLS)
    calls = [call for call in SINGLE_CALLS for _ in PICTURES]
    ops, arguments = torch.tensor([[int(op)] for op, _ in calls]), torch.tensor([[float(each)] for _, each in calls])
    together = arrays(randaugment.apply_ops(batch(*images), ops, arguments, TIMM_M10_N2))
    for out, image, (op, argument) in zip(together, images, calls, strict=True):
        np.testing.assert_array_equal(out, apply_one(image, op, argument))


def test_layers_follow_each_other():
    calls = random.Random(0).choices(SINGLE_CALLS, k=40)
    first, second = calls[:20], calls[20:]
    ops = torch.tensor([[int(one[0]), int(two[0])] for one, two in zip(first, second, strict=True)])
    arguments = torch.tensor([[float(one[1]), float(two[1])] for one, two in zip(first, second, strict=True)])
    together = arrays(randaugment.apply_ops(batch(*[scene()] * 20), ops, arguments, TIMM_M10_N2))
    for out, one, two in zip(together, first, second, strict=True):
        np.testing.assert_array_equal(out, apply_one(apply_one(scene(), *one).astype(np.uint8), *two))


@pytest.mark.parametrize("argument", [-30.0, 0.0, 0.5, 256.0])
def test_identity_changes_nothing(argument):
    np.testing.assert_array_equal(apply_one(noise(), Op.IDENTITY, argument), noise())


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("op", TIMM_NAMES)
def test_arguments_at_each_level_are_timms(op, sign, monkeypatch):
    monkeypatch.setattr(timm_ops, "_randomly_negate", lambda value: sign * value)
    levels = [*range(11), 0.01, 2.49, 2.5, 7.49, 7.5, 9.999, *np.random.default_rng(0).uniform(0, 10, 200)]
    rule = timm_ops.LEVEL_TO_ARG[TIMM_NAMES[op]]
    theirs = [rule(level, {})[0] if rule else 0 for level in levels]
    levels = torch.tensor(levels, dtype=torch.float32)
    ours = randaugment.op_arguments(torch.full_like(levels, int(op)).long(), levels, torch.tensor(sign), TIMM_M10_N2)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "low", "high"),
    [
        (Op.BRIGHTNESS, 0.05, 0.95),
        (Op.SHARPNESS, 0.05, 0.95),
        (Op.POSTERIZE, 4, 8),
        (Op.SOLARIZE, 0, 256),
        (Op.ROTATE, 0, 30),
        (Op.SHEAR_X, 0, 0.3),
        (Op.TRANSLATE_Y, 0, 0.3),
    ],
)
def test_torchssl_ranges(op, low, high):
    ends = randaugment.op_arguments(torch.tensor([op, op]), torch.tensor([0.0, 10.0]), torch.tensor(1), TORCHSSL)
    np.testing.assert_allclose(ends, [low, high], rtol=1e-6)


@pytest.mark.parametrize(("name", "kinds"), [("timm", 15), ("torchssl", 14), ("fixmatch", 16)])
def test_ops_are_drawn_equally_often_and_applied_as_often_as_told(name, kinds):
    policy, count = POLICIES[name], 20_000
    ops, arguments = randaugment.draw_ops(count, draws(), policy)
    assert ops.shape == arguments.shape == (count, policy.num_ops)
    assert len(policy.ops) == len(set(policy.ops)) == kinds
    share = policy.probability / kinds
    expected = torch.zeros(len(Op))
    expected[list(policy.ops)] = share
    expected[Op.IDENTITY] += 1 - policy.probability
    for layer in range(policy.num_ops):
        observed = torch.bincount(ops[:, layer], minlength=len(Op)) / count
        assert ((observed - expected).abs() < 4 * math.sqrt(0.25 / count)).all()
        chi_square = count * ((observed - expected) ** 2 / expected.clamp(min=1e-9)).sum()
        assert chi_square < kinds + 4 * math.sqrt(2 * kinds)


def test_layers_draw_apart():
    """With replacement: the two layers agree on the op as often as two independent draws of it."""
    policy = RandAugment(TIMM_M10_N2.ops, probability=1.0)
    ops, _ = randaugment.draw_ops(20_000, draws(), policy)
    assert abs((ops[:, 0] == ops[:, 1]).float().mean() - 1 / 15) < 4 * math.sqrt(1 / 15 / 20_000)


def test_levels_of_each_policy():
    def drawn(policy):
        ops, arguments = randaugment.draw_ops(20_000, draws(), policy)
        turned = arguments[ops == Op.ROTATE]
        assert abs((turned < 0).float().mean() - (turned > 0).float().mean()) < 0.08
        return (turned.abs() / policy.rotate * 10).numpy()

    normal, uniform, steps = drawn(TIMM_M10_N2), drawn(TORCHSSL), drawn(FIXMATCH_IMAGENET)
    assert abs((normal > 9.9999).mean() - 0.5) < 0.05
    assert abs((normal > 8).mean() - 0.841) < 0.04
    assert normal.min() > 0
    np.testing.assert_allclose(np.quantile(uniform, [0.25, 0.5, 0.75]), [2.5, 5, 7.5], atol=0.3)
    np.testing.assert_allclose(steps, steps.round(), atol=1e-5)
    assert set(steps.round()) == set(range(11))


def test_timm_policy_changes_images_as_much_as_timm_does():
    """Mean change, mean and contrast over many draws, within four standard errors of the two samples."""
    count, image = 1500, scene(24, 24)
    random.seed(0)
    np.random.seed(0)
    theirs_of = timm_ops.rand_augment_transform("rand-m10-n2-mstd2", {"img_mean": TIMM_M10_N2.fill})
    theirs = np.stack([np.asarray(theirs_of(Image.fromarray(image))) for _ in range(count)]).astype(float)
    ours = arrays(rand_augment(batch(*[image] * count), draws())).astype(float)

    def summary(views):
        return np.stack([np.abs(views - image).mean((1, 2, 3)), views.mean((1, 2, 3)), views.std((1, 2, 3))])

    error = np.sqrt((summary(theirs).var(1) + summary(ours).var(1)) / count)
    assert (np.abs(summary(ours).mean(1) - summary(theirs).mean(1)) < 4 * error).all()


@pytest.mark.parametrize("name", POLICIES)
def test_the_seed_decides_and_every_sample_has_its_own_draw(name):
    images = batch(*[scene()] * 60)
    first, again, other = (rand_augment(images, draws(seed), POLICIES[name]) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert len(torch.unique(first.flatten(1), dim=0)) > 25


@pytest.mark.parametrize("name", [*POLICIES, "moco"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_range_type_and_memory_are_kept(name, dtype, memory_format):
    images = batch(*[noise(), scene()] * 8).to(dtype).contiguous(memory_format=memory_format)
    given = images.clone()
    out = moco_view(images, draws()) if name == "moco" else rand_augment(images, draws(), POLICIES[name])
    assert (out.shape, out.dtype) == (images.shape, dtype)
    assert out.is_contiguous(memory_format=memory_format)
    assert out.min() >= 0
    assert out.max() <= 255
    assert torch.equal(images, given)


@pytest.mark.parametrize("view", [rand_augment, moco_view])
def test_memory_format_and_parts_change_no_value(view, monkeypatch):
    images = batch(*[noise(), scene()] * 8).contiguous()
    whole = view(images, draws())
    monkeypatch.setattr(pixels, "CACHED_PIXELS", 3 * HEIGHT * WIDTH)
    torch.testing.assert_close(view(images, draws()), whole, rtol=0, atol=1e-3)
    channels_last = images.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(view(channels_last, draws()), whole, rtol=0, atol=1e-3)


def test_nothing_happens_at_probability_zero():
    images = batch(noise(), scene())
    assert torch.equal(rand_augment(images, draws(), RandAugment(TIMM_M10_N2.ops, probability=0.0)), images)


@pytest.mark.parametrize("view", [rand_augment, moco_view])
@pytest.mark.parametrize("shape", [(4, 8, 8), (2, 1, 3, 8, 8)])
def test_other_shapes_are_refused(view, shape):
    with pytest.raises(ValueError, match=r"\(B, C, H, W\)"):
        view(torch.zeros(shape), draws())


@pytest.mark.parametrize("channels", [1, 5])
@pytest.mark.parametrize("policy", POLICIES)
def test_channels_that_are_no_colours_are_changed_alike(channels, policy):
    """The channels of a sample share its ops, equal values stay equal, and their order stays."""
    one = torch.randint(0, 256, (32, 1, HEIGHT, WIDTH)).float()
    found = rand_augment(one.expand(-1, channels, -1, -1), draws(), POLICIES[policy])
    assert found.shape == (32, channels, HEIGHT, WIDTH)
    assert torch.equal(found, found[:, :1].expand_as(found))
    assert found.std((1, 2, 3)).median() > 5
    allowed = {op for op in POLICIES[policy].ops if op not in randaugment.NOT_FOR_BANDS}
    assert allowed >= {Op.BRIGHTNESS, Op.CONTRAST, Op.SHARPNESS, *WARPS}


def test_contrast_is_about_each_channels_own_mean():
    images = torch.stack([torch.full((8, 8), 50.0), torch.full((8, 8), 200.0)])[None]
    images[:, :, 0] += 10
    policy = RandAugment((Op.CONTRAST,), probability=1.0, num_ops=1, level="uniform", enhance=(0.0, 0.0))
    flat = rand_augment(images, draws(), policy)
    assert torch.equal(flat, torch.tensor([51.0, 201.0]).view(1, 2, 1, 1).expand_as(flat))


def test_moco_view_of_bands_has_no_colours():
    images = torch.rand(16, 1, HEIGHT, WIDTH).mul(255).floor()
    found = moco_view(images.expand(-1, 4, -1, -1), draws())
    assert found.shape == (16, 4, HEIGHT, WIDTH) and not torch.equal(found[:, :1], images)
    torch.testing.assert_close(found, found[:, :1].expand_as(found))


class HostReads(TorchDispatchMode):
    """Fails on what makes the host wait for the device: reading a value, or a shape that depends on values."""

    FORBIDDEN = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "bincount", "is_nonzero", "equal.default")

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        assert not any(name.startswith(f"aten.{each}") for each in self.FORBIDDEN), name
        assert not any(isinstance(each, torch.Tensor) and each.dtype == torch.bool for each in _indices(name, args))
        return function(*args, **(kwargs or {}))


def _indices(name, args):
    return args[1] if name.startswith("aten.index.") else ()


@pytest.mark.parametrize("name", [*POLICIES, "moco"])
def test_the_host_never_waits(name):
    images = batch(noise(), scene())
    with HostReads():
        moco_view(images, draws()) if name == "moco" else rand_augment(images, draws(), POLICIES[name])


def test_cutout_squares():
    """Sides evenly from one pixel to half the width, smaller only where the edge cuts them; all in one colour."""
    policy = RandAugment((Op.IDENTITY,), cutout=0.5)
    count, side = 2000, 32
    out = rand_augment(torch.zeros(count, 3, side, side), draws(), policy)
    cut = (out > 0).all(1)
    assert torch.equal(out, torch.tensor(policy.cutout_fill).view(1, 3, 1, 1) * cut.unsqueeze(1))
    rows, columns = cut.any(2).sum(1), cut.any(1).sum(1)
    assert torch.equal(cut.sum((1, 2)), rows * columns)
    longest = torch.maximum(rows, columns)
    assert (longest.min(), longest.max()) == (1, side // 2)
    assert abs(longest.float().mean() - 8.3) < 0.6
    assert cut.float().mean(0).min() > 0.02


def test_cutout_is_torchssls():
    for share, centre_y, centre_x in np.random.default_rng(0).uniform(size=(50, 3)).astype(np.float32):
        side = share * 0.5 * WIDTH
        left, top = int(max(0, centre_x * WIDTH - side / 2)), int(max(0, centre_y * HEIGHT - side / 2))
        expected = noise().astype(np.int64)
        expected[top : int(top + side) + 1, left : int(left + side) + 1] = TORCHSSL.cutout_fill
        out = randaugment.cut_out(batch(noise()), torch.tensor([[share, centre_y, centre_x]]), TORCHSSL)
        np.testing.assert_array_equal(arrays(out)[0], expected)


def jitter_one(image, brightness=1.0, contrast=1.0, saturation=1.0, hue=0.0):
    factors = (torch.tensor(each).view(1, 1, 1, 1) for each in (brightness, contrast, saturation, hue))
    return color_jitter.color_jitter(batch(image), *factors)[0].permute(1, 2, 0).numpy()


@pytest.mark.parametrize("picture", PICTURES)
@pytest.mark.parametrize("factor", [0.6, 0.93, 1.4])
def test_jitter_is_torchvisions(factor, picture):
    """Exact but for the way through hue and back, which is float32."""
    image = PICTURES[picture]()
    pil = Image.fromarray(image)
    np.testing.assert_allclose(jitter_one(image, brightness=factor), tvf.adjust_brightness(pil, factor), atol=1e-3)
    np.testing.assert_allclose(jitter_one(image, contrast=factor), tvf.adjust_contrast(pil, factor), atol=1e-3)
    np.testing.assert_allclose(jitter_one(image, saturation=factor), tvf.adjust_saturation(pil, factor), atol=1e-3)


@pytest.mark.parametrize("picture", PICTURES)
@pytest.mark.parametrize("hue", [-0.5, -0.1, -0.03, 0.0, 0.07, 0.1, 0.4])
def test_hue_is_torchvisions(hue, picture):
    image = PICTURES[picture]()
    theirs = tvf.adjust_hue(batch(image)[0] / 255, hue).permute(1, 2, 0) * 255
    np.testing.assert_allclose(jitter_one(image, hue=hue), theirs, atol=0.01)


@pytest.mark.parametrize("sigma", [0.1, 0.7, 2.0])
@pytest.mark.parametrize(("side", "kernel"), [((HEIGHT, WIDTH), 5), ((16, 16), 3), ((224, 224), 23)])
def test_blur_is_torchvisions(side, kernel, sigma):
    images = batch(noise(*side), scene(*side))
    ours = color_jitter.gaussian_blur(images, torch.tensor([sigma, 0.1]).view(-1, 1, 1, 1))
    torch.testing.assert_close(ours[0], tvf.gaussian_blur(images[0], kernel, sigma), rtol=0, atol=0.01)
    torch.testing.assert_close(ours[1], images[1], rtol=0, atol=0.01)


def test_moco_shares_and_ranges():
    """On a grey image jitter shows as brightness alone; on a coloured one grayscale shows as equal channels."""
    count = 3000
    bound = 4 * math.sqrt(0.25 / count)
    brightness = moco_view(torch.full((count, 3, 4, 4), 150.0), draws())[:, 0, 2, 2] / 150
    assert abs((brightness == 1).float().mean() - 0.2) < bound + 0.01
    assert 0.59 < brightness.min() < 0.61
    assert 1.39 < brightness.max() < 1.41
    coloured = moco_view(batch(scene(8, 8)).expand(count, -1, -1, -1), draws())
    gray = coloured.amax(1) - coloured.amin(1) < 1e-2
    assert abs(gray.all((1, 2)).float().mean() - 0.2) < bound
    unchanged = (coloured - batch(scene(8, 8))).abs().amax((1, 2, 3)) == 0
    assert abs(unchanged.float().mean() - 0.2 * 0.8 * 0.5) < bound


def test_moco_blurs_half_of_the_samples():
    """White noise has sqrt(2) times its spread between neighbours, whatever the jitter; blur brings that down.

    With sigma above 0.37 it falls below 1.3: half of the samples, less the 14% of sigmas below that.
    """
    white = torch.normal(128, 15, (1, 1, 60, 60), generator=draws().generator).expand(400, 3, -1, -1)
    out = moco_view(white, draws())
    roughness = (out.diff(dim=3) ** 2).mean((1, 2, 3)).sqrt() / out.std((1, 2, 3))
    assert roughness.max() < 1.5
    assert abs((roughness < 1.3).float().mean() - 0.43) < 4 * math.sqrt(0.25 / 400)
    assert roughness.min() < 0.45


def test_moco_seed_decides_and_every_sample_has_its_own_draw():
    images = batch(*[scene()] * 50)
    first, again, other = (moco_view(images, draws(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert len(torch.unique(first.flatten(1), dim=0)) > 40

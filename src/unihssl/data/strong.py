"""Strong views of a whole batch at once, on the device that holds it, each sample with its own ops and magnitudes.

Images come and leave as floats (B, 3, H, W) on the 0..255 scale. Each layer rounds as PIL's uint8 images do.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

MAX_LEVEL = 10.0
CACHED_PIXELS = 2**18  # how many a CPU works on at once, so that what one op leaves is still in its cache for the next
Colour = tuple[float, float, float]

Op = IntEnum(  # what one layer can do to a sample, by how it is done
    "Op",
    "IDENTITY INVERT POSTERIZE SOLARIZE SOLARIZE_ADD BRIGHTNESS CONTRAST AUTOCONTRAST EQUALIZE "  # lookup tables
    "COLOR SHARPNESS "  # blends
    "ROTATE SHEAR_X SHEAR_Y TRANSLATE_X TRANSLATE_Y",  # warps
    start=0,
)


@dataclass(frozen=True)
class RandAugment:
    """A RandAugment policy: which ops, how often, how strong. Cubuk et al., 2020.

    A level on 0..10 is drawn around `mean` ("normal", clipped), anywhere ("uniform") or at the whole numbers
    ("steps"); an op's argument goes linearly with it, from one end of the op's range to the other.
    """

    ops: tuple[Op, ...]
    num_ops: int = 2
    probability: float = 0.5
    level: Literal["normal", "uniform", "steps"] = "normal"
    mean: float = 10.0
    std: float = 2.0
    enhance: tuple[float, float] = (0.1, 1.9)  # of brightness, contrast, color, sharpness; 1 changes nothing
    posterize: tuple[int, int] = (0, 4)  # bits kept
    rotate: float = 30.0  # degrees to either side
    shear: float = 0.3
    translate: float = 0.45
    translate_unit: Literal["side", "pixel"] = "side"
    resample: Literal["bilinear", "nearest"] = "bilinear"
    fill: Colour = (124, 116, 104)  # what a warp brings in from outside; here ImageNet's mean colour
    cutout: float = 0.0  # longest side of the square, as a share of the width; 0 cuts nothing
    cutout_fill: Colour = (125, 123, 114)


# timm's rand-m10-n2-mstd2. Half of its levels are 10, where Solarize does nothing and the enhancers do most.
TIMM_M10_N2 = RandAugment(tuple(op for op in Op if op != Op.IDENTITY))
TORCHSSL = RandAugment(
    tuple(op for op in Op if op not in (Op.INVERT, Op.SOLARIZE_ADD)),
    num_ops=3,
    probability=1.0,
    level="uniform",
    enhance=(0.05, 0.95),
    posterize=(4, 8),
    translate=0.3,
    resample="nearest",
    fill=(0, 0, 0),
    cutout=0.5,
)
FIXMATCH_IMAGENET = RandAugment(
    tuple(Op), level="steps", translate=100, translate_unit="pixel", resample="nearest", fill=(128, 128, 128)
)


@torch.no_grad()
def rand_augment(images: Tensor, generator: torch.Generator, policy: RandAugment = TIMM_M10_N2) -> Tensor:
    """Each sample through its own `num_ops` ops, drawn with replacement, then its own cutout if the policy has one."""
    ops, arguments = draw_ops(len(images), generator, policy)
    squares = torch.rand(len(images), 3, device=images.device, generator=generator)

    def layers(images: Tensor, ops: Tensor, arguments: Tensor, squares: Tensor) -> Tensor:
        out = apply_ops(images.round().clamp(0, 255), ops, arguments, policy)
        return cut_out(out, squares, policy) if policy.cutout else out

    return _in_parts(layers, images, ops, arguments, squares)


def draw_ops(count: int, generator: torch.Generator, policy: RandAugment) -> tuple[Tensor, Tensor]:
    """Ops and their arguments, both (count, num_ops); a layer that is not applied is the identity."""
    shape, device = (count, policy.num_ops), generator.device
    drawn = torch.randint(len(policy.ops), shape, device=device, generator=generator)
    applied = torch.rand(shape, device=device, generator=generator) < policy.probability
    ops = torch.where(applied, _constant(policy.ops, device, torch.int64)[drawn], int(Op.IDENTITY))
    if policy.level == "normal":
        levels = policy.mean + policy.std * torch.randn(shape, device=device, generator=generator)
    elif policy.level == "uniform":
        levels = MAX_LEVEL * torch.rand(shape, device=device, generator=generator)
    else:
        levels = torch.randint(int(MAX_LEVEL) + 1, shape, device=device, generator=generator).float()
    signs = 1 - 2 * torch.randint(2, shape, device=device, generator=generator)
    return ops, op_arguments(ops, levels.clamp(0, MAX_LEVEL), signs, policy)


def op_arguments(ops: Tensor, levels: Tensor, signs: Tensor, policy: RandAugment) -> Tensor:
    """What each op is called with at its level, as timm's `LEVEL_TO_ARG`; warps go to the side the sign says."""
    start, span, whole, signed = _argument_rules(policy, ops.device)[:, ops]
    arguments = start + span * levels / MAX_LEVEL
    arguments = torch.where(whole > 0, arguments.floor(), arguments)
    return torch.where(signed > 0, signs * arguments, arguments)


@functools.cache
def _argument_rules(policy: RandAugment, device: torch.device) -> Tensor:
    """Per op: its argument at level 0, what level 10 adds, whether it is a whole number, whether it has a sign."""
    enhance = (policy.enhance[0], policy.enhance[1] - policy.enhance[0], 0, 0)
    rules: dict[Op, tuple[float, float, int, int]] = dict.fromkeys(Op, (0, 0, 0, 0))
    rules |= dict.fromkeys((Op.BRIGHTNESS, Op.CONTRAST, Op.COLOR, Op.SHARPNESS), enhance)
    rules[Op.POSTERIZE] = (policy.posterize[0], policy.posterize[1] - policy.posterize[0], 1, 0)
    rules[Op.SOLARIZE] = (0, 256, 1, 0)
    rules[Op.SOLARIZE_ADD] = (0, 110, 1, 0)
    rules[Op.ROTATE] = (0, policy.rotate, 0, 1)
    rules |= dict.fromkeys((Op.SHEAR_X, Op.SHEAR_Y), (0, policy.shear, 0, 1))
    rules |= dict.fromkeys((Op.TRANSLATE_X, Op.TRANSLATE_Y), (0, policy.translate, 0, 1))
    return torch.tensor([rules[op] for op in Op], dtype=torch.float32, device=device).T


def apply_ops(images: Tensor, ops: Tensor, arguments: Tensor, policy: RandAugment) -> Tensor:
    """Each sample through its own ops, (B, layers). What is of another kind passes a table, blend or warp unchanged."""
    tables = _fixed_tables(ops.T, arguments.T)
    grids, inside = _warp_grids(ops.T, arguments.T, images.shape[2], images.shape[3], policy)
    for layer in range(ops.shape[1]):
        op, argument = ops[:, layer, None, None, None], arguments[:, layer, None, None, None]
        gray, values = _gray(images), images.long().flatten(2)
        table = _measured_tables(values, gray, op.squeeze(3), argument.squeeze(3), tables[layer].unsqueeze(1))
        images = _enhance(table.gather(2, values).view_as(images), gray, op, argument)
        images = torch.where(op >= Op.ROTATE, _warp(images, grids[layer], inside[layer], policy), images)
    return images


def _fixed_tables(ops: Tensor, arguments: Tensor) -> Tensor:
    """What each of the 256 values becomes by the ops that need not see the image, as PIL's ImageOps has it."""
    value, argument = torch.arange(256.0, device=ops.device), arguments.unsqueeze(-1)
    step = torch.exp2(8 - argument.clamp(0, 8))
    tables = {
        Op.IDENTITY: value,
        Op.INVERT: 255 - value,
        Op.POSTERIZE: (value / step).floor() * step,
        Op.SOLARIZE: torch.where(value < argument, value, 255 - value),
        Op.SOLARIZE_ADD: torch.where(value < 128, (value + argument).clamp(max=255), value),
        Op.BRIGHTNESS: (value * argument).clamp(0, 255).floor(),
    }
    stacked = torch.stack([tables[op].expand(*ops.shape, -1) for op in sorted(tables)])
    chosen = ops * (ops < len(tables))
    return stacked.gather(0, chosen[None, ..., None].expand_as(stacked[:1])).squeeze(0)


def _measured_tables(values: Tensor, gray: Tensor, op: Tensor, argument: Tensor, fixed: Tensor) -> Tensor:
    """The same per sample and channel, (B, 3, 256), with the ops that depend on the image's own values."""
    value = torch.arange(256.0, device=values.device)
    counts = torch.zeros(*values.shape[:2], 256, device=values.device)
    counts.scatter_add_(2, values, torch.ones((), device=values.device).expand_as(values))
    mean = (gray.mean((2, 3), keepdim=True) + 0.5).floor().squeeze(3)
    table = torch.where(op == Op.CONTRAST, _blend(mean, value, argument), fixed)
    table = torch.where(op == Op.AUTOCONTRAST, _autocontrast_table(counts, value), table)
    return torch.where(op == Op.EQUALIZE, _equalize_table(counts, value), table)


def _autocontrast_table(counts: Tensor, value: Tensor) -> Tensor:
    """The darkest value becomes 0, the lightest 255; a flat channel stays."""
    present = counts > 0
    low = torch.where(present, value, 255).amin(2, keepdim=True)
    high = torch.where(present, value, 0).amax(2, keepdim=True)
    stretched = ((value - low) * 255 / (high - low).clamp(min=1)).floor().clamp(0, 255)
    return torch.where(high > low, stretched, value)


def _equalize_table(counts: Tensor, value: Tensor) -> Tensor:
    """The cumulative histogram in steps of a 255th of the pixels, the lightest value's pixels not counted."""
    below = counts.cumsum(2) - counts
    # Pixels below the lightest value present: all but those of the last bin that holds any.
    step = (torch.where(counts > 0, below, 0).amax(2, keepdim=True) / 255).floor()
    equalized = ((below + (step / 2).floor()) / step.clamp(min=1)).floor().clamp(max=255)
    return torch.where(step > 0, equalized, value)


def _enhance(images: Tensor, gray: Tensor, op: Tensor, argument: Tensor) -> Tensor:
    """Color is a blend with the grey image, sharpness one with the smoothed image."""
    degenerate = torch.where(op == Op.COLOR, gray, torch.where(op == Op.SHARPNESS, _smooth(images), images))
    return _blend(degenerate, images, argument)


def _blend(degenerate: Tensor, images: Tensor, factor: Tensor) -> Tensor:
    """PIL's `Image.blend`: from the degenerate image (0) to the image (1) and beyond, truncated to whole numbers."""
    return (images - degenerate).mul(factor).add_(degenerate).clamp_(0, 255).floor_()


def _gray(images: Tensor) -> Tensor:
    """PIL's "L": luma in 16-bit fixed point, which float32 holds exactly."""
    red, green, blue = images.chunk(3, dim=1)
    return (19595 * red).add_(green, alpha=38470).add_(blue, alpha=7471).add_(32768).div_(65536).floor_()


def _smooth(images: Tensor) -> Tensor:
    """PIL's SMOOTH filter: the 3x3 neighbours weigh 1, the pixel itself 5; the border stays."""
    rows = (images[:, :, :-2] + images[:, :, 1:-1]).add_(images[:, :, 2:])
    square = (rows[..., :-2] + rows[..., 1:-1]).add_(rows[..., 2:])
    out = images.clone()
    out[:, :, 1:-1, 1:-1] = square.add_(images[:, :, 1:-1, 1:-1], alpha=4).div_(13).round_()
    return out


def _warp_grids(ops: Tensor, arguments: Tensor, height: int, width: int, policy: RandAugment) -> tuple[Tensor, Tensor]:
    """Where each pixel comes from, and whether that is inside the image; by the centres of pixels, as in PIL.

    Rotation is about the centre, shear from the top left corner.
    """

    def of(op: Op) -> Tensor:
        return (arguments * (ops == op))[..., None, None]

    angle, shear_x, shear_y = of(Op.ROTATE) * (math.pi / 180), of(Op.SHEAR_X), of(Op.SHEAR_Y)
    cos, sin = angle.cos(), angle.sin()
    unit_x, unit_y = (width, height) if policy.translate_unit == "side" else (1, 1)
    x = torch.arange(width, device=ops.device) - (width - 1) / 2
    y = (torch.arange(height, device=ops.device) - (height - 1) / 2).unsqueeze(1)
    # Written out rather than F.affine_grid, whose matrix product would run in TF32 or bf16 where those are on.
    from_x = (cos * x + of(Op.TRANSLATE_X) * unit_x) + (shear_x * (y + height / 2) - sin * y)
    from_y = (cos * y + of(Op.TRANSLATE_Y) * unit_y) + (shear_y * (x + width / 2) + sin * x)
    grids = torch.stack([from_x * (2 / width), from_y * (2 / height)], dim=-1)
    return grids, (grids.abs().amax(-1) < 1).unsqueeze(2)


def _warp(images: Tensor, grid: Tensor, inside: Tensor, policy: RandAugment) -> Tensor:
    """Sampled where the grid says, the fill colour outside."""
    warped = F.grid_sample(images, grid, policy.resample, padding_mode="border", align_corners=False)
    warped.add_(0.01).floor_()  # PIL truncates; the hundredth keeps float32's rounding from taking a grey level
    return torch.where(inside, warped, _constant(policy.fill, images.device).view(1, 3, 1, 1))


def cut_out(images: Tensor, squares: Tensor, policy: RandAugment) -> Tensor:
    """A square of one colour, from `squares` (B, 3) in 0..1: its share of the longest side, its centre. TorchSSL."""
    height, width = images.shape[2:]
    share, centre_y, centre_x = squares.unsqueeze(2).unbind(1)
    side = share * policy.cutout * width

    def covered(centre: Tensor, length: int) -> Tensor:
        first = (centre * length - side / 2).clamp(min=0).floor()
        at = torch.arange(length, device=images.device)
        return (at >= first) & (at <= (first + side).floor())

    square = covered(centre_y, height).unsqueeze(2) & covered(centre_x, width).unsqueeze(1)
    return torch.where(square.unsqueeze(1), _constant(policy.cutout_fill, images.device).view(1, 3, 1, 1), images)


@torch.no_grad()
def moco_view(images: Tensor, generator: torch.Generator) -> Tensor:
    """MoCo-v2's colours, as SimMatch's strong view: jitter (p 0.8), grayscale (p 0.2), blur (p 0.5). No crop, no flip.

    Jitter goes in one order (brightness, contrast, saturation, hue), where torchvision draws an order per image.
    """
    draws = torch.rand(len(images), 8, 1, 1, 1, device=images.device, generator=generator)
    return _in_parts(_moco_colours, images, draws)


def _moco_colours(images: Tensor, draws: Tensor) -> Tensor:
    """What each sample's eight draws in 0..1 make of it."""
    jitters, brightness, contrast, saturation, hue, grays, blurs, sigma = draws.unbind(1)
    strengths = (0.6 + 0.8 * brightness, 0.6 + 0.8 * contrast, 0.6 + 0.8 * saturation, 0.2 * hue - 0.1)
    out = torch.where(jitters < 0.8, colour_jitter(images, *strengths), images)
    out = torch.where(grays < 0.2, _gray(out), out)
    return torch.where(blurs < 0.5, gaussian_blur(out, 0.1 + 1.9 * sigma), out)


def colour_jitter(images: Tensor, brightness: Tensor, contrast: Tensor, saturation: Tensor, hue: Tensor) -> Tensor:
    """torchvision's ColorJitter with each sample's own factors, (B, 1, 1, 1); hue in turns of the colour wheel."""
    out = _blend(torch.zeros_like(images), images, brightness)
    out = _blend((_gray(out).mean((1, 2, 3), keepdim=True) + 0.5).floor(), out, contrast)
    out = _blend(_gray(out), out, saturation)
    return _turn_hue(out, hue)


def _turn_hue(images: Tensor, turns: Tensor) -> Tensor:
    """Through HSV and back: a channel lies below the largest by its distance on the wheel times the chroma."""
    red, green, blue = images.chunk(3, dim=1)
    largest = images.amax(1, keepdim=True)
    chroma = largest - images.amin(1, keepdim=True)
    scale = 1 / torch.where(chroma > 0, chroma, 1)
    sixth = torch.where(
        largest == red,
        (green - blue) * scale,
        torch.where(largest == green, 2 + (blue - red) * scale, 4 + (red - green) * scale),
    )
    wheel = (sixth + 6 * turns + _constant((5, 3, 1), images.device).view(1, 3, 1, 1)) % 6
    return largest - chroma * torch.minimum(wheel, 4 - wheel).clamp(0, 1)


def gaussian_blur(images: Tensor, sigma: Tensor) -> Tensor:
    """Each sample with its own sigma, (B, 1, 1, 1); the kernel is a tenth of the image long. Chen et al., 2020."""
    height, width = images.shape[2:]
    reach = max(1, min(height, width) // 20)
    offset = torch.arange(-reach, reach + 1, device=images.device)
    kernel = torch.exp(-0.5 * (offset / sigma.view(-1, 1)) ** 2)
    kernels = (kernel / kernel.sum(1, keepdim=True)).repeat(1, 3).view(-1, 1, 1, 2 * reach + 1)
    planes = F.pad(images, (reach, reach, reach, reach), mode="reflect").flatten(0, 1).unsqueeze(0)
    with torch.autocast(images.device.type, enabled=False):  # bf16 cannot tell neighbouring grey levels apart
        planes = F.conv2d(planes, kernels, groups=len(kernels))
        return F.conv2d(planes, kernels.transpose(2, 3), groups=len(kernels)).reshape(images.shape)


def _in_parts(view: Callable[..., Tensor], images: Tensor, *draws: Tensor) -> Tensor:
    """The view of the images as float planes, on a CPU some at a time; back in their own type and memory format."""
    if images.dim() != 4 or images.shape[1] != 3:
        raise ValueError(f"strong views need images of shape (B, 3, H, W), got {tuple(images.shape)}")
    parts = 1 + images.numel() // (3 * CACHED_PIXELS) if images.device.type == "cpu" else 1
    samples = zip(*(each.chunk(parts) for each in (images.float().contiguous(), *draws)), strict=True)
    out = torch.cat([view(*some) for some in samples]).to(images.dtype)
    channels_last = images.is_contiguous(memory_format=torch.channels_last)
    return out.contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)


@functools.cache
def _constant(values: tuple[float, ...], device: torch.device, dtype: torch.dtype = torch.float32) -> Tensor:
    """Copied to the device once, not in every step."""
    return torch.tensor(values, device=device, dtype=dtype)

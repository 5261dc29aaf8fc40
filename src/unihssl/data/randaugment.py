"""RandAugment of a whole batch at once, on its device, each sample with its own ops and magnitudes.

Images come and leave as floats (B, C, H, W) on the 0..255 scale. Each layer rounds as PIL's uint8 images do. Of images
that are not RGB (grey, or bands of any kind) the values are measurements: ops that only make sense for colours are left
out (`NOT_FOR_BANDS`), and contrast is about each channel's own mean.
"""

import functools
import math
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from unihssl.data.batch_random import BatchRandom
from unihssl.data.pixels import blend, colour, constant, gray, in_parts

MAX_LEVEL = 10.0
Colour = tuple[float, float, float]

Op = IntEnum(  # what one layer can do to a sample, grouped by how it is computed
    "Op",
    "IDENTITY INVERT POSTERIZE SOLARIZE SOLARIZE_ADD BRIGHTNESS CONTRAST AUTOCONTRAST EQUALIZE "  # lookup tables
    "COLOR SHARPNESS "  # blends
    "ROTATE SHEAR_X SHEAR_Y TRANSLATE_X TRANSLATE_Y",  # warps
    start=0,
)


# Colour has no meaning; the others fold or reorder values, so that equal measurements would no longer be equal.
NOT_FOR_BANDS = {Op.COLOR, Op.INVERT, Op.POSTERIZE, Op.SOLARIZE, Op.SOLARIZE_ADD, Op.AUTOCONTRAST, Op.EQUALIZE}


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
def rand_augment(images: Tensor, random: BatchRandom, policy: RandAugment = TIMM_M10_N2) -> Tensor:
    """Each sample through its own `num_ops` ops, drawn with replacement, then its own cutout if the policy has one."""
    if images.shape[1] != 3:
        policy = replace(policy, ops=tuple(op for op in policy.ops if op not in NOT_FOR_BANDS))
    ops, arguments = draw_ops(len(images), random, policy)
    squares = random.uniform(len(images), 3)

    def layers(images: Tensor, ops: Tensor, arguments: Tensor, squares: Tensor) -> Tensor:
        out = apply_ops(images.round().clamp(0, 255), ops, arguments, policy)
        return cut_out(out, squares, policy) if policy.cutout else out

    return in_parts(layers, images, ops, arguments, squares)


def draw_ops(count: int, random: BatchRandom, policy: RandAugment) -> tuple[Tensor, Tensor]:
    """Ops and their arguments, both (count, num_ops); a layer that is not applied is the identity."""
    shape = (count, policy.num_ops)
    drawn = random.integers(len(policy.ops), *shape)
    applied = random.uniform(*shape) < policy.probability
    ops = torch.where(applied, constant(policy.ops, drawn.device, torch.int64)[drawn], int(Op.IDENTITY))
    if policy.level == "normal":
        levels = policy.mean + policy.std * random.normal(*shape)
    elif policy.level == "uniform":
        levels = MAX_LEVEL * random.uniform(*shape)
    else:
        levels = random.integers(int(MAX_LEVEL) + 1, *shape).float()
    signs = 1 - 2 * random.integers(2, *shape)
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
    """Each sample through its own ops, (B, layers). Ops of another kind pass a table, blend or warp unchanged."""
    tables = _fixed_tables(ops.T, arguments.T)
    grids, inside = _warp_grids(ops.T, arguments.T, images.shape[2], images.shape[3], policy)
    for layer in range(ops.shape[1]):
        op, argument = ops[:, layer, None, None, None], arguments[:, layer, None, None, None]
        luma, values = gray(images), images.long().flatten(2)
        table = _measured_tables(values, luma, op.squeeze(3), argument.squeeze(3), tables[layer].unsqueeze(1))
        images = _enhance(table.gather(2, values).view_as(images), luma, op, argument)
        images = torch.where(op >= Op.ROTATE, _warp(images, grids[layer], inside[layer], policy), images)
    return images


def _fixed_tables(ops: Tensor, arguments: Tensor) -> Tensor:
    """Lookup tables of the ops that do not depend on the image, as in PIL's ImageOps: (layers, B, 256)."""
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


def _measured_tables(values: Tensor, luma: Tensor, op: Tensor, argument: Tensor, fixed: Tensor) -> Tensor:
    """Lookup tables per sample and channel, (B, C, 256), with the ops that depend on the image's own values."""
    value = torch.arange(256.0, device=values.device)
    counts = torch.zeros(*values.shape[:2], 256, device=values.device)
    counts.scatter_add_(2, values, torch.ones((), device=values.device).expand_as(values))
    mean = (luma.mean((2, 3), keepdim=True) + 0.5).floor().squeeze(3)
    table = torch.where(op == Op.CONTRAST, blend(mean, value, argument), fixed)
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
    below = counts.long().cumsum(2) - counts  # of floats, CUDA has no deterministic cumulative sum
    # Pixels below the lightest value present: all but those of the last bin that holds any.
    step = (torch.where(counts > 0, below, 0).amax(2, keepdim=True) / 255).floor()
    equalized = ((below + (step / 2).floor()) / step.clamp(min=1)).floor().clamp(max=255)
    return torch.where(step > 0, equalized, value)


def _enhance(images: Tensor, luma: Tensor, op: Tensor, argument: Tensor) -> Tensor:
    """Color is a blend with the grey image, sharpness one with the smoothed image."""
    degenerate = torch.where(op == Op.COLOR, luma, images)
    inner = degenerate[:, :, 1:-1, 1:-1]  # the border stays
    torch.where(op == Op.SHARPNESS, _smooth(images), inner, out=inner)
    return blend(degenerate, images, argument)


def _smooth(images: Tensor) -> Tensor:
    """PIL's SMOOTH filter of all but the border: the 3x3 neighbours weigh 1, the pixel itself 5."""
    rows = (images[:, :, :-2] + images[:, :, 1:-1]).add_(images[:, :, 2:])
    square = (rows[..., :-2] + rows[..., 1:-1]).add_(rows[..., 2:])
    return square.add_(images[:, :, 1:-1, 1:-1], alpha=4).div_(13).round_()


def _warp_grids(ops: Tensor, arguments: Tensor, height: int, width: int, policy: RandAugment) -> tuple[Tensor, Tensor]:
    """Where each pixel comes from, and whether that is inside the image; by pixel centres, as in PIL.

    Rotation is about the centre, shear from the top left corner.
    """

    def of(op: Op) -> Tensor:
        return (arguments * (ops == op))[..., None, None]

    angle, shear_x, shear_y = of(Op.ROTATE) * (math.pi / 180), of(Op.SHEAR_X), of(Op.SHEAR_Y)
    cos, sin = angle.cos(), angle.sin()
    unit_x, unit_y = (width, height) if policy.translate_unit == "side" else (1, 1)
    x = torch.arange(width, device=ops.device) - (width - 1) / 2
    y = (torch.arange(height, device=ops.device) - (height - 1) / 2).unsqueeze(1)
    # Written out: the matrix product of F.affine_grid would run in TF32 where that is on.
    from_x = (cos * x + of(Op.TRANSLATE_X) * unit_x) + (shear_x * (y + height / 2) - sin * y)
    from_y = (cos * y + of(Op.TRANSLATE_Y) * unit_y) + (shear_y * (x + width / 2) + sin * x)
    grid_x, grid_y = from_x * (2 / width), from_y * (2 / height)
    inside = (grid_x.abs() < 1) & (grid_y.abs() < 1)
    return torch.stack([grid_x, grid_y], dim=-1), inside.unsqueeze(2)


def _warp(images: Tensor, grid: Tensor, inside: Tensor, policy: RandAugment) -> Tensor:
    """Sampled where the grid says, the fill colour outside."""
    warped = F.grid_sample(images, grid, policy.resample, padding_mode="border", align_corners=False)
    warped.add_(0.01).floor_()  # PIL truncates; the hundredth keeps float32's rounding from taking a grey level
    return torch.where(inside, warped, colour(policy.fill, images))


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
    return torch.where(square.unsqueeze(1), colour(policy.cutout_fill, images), images)

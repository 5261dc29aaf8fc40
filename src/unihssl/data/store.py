"""Every image decoded once into one uint8 array (feature vectors: one float32 array)."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from unihssl.data.cache import Cache
from unihssl.data.decode import Progress, array_key, decode_in_memory
from unihssl.data.domain import Domain
from unihssl.data.images import UNREADABLE, upright_size
from unihssl.data.machine import free_memory
from unihssl.data.source import first_few
from unihssl.errors import Setting, UserError

SMALL = 64  # images up to this side keep their size, if all share one


@dataclass(frozen=True)
class Store:
    """All decoded samples of a domain: images (N, H, W, 3) uint8, or vectors (N, D) float32."""

    samples: Tensor
    key: str = ""  # changes when the samples do
    on_disk: bool = False  # a memory map of a cached file
    found: bool = False  # taken from the cache, not decoded now

    def __len__(self) -> int:
        return len(self.samples)

    def take(self, rows: Tensor) -> Tensor:
        return self.samples[rows]


def fill_store(
    domain: Domain,
    size: tuple[int, int],
    progress: Progress | None = None,
    cache: Path | None = None,
    waiting: Progress | None = None,
) -> tuple[Domain, Store]:
    """Decode a domain's images at (height, width), or take them from the cache folder if one is given.

    Unreadable images are left out of the returned domain and named in its notes. `progress(done, total)` is called
    while decoding, `waiting` if another process is decoding the same images.

    >>> domain, store = fill_store(labeled_domain("scans", Settings()), (256, 256))
    """
    if isinstance(domain.items, np.ndarray):
        samples = _from_array(domain.items, size)
        return domain, Store(torch.from_numpy(samples), array_key(samples))
    files, decoded = domain.items, None
    if cache:
        try:
            decoded = Cache(cache).decoded(files, size, progress, waiting)
        except OSError as error:
            note = (
                f"{domain.name}: decoded images are not cached: {cache}: {error.strerror or error} (set cache to "
                "another folder, or to none)"
            )
            domain = replace(domain, notes=(*domain.notes, note))
    if decoded is None:
        _refuse_too_large(domain, size)
        decoded = decode_in_memory(files, size, progress)
    if decoded.unreadable:
        domain = _without_unreadable(domain, decoded.unreadable)
    return domain, Store(as_tensor(decoded.pixels), decoded.key, isinstance(decoded.pixels, np.memmap), decoded.found)


def _refuse_too_large(domain: Domain, size: tuple[int, int]) -> None:
    needed, free = len(domain) * size[0] * size[1] * 3, free_memory()
    if needed > free:
        raise UserError(
            f"{domain.name}: {len(domain)} decoded images take {needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB "
            f"of memory are free. Training can keep them on disk ({Setting('cache', 'FOLDER')}); else use fewer, or a "
            f"smaller {Setting('image_size')}"
        )


def as_tensor(samples: np.ndarray) -> Tensor:
    """A tensor on the same memory, without PyTorch's warning about read-only memory: it is only read."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(samples)


def stored_size(domains: Iterable[Domain], side: int, model_side: int | None) -> tuple[int, int]:
    """Height and width to store images at.

    `side` wins if given. Small images that all share one size keep it, and are enlarged on the device if the model
    needs more. Others are stored at 256 for a model of 224, and in proportion for other models.
    """
    if side:
        return side, side
    shared = _shared_small_size(domains)
    if shared:
        return shared
    return (round(model_side * 256 / 224),) * 2 if model_side else (32, 32)


def _shared_small_size(domains: Iterable[Domain]) -> tuple[int, int] | None:
    """The (height, width) that all images share, if it is small; else None. Stops at the first that differs."""
    shared: tuple[int, int] | None = None
    for domain in domains:
        if isinstance(domain.items, np.ndarray):
            sizes: Iterable[tuple[int, int]] = [domain.items.shape[1:3]]
        else:
            sizes = (size for path in domain.items if (size := _header_size(path)))
        for size in sizes:
            if max(size) > SMALL or (shared is not None and size != shared):
                return None
            shared = size
    return shared


def _header_size(path: Path) -> tuple[int, int] | None:
    try:
        return upright_size(path)
    except UNREADABLE:
        return None  # fill_store names it


def _without_unreadable(domain: Domain, unreadable: dict[int, str]) -> Domain:
    """Drop these rows and add a note; an error if nothing is left of the domain or of a class."""
    problems = [f"{domain.names[row]}: {why}" for row, why in unreadable.items()]
    readable = np.ones(len(domain), dtype=bool)
    readable[list(unreadable)] = False
    note = f"{domain.name}: skipped {len(problems)} of {len(domain)} images as unreadable ({first_few(problems)})"
    if not readable.any():
        raise UserError(f"{note}; no readable image is left")
    counts = np.bincount(domain.labels[domain.known & readable], minlength=len(domain.classes))
    before = np.bincount(domain.labels[domain.known], minlength=len(domain.classes))
    lost = [str(c) for c, now, then in zip(domain.classes, counts, before, strict=True) if then and not now]
    if lost:
        raise UserError(f"{note}; no readable image is left in class {first_few(lost)}")
    return replace(domain.keep(np.flatnonzero(readable)), notes=(*domain.notes, note))


def _from_array(array: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Vectors (N, D) as float32; images (N, H, W[, C]) as uint8 RGB at (height, width)."""
    if array.ndim == 2:
        if not np.isfinite(array).all():
            raise UserError("the feature vectors hold values that are not finite; clean them first")
        return np.ascontiguousarray(array, dtype=np.float32)
    if array.dtype != np.uint8:
        low, high = float(array.min()), float(array.max())
        if not (low >= 0 and high <= (1 if array.dtype.kind == "f" else 255)):
            raise UserError(
                f"image arrays are uint8, integers in 0..255 or floats in 0..1; got {array.dtype} in {low:g}..{high:g}"
            )
        array = np.rint(array * (255 if array.dtype.kind == "f" else 1)).astype(np.uint8)
    if array.ndim == 3:
        array = array[..., None]
    if array.shape[3] not in (1, 3):
        raise UserError(f"image arrays have 1 or 3 channels, last; got shape {array.shape}")
    rgb = np.repeat(array, 3, axis=3) if array.shape[3] == 1 else array
    if rgb.shape[1:3] != size:
        height, width = size
        rgb = np.stack([np.asarray(Image.fromarray(i).resize((width, height), Image.Resampling.BILINEAR)) for i in rgb])
    return np.ascontiguousarray(rgb)

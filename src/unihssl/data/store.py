"""Every image decoded once into one uint8 array (feature vectors: one float32 array)."""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from unihssl.data.cache import Cache
from unihssl.data.decode import Progress, array_key, decode_in_memory
from unihssl.data.domain import Domain
from unihssl.data.images import resized, size_if_readable
from unihssl.data.intensity import Window, float_kinds, window_for
from unihssl.data.machine import free_memory
from unihssl.data.rendering import Rendering, scaled
from unihssl.data.sample_file import MappedFile
from unihssl.data.source import counted, first_few
from unihssl.data.survey import array_is_plain, array_kind
from unihssl.data.values import Values, WrongChannelsError, fitted
from unihssl.errors import Setting, UserError

SMALL = 64  # images up to this side keep their size, if all share one
REASONS = 8  # that a message on unreadable images has


@dataclass(frozen=True)
class Store:
    """All decoded samples of a domain: images (N, H, W, C) uint8, or vectors (N, D) float32."""

    samples: Tensor
    key: str = ""  # changes when the samples do
    on_disk: bool = False  # a memory map of a cached file
    found: bool = False  # taken from the cache, not decoded now
    file: MappedFile | None = None  # that of the memory map

    def __len__(self) -> int:
        return len(self.samples)

    def take(self, rows: Tensor) -> Tensor:
        self.check()
        return self.samples[rows]

    def check(self) -> None:
        """A `UserError` if the samples are a memory map of a file that was cut."""
        if self.on_disk and self.file:
            self.file.check()


def fill_store(
    domain: Domain,
    size: tuple[int, int] | Rendering,
    progress: Progress | None = None,
    cache: Path | None = None,
    waiting: Progress | None = None,
) -> tuple[Domain, Store]:
    """Decode a domain's images, or take them from the cache folder if one is given.

    `size` is (height, width), for RGB; a `Rendering` also says how many channels there are, and what becomes black and
    white in images of more than 8 bits.

    Unreadable images are left out of the returned domain and named in its notes. `progress(done, total)` is called
    while decoding, `waiting` if another process is decoding the same images.

    >>> domain, store = fill_store(labeled_domain("scans", Settings()), (256, 256))
    """
    how = size if isinstance(size, Rendering) else Rendering(size)
    if isinstance(domain.items, np.ndarray):
        samples = _from_array(domain.items, how, domain.name)
        return domain, Store(torch.from_numpy(samples), array_key(samples))
    files, decoded = domain.items, None
    if cache:
        try:
            decoded = Cache(cache).decoded(files, how, progress, waiting)
        except OSError as error:
            note = (
                f"{domain.name}: decoded images are not cached: {cache}: {error.strerror or error} (set cache to "
                "another folder, or to none)"
            )
            domain = replace(domain, notes=(*domain.notes, note))
    if decoded is None:
        _refuse_too_large(domain, how)
        decoded = decode_in_memory(files, how, progress)
    if decoded.unreadable:
        domain = _without_unreadable(domain, decoded.unreadable)
    domain = replace(domain, notes=(*domain.notes, *_unscaled_notes(domain.name, decoded.unscaled)))
    file = MappedFile(decoded.pixels) if isinstance(decoded.pixels, np.memmap) else None
    return domain, Store(as_tensor(decoded.pixels), decoded.key, file is not None, decoded.found, file)


def _unscaled_notes(name: str, kinds: Mapping[str, int]) -> list[str]:
    return [
        f"{name}: {counted(count, 'image')} stored as {kind}, of which no training image was: grey levels are those of "
        "the file's own window or of its format"
        for kind, count in sorted(kinds.items())
    ]


def _refuse_too_large(domain: Domain, how: Rendering) -> None:
    needed, free = len(domain) * math.prod(how.shape), free_memory()
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


def stored_size(domains: Iterable[Domain], side: int, model_side: int | None, channels: int = 3) -> tuple[int, int]:
    """Height and width to store images at.

    `side` wins if given. Small images that all share one size keep it, and are enlarged on the device if the model
    needs more. Others are stored at 256 for a model of 224, and in proportion for other models.
    """
    if side:
        return side, side
    shared = _shared_small_size(domains, channels)
    if shared:
        return shared
    return (round(model_side * 256 / 224),) * 2 if model_side else (32, 32)


def _shared_small_size(domains: Iterable[Domain], channels: int) -> tuple[int, int] | None:
    """The (height, width) that all images share, if it is small; else None. Stops at the first that differs."""
    shared: tuple[int, int] | None = None
    for domain in domains:
        if isinstance(domain.items, np.ndarray):
            sizes: Iterable[tuple[tuple[int, int] | None, Path | None]] = [(domain.items.shape[1:3], None)]
        else:
            sizes = ((size_if_readable(path), path) for path in domain.items)
        for size, path in sizes:
            if size == shared or size is None or not (path is None or _is_whole(path, channels)):
                continue
            if max(size) > SMALL or shared is not None:
                return None
            shared = size
    return shared


def _is_whole(path: Path, channels: int) -> bool:
    """Whether the rest of a file, too, is what its first bytes promise."""
    try:
        return not decode_in_memory([path], Rendering((1, 1), channels)).unreadable
    except UserError:
        return True  # which is raised again when all are decoded


def _without_unreadable(domain: Domain, unreadable: dict[int, str]) -> Domain:
    """Drop these rows and add a note; an error if nothing is left of the domain or of a class."""
    readable = np.ones(len(domain), dtype=bool)
    readable[list(unreadable)] = False
    problems = _by_reason([(domain.names[row], why) for row, why in unreadable.items()])
    note = f"{domain.name}: skipped {len(unreadable)} of {len(domain)} images as unreadable ({problems})"
    if not readable.any():
        raise UserError(f"{note}; no readable image is left")
    counts = np.bincount(domain.labels[domain.known & readable], minlength=len(domain.classes))
    before = np.bincount(domain.labels[domain.known], minlength=len(domain.classes))
    lost = [str(c) for c, now, then in zip(domain.classes, counts, before, strict=True) if then and not now]
    if lost:
        raise UserError(f"{note}; no readable image is left in class {first_few(lost)}")
    return replace(domain.keep(np.flatnonzero(readable)), notes=(*domain.notes, note))


def _by_reason(problems: Sequence[tuple[str, str]]) -> str:
    """What cannot be read and why, each reason once: `a, b and 7 more: not an image; c: the file is empty`."""
    reasons: dict[str, list[str]] = {}
    for name, why in problems:
        reasons.setdefault(why, []).append(name)
    shown = [f"{first_few(names)}: {first_few([why])}" for why, names in reasons.items()]
    others = sum(map(len, list(reasons.values())[REASONS:]))
    return "; ".join(shown[:REASONS]) + (f"; and {others} more" if others else "")


def _from_array(array: np.ndarray, how: Rendering, name: str) -> np.ndarray:
    """Vectors (N, D) as float32; images (N, H, W[, C]) as uint8 of the rendering's size and channels."""
    if array.ndim == 2:
        if not np.isfinite(array).all():
            raise UserError("the feature vectors hold values that are not finite; clean them first")
        return np.ascontiguousarray(array, dtype=np.float32)
    array = _as_trained(array, how)
    images = array[..., None] if array.ndim == 3 else array
    try:
        if windows := _windows(array, how):
            values = [Values(image, array_kind(array)) for image in images]
            return np.stack([scaled(image, how, window_for(image, windows)) for image in values])
        if not array_is_plain(array):
            low, high = float(array.min()), float(array.max())
            raise UserError(
                f"image arrays are uint8, integers in 0..255 or floats in 0..1; got {array.dtype} in {low:g}..{high:g}"
            )
        if array.dtype != np.uint8:
            images = np.rint(images * (255 if array.dtype.kind == "f" else 1)).astype(np.uint8)
        images = fitted(images, how.channels)
        if images.shape[1:3] != how.size:
            images = np.stack([_resized(image, how.size) for image in images])
        return np.ascontiguousarray(images)
    except WrongChannelsError as error:
        raise error.of(f"{name} of shape {array.shape}, channels last", trained=how.trained) from None


def _as_trained(array: np.ndarray, how: Rendering) -> np.ndarray:
    """Floats of another precision than those that have a window, as those."""
    known = float_kinds(how.windows)
    if array.dtype.kind != "f" or not known or array_kind(array) in known:
        return array
    return array.astype(known[0].removeprefix("array "))


def _windows(array: np.ndarray, how: Rendering) -> list[Window]:
    """Of the domains that it may be from; floats of any precision may be from each that has floats."""
    kinds = float_kinds(how.windows) if array.dtype.kind == "f" else [array_kind(array)]
    return [window for kind in kinds for window in how.windows.get(kind, ())]


def _resized(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """uint8 (H, W, C) at (height, width), as Pillow resizes."""
    planes = [image] if image.shape[2] == 3 else [image[..., c] for c in range(image.shape[2])]
    done = [np.asarray(resized(Image.fromarray(plane), *size)) for plane in planes]
    return done[0] if image.shape[2] == 3 else np.stack(done, axis=-1)

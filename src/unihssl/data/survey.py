"""A first look at a domain's samples: which have more than 8 bits, and what values these hold.

The windows of a domain come from its training images, and which train is only known once all unreadable ones are. So
where there are deep images, all files are read twice: here, and when they are decoded. What was found is kept in the
cache, under the files' paths, sizes and modification times.
"""

import io
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unihssl.data.cache import files_signature
from unihssl.data.decode import Progress, spread
from unihssl.data.domain import Domain
from unihssl.data.image_format import HEAD, NoDecoderError, is_deep_png, is_dicom, is_tiff
from unihssl.data.images import UNREADABLE, open_rgb
from unihssl.data.intensity import POINTS, Measured, by_channel, measure
from unihssl.data.rendering import Rendering, read_values
from unihssl.data.tiff import is_deep
from unihssl.data.values import Values, WrongChannelsError, fitted, type_limits
from unihssl.errors import UserError
from unihssl.plain_files import BAD_NUMPY, MOST_IMAGE, check_regular, read_bytes

VERSION = 3  # raise it whenever the same files would be measured otherwise


@dataclass(frozen=True)
class Survey:
    """The rows of deep images and their values; if there are any, also which rows of all are unreadable."""

    rows: np.ndarray
    measured: Measured
    unreadable: np.ndarray


def survey(
    domain: Domain, channels: int, cache: Path | None, progress: Progress | None = None, intensity: str = "auto"
) -> Survey:
    """Measure the deep images of a domain, or recall what was measured.

    `intensity` is that of the settings: only `auto` takes arrays of floats in 0..1, or of integers in 0..255, as they
    are.
    """
    if isinstance(domain.items, np.ndarray):
        return _survey_array(domain.items, channels, intensity)
    paths = domain.items
    signature = files_signature(paths, Rendering((0, 0), channels))
    file = cache / "surveys" / f"{signature}.{VERSION}.npz" if cache else None
    found = _recall(file) if file else None
    if found is None:
        found, is_final = _survey_files(paths, channels, progress)
        if file and is_final:
            with suppress(OSError):  # a full or read-only cache costs time only
                _keep(file, found)
    return found


def _survey_files(paths: Sequence[Path], channels: int, progress: Progress | None) -> tuple[Survey, bool]:
    """The survey, and whether it is so for good: another package may decode what none does now."""
    if not any(
        deep for part in spread(lambda rows: [_may_be_deep(paths[r]) for r in rows], len(paths)) for deep in part
    ):
        return _survey_of([], [], channels), True

    def look(rows: range) -> list[tuple[Values, np.ndarray] | bool | None]:
        return [_look(paths[row], channels) for row in rows]

    looks = [look for part in spread(look, len(paths), progress) for look in part]
    deep = [(row, *found) for row, found in enumerate(looks) if isinstance(found, tuple)]
    unreadable = [row for row, found in enumerate(looks) if not found]
    plain = len(paths) - len(deep) - len(unreadable)
    return _survey_of(deep, unreadable, channels, plain), None not in looks


def _may_be_deep(path: Path) -> bool:
    """By the first bytes; a file that cannot be read is not."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            head = file.read(HEAD)
            file.seek(0)
            return is_dicom(head) or is_deep_png(head) or (is_tiff(head) and is_deep(file))
    except UNREADABLE:
        return False


def _look(path: Path, channels: int) -> tuple[Values, np.ndarray] | bool | None:
    """What a deep image holds, without its pixels; else whether the image can be read, None if not by what is here."""
    try:
        content = read_bytes(path, MOST_IMAGE)
        values = read_values(content, channels)
        if values is None:
            open_rgb(io.BytesIO(content))
            return True
        if not values.kind:
            return True
        fitted(values.pixels[:1], channels)
        found = measure(values, channels)
    except WrongChannelsError as error:
        raise error.of(path, trained=False) from None
    except UserError as error:  # a package is missing: not the file's fault, so nothing is remembered
        raise UserError(f"{path}: {error.args[0]}") from None
    except NoDecoderError:
        return None
    except UNREADABLE:
        return False
    return Values(values.pixels[:0], values.kind, values.limits, values.window), found


def _survey_of(
    deep: Sequence[tuple[int, Values, np.ndarray]], unreadable: Sequence[int], channels: int, plain: int = 0
) -> Survey:
    nothing = np.empty((0, channels if by_channel(channels) else 1, 2 + POINTS), dtype=np.float32)
    measured = Measured(
        np.array([about.kind for _, about, _ in deep], dtype=str),
        np.stack([q for _, _, q in deep]) if deep else nothing,
        np.array([about.limits for _, about, _ in deep], dtype=float).reshape(-1, 2),
        np.array([about.window or (np.nan, np.nan) for _, about, _ in deep], dtype=float).reshape(-1, 2),
        plain,
    )
    return Survey(np.array([row for row, _, _ in deep], dtype=np.int64), measured, np.array(unreadable, dtype=np.int64))


def _survey_array(array: np.ndarray, channels: int, intensity: str) -> Survey:
    """Images of an array are deep if not all of its values are 8-bit: integers in 0..255 or floats in 0..1.

    Those of a type of more than 8 bits also are if a window is asked for.
    """
    as_it_is = intensity == "auto" or array.dtype.itemsize == 1
    if array.ndim == 2 or (as_it_is and array_is_plain(array)):
        return _survey_of([], [], channels)
    about = Values(np.empty((0, 0, 1)), array_kind(array), type_limits(array.dtype))
    images = array[..., None] if array.ndim == 3 else array
    deep = []
    for row, image in enumerate(images):
        try:
            deep.append((row, about, measure(Values(image), channels)))
        except ValueError as error:
            raise UserError(f"image {row} of the array: {error}; remove it") from None
    return _survey_of(deep, [], channels)


def array_is_plain(array: np.ndarray) -> bool:
    return array.dtype == np.uint8 or bool(array.min() >= 0 and array.max() <= (1 if array.dtype.kind == "f" else 255))


def holds_bytes(array: np.ndarray) -> bool:
    """Whether floats are 8-bit images of another type: whole numbers in 0..255, and not in 0..1."""
    in_range = array.dtype.kind == "f" and array.min() >= 0 and 1 < array.max() <= 255
    return bool(in_range) and all(np.array_equal(image, np.rint(image)) for image in array)


def array_kind(array: np.ndarray) -> str:
    """How an array is stored, for its window."""
    return f"array {array.dtype}"


def _keep(file: Path, found: Survey) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f"{uuid.uuid4().hex}.npz")  # several processes may do this at once
    try:
        np.savez(temporary, rows=found.rows, unreadable=found.unreadable, **vars(found.measured))
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def _recall(file: Path) -> Survey | None:
    try:
        with np.load(file, allow_pickle=False) as saved:
            measured = Measured(
                saved["kinds"], saved["quantiles"], saved["limits"], saved["windows"], int(saved["plain"])
            )
            return Survey(saved["rows"], measured, saved["unreadable"])
    except (OSError, *BAD_NUMPY):
        return None  # not there yet, or damaged

"""The images that a CSV lists, by row number, as PNG files that every browser shows."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from unihssl.data.images import UNREADABLE
from unihssl.data.label_file import find_rows
from unihssl.data.rendering import Rendering, open_to_show
from unihssl.errors import Setting, UserError
from unihssl.run_folder import RunFolder

Item = Path | np.ndarray  # an image file, or pixels (H, W[, 3])
MOST_PIXELS = 1600  # of a side: enough for a screen


def listed_images(file: Path, names: Sequence[str], run: RunFolder | None) -> list[Item]:
    """The image of each row: a path, from the CSV's folder; if none is there, the run's unlabeled samples by name."""
    paths = [file.parent / name for name in names]
    if any(path.is_file() for path in paths):
        return list(paths)
    found = _of_run(run, names, file.parent) if run else []
    if all(item is None for item in found):
        rows = "" if run else f"; if they are rows of an array, name the run with {Setting('run')}"
        raise UserError(f"{file}: none of its {len(paths)} images is there, the first is {paths[0]}{rows}")
    return [path if item is None else item for path, item in zip(paths, found, strict=True)]


def as_png(item: Item) -> bytes:
    """The image as PNG: upright, 8-bit RGB, no larger than a screen."""
    try:
        image = open_to_show(item) if isinstance(item, Path) else Image.fromarray(item)
    except FileNotFoundError:
        raise UserError(f"{item}: no such file") from None
    except UNREADABLE as error:
        raise UserError(f"{item}: cannot be read as an image ({error})") from None
    image.thumbnail((MOST_PIXELS, MOST_PIXELS))
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def _of_run(run: RunFolder, names: Sequence[str], folder: Path) -> list[Item | None]:
    """Samples of the run's unlabeled domain by name; None for a name that it does not have."""
    from unihssl.data.domain import unlabeled_domain
    from unihssl.data.intensity import loaded_windows
    from unihssl.data.store import fill_store
    from unihssl.data.values import shown
    from unihssl.pipeline.settings import settings_of  # with torch, which image files do not wait for

    source, classes = run.read_split()["unlabeled"]["source"], tuple(run.read_model()["classes"])
    if source == "unlabeled array":
        raise UserError(f"{run.path}: was trained on arrays in memory; save them as .npy to show their images here")
    domain = unlabeled_domain(source, classes, settings_of(run))
    rows = find_rows(domain, names, folder)
    if not isinstance(domain.items, np.ndarray):
        return [Path(domain.items[row]) if row >= 0 else None for row in rows]
    if domain.items.ndim == 2:
        raise UserError(f"{source}: its samples are feature vectors, which no page can show; fill in the CSV by hand")
    found, model = sorted(set(rows) - {-1}), run.read_model()
    windows = loaded_windows(model.get("windows", {}).get("unlabeled", {}))
    candidates = {kind: (window,) for kind, window in windows.items()}
    how = Rendering(domain.items.shape[1:3], model["architecture"].get("channels", 3), candidates)
    _, store = fill_store(domain.keep(np.array(found, dtype=np.int64)), how)
    pixels = dict(zip(found, map(shown, store.samples.numpy()), strict=True))
    return [pixels.get(row) for row in rows]

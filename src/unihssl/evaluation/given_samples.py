"""What somebody gives a model to predict on, as a domain: paths, arrays, images of Pillow."""

import dataclasses
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageOps

from unihssl.data.domain import UNKNOWN, Domain
from unihssl.data.images import SUFFIXES, find_images, visible_files
from unihssl.data.readers import left_out_note, one_array, read
from unihssl.data.rendering import render
from unihssl.data.source import check_names
from unihssl.errors import UserError
from unihssl.plain_files import is_folder, is_there

if TYPE_CHECKING:
    from unihssl.evaluation.model import Model


def given_domain(samples: Any, model: "Model") -> Domain:
    """The samples as a domain without known classes; what the model cannot take is refused."""
    if isinstance(samples, Domain):
        return samples
    if pictures := _pil_images(samples):
        _refuse_pictures(pictures, model)
        samples = np.stack([render(_png(picture), model.rendering())[0] for picture in pictures])
    paths = _image_paths(samples)
    if paths is not None:
        names, classes = tuple(str(p) for p in paths), tuple(model.classes_.tolist())
        check_names("images", names)
        unknown = np.full(len(paths), UNKNOWN)
        return Domain("images", paths, names, unknown, classes, notes=_left_out_notes(samples))
    reading = dataclasses.replace(model.settings, target_labels="")
    found = read(
        one_array(samples, "the given list", np.stack) if isinstance(samples, list) else samples, reading, "given"
    )
    expected = model.architecture.vector_size
    shape = found.items.shape[1:] if isinstance(found.items, np.ndarray) else ("image",) * 3
    if not expected and len(shape) == 2 and shape[1] in (1, 3) and model.stored_size[1] not in (1, 3):
        raise UserError(f"got an array of shape {np.shape(samples)}, which looks like one image: pass x[None]")
    if (expected and shape != (expected,)) or (not expected and len(shape) < 2):
        wanted = f"vectors of length {expected}" if expected else "images"
        raise UserError(f"this model takes {wanted}, and got samples of shape {shape}")
    return Domain(found.name, found.items, tuple(found.names), np.full(len(found.names), UNKNOWN), ())


def _pil_images(samples: Any) -> list[Image.Image]:
    """The images of Pillow that were given, one or a list; empty if these are something else."""
    listed = samples if isinstance(samples, list | tuple) else [samples]
    return list(listed) if all(isinstance(sample, Image.Image) for sample in listed) else []


def _refuse_pictures(pictures: list[Image.Image], model: "Model") -> None:
    if model.architecture.takes_vectors:
        raise UserError(f"this model takes vectors of length {model.architecture.vector_size}, and got images")
    if deep := [picture.mode for picture in pictures if picture.mode.startswith(("I", "F"))]:
        raise UserError(f"images of Pillow's mode {deep[0]} do not say how they were stored: pass files or an array")


def _png(image: Image.Image) -> bytes:
    """The image as a file, so that it is decoded like one."""
    buffer = io.BytesIO()
    turned = ImageOps.exif_transpose(image)
    (turned if turned.mode in ("1", "L", "LA", "P", "RGB", "RGBA") else turned.convert("RGB")).save(
        buffer, "PNG", compress_level=0
    )
    return buffer.getvalue()


def _image_paths(samples: Any) -> list[Path] | None:
    """The image files of a folder, a path or a list of either; None if these are not paths to images."""
    if isinstance(samples, str | Path):
        samples = [samples]
    if not isinstance(samples, list | tuple) or not all(isinstance(s, str | Path) for s in samples):
        return None
    if not len(samples):
        raise UserError("no samples were given")
    paths: list[Path] = []
    for given in map(Path, samples):
        if is_folder(given):
            paths += find_images(given)
        elif not is_there(given):
            raise UserError(f"{given}: no such image or folder")
        elif given.suffix.lower() in (".npy", ".npz", ".csv"):
            return None
        else:
            paths.append(given)
    if not paths:
        others = "".join(f"; {note}" for note in _left_out_notes(samples))
        raise UserError(f"{samples[0]}: no images found (looked for {', '.join(sorted(SUFFIXES))}){others}")
    return paths


def _left_out_notes(samples: Any) -> tuple[str, ...]:
    """A note for each folder in which files are left out by their suffix."""
    given = [Path(s) for s in ([samples] if isinstance(samples, str | Path) else samples)]
    notes = {folder: left_out_note(visible_files(folder)) for folder in given if is_folder(folder)}
    return tuple(f"{folder}: {note}" for folder, note in notes.items() if note)

"""From the body of a request to decoded images. Everything stays in memory, and names are only repeated."""

import base64
import binascii
import io
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from PIL import Image, UnidentifiedImageError
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from unihssl.data.images import header_size
from unihssl.data.rendering import Rendering, render
from unihssl.data.values import WrongChannelsError
from unihssl.errors import UserError
from unihssl.serving.limits import MEGA, Limits, RefusedError

FORMATS = ("JPEG", "PNG", "WebP", "BMP", "TIFF", "DICOM")
MOST_NAME = 200  # characters that are repeated of a name
UNTRAINED = (
    "stored as {kind}, of which no training image was: its grey levels are those of the file's own window or of its "
    "format"
)


class Upload(NamedTuple):
    """A file as it came."""

    name: str
    content: bytes


class Decoded(NamedTuple):
    """An image (H, W, C) uint8, and what its sender should know of how it was decoded."""

    pixels: np.ndarray
    notes: list[str]


async def read_uploads(body: bytes, content_type: str, limits: Limits) -> list[Upload]:
    """The files of a multipart body, or the images of a JSON body."""
    kind = content_type.partition(";")[0].strip().lower()
    if not body:
        raise RefusedError(422, "nothing was sent: there is no image in this request")
    if kind == "multipart/form-data":
        uploads = await _of_form(body, content_type, limits)
    elif kind == "application/json":
        uploads = _of_json(body, limits)
    else:
        given = f"'{kind[:80]}'" if kind else "a body without a content type"
        raise RefusedError(415, f"{given} is not read: send multipart/form-data or application/json")
    if not uploads:
        raise RefusedError(422, "there is no image in this request")
    if len(uploads) > limits.files:
        raise _too_many(limits)
    return uploads


def count_pixels(upload: Upload, limits: Limits) -> int:
    """By the header of the image, before a pixel is decoded; refused where they are too many."""
    with _refusing(upload.name, limits):
        height, width = header_size(io.BytesIO(upload.content))
        if height * width > limits.pixels:
            raise _too_many_pixels(upload.name, limits)
        return height * width


def decode(upload: Upload, how: Rendering, limits: Limits) -> Decoded:
    """The image; with a note, as `predict` has it, if no training image was stored as this one is."""
    with _refusing(upload.name, limits):
        pixels, kind = render(upload.content, how)
    return Decoded(pixels, [UNTRAINED.format(kind=kind)] if kind else [])


@contextmanager
def _refusing(name: str, limits: Limits) -> Iterator[None]:
    """Whatever is wrong with the file of this name is a refusal."""
    try:
        yield
    except RefusedError:
        raise
    except Image.DecompressionBombError:  # so many that Pillow does not even open it
        raise _too_many_pixels(name, limits) from None
    except UnidentifiedImageError:
        raise RefusedError(415, f"{name}: not an image of a known format ({', '.join(FORMATS)})") from None
    except WrongChannelsError as error:
        raise RefusedError(422, f"{name}: {error.found} channels, and this model takes {error.wanted}") from None
    except UserError as error:  # a package is missing
        raise RefusedError(415, f"{name}: {error}") from None
    except Exception as error:  # a damaged file makes decoders stumble in any way they like
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise RefusedError(422, f"{name}: cannot be decoded ({why})") from None


async def _of_form(body: bytes, content_type: str, limits: Limits) -> list[Upload]:
    async def chunks() -> AsyncGenerator[bytes, None]:
        yield body
        yield b""

    headers = Headers({"content-type": content_type})
    parser = MultiPartParser(headers, chunks(), max_files=limits.files, max_fields=limits.files)
    parser.spool_max_size = limits.body_bytes + 1  # nothing is written to the disk
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise _too_many(limits) if "Too many" in error.message else _bad_form(error.message) from None
    except (ValueError, LookupError) as error:
        raise _bad_form(str(error)) from None
    files = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
    return [Upload(_shown(file.filename, i), await file.read()) for i, file in enumerate(files)]


def _of_json(body: bytes, limits: Limits) -> list[Upload]:
    """Of {"images": [base64, ...]}."""
    # Many small values take twenty times their size once parsed. Base64 has none of these characters.
    if sum(body.count(sign) for sign in (b",", b"[", b"{")) > 2 * limits.files + 2:
        raise _too_many(limits)
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedError(422, "the body is not JSON") from None
    match given:
        case {"images": [*images]} if all(isinstance(image, str) for image in images):
            return [Upload(f"image {i}", _from_base64(text, i)) for i, text in enumerate(images)]
    raise RefusedError(422, 'the JSON should be {"images": ["base64 of a file", ...]}')


def _from_base64(text: str, position: int) -> bytes:
    """Of plain base64, or of a data: address."""
    try:
        return base64.b64decode(text.partition(",")[2] if text.startswith("data:") else text, validate=True)
    except (binascii.Error, ValueError):
        raise RefusedError(422, f"image {position}: not base64") from None


def _shown(name: str | None, position: int) -> str:
    return (name or f"image {position}")[:MOST_NAME]


def _too_many(limits: Limits) -> RefusedError:
    return RefusedError(413, f"too many images: at most {limits.files} in one request")


def _too_many_pixels(name: str, limits: Limits) -> RefusedError:
    return RefusedError(413, f"{name}: too many pixels; at most {limits.pixels / MEGA:g} megapixels are decoded")


def _bad_form(why: str) -> RefusedError:
    return RefusedError(422, f"the multipart body cannot be read ({why[:200]})")

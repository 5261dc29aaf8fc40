"""Files of named tensors (safetensors) with a checksum in their header."""

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unihssl.errors import UserError
from unihssl.files import atomic
from unihssl.plain_files import check_regular

if TYPE_CHECKING:
    from torch import Tensor

CHECKSUM = "blake2b"  # its name in the header


def write_tensors(path: Path, tensors: dict[str, "Tensor"]) -> str:
    """Write named tensors; returns their checksum."""
    from safetensors.torch import save_file  # with torch, which commands without a model do not wait for

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    checksum = checksum_of(plain)
    with atomic(path) as temporary:
        save_file(plain, temporary, metadata={CHECKSUM: checksum})
    return checksum


def read_tensors(path: Path) -> dict[str, "Tensor"]:
    """Named tensors; a `UserError` if one changed since it was written. Files of 0.1.0 have no checksum."""
    with open_tensors(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        expected = (file.metadata() or {}).get(CHECKSUM)
    if expected is not None and expected != checksum_of(tensors):
        raise UserError(f"{path}: damaged, it changed since it was written; use an undamaged copy")
    return tensors


@contextlib.contextmanager
def open_tensors(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        check_regular(path)
        with safe_open(path, framework="pt") as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"{path}: no such weights file") from None
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: cannot be read, it is damaged ({error})") from None


def checksum_of(tensors: dict[str, "Tensor"]) -> str:
    """Of names, types, shapes and values."""
    import torch

    total = hashlib.blake2b(digest_size=16)
    for name in sorted(tensors):
        total.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}\n".encode())
        total.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()

"""What must hold after a fault: every file under its final name is whole, and a rerun gives the undisturbed result."""

import csv
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from unihssl.data.sample_file import damaged_rows
from unihssl.errors import UserError
from unihssl.run_folder import RunFolder
from unihssl.tensor_files import read_tensors

UNFINISHED = re.compile(r"(^|/)(\.[^/]*|building|locks)(/|$)")  # names of what is not complete, and of locks
TIMES = ("images_per_second", "checksum", "resumed_by", "command", "commit")  # and what depends on them
EVENTS = "tensorboard/"


def files(root: Path) -> list[str]:
    """The files under their final names."""
    names = (path.relative_to(root).as_posix() for path in sorted(root.rglob("*")) if path.is_file())
    return [name for name in names if not UNFINISHED.search(name)]


def half_written(root: Path) -> list[str]:
    """The files under a final name that cannot be read as what they are."""
    return [name for name in files(root) if not _is_whole(root / name)]


def _is_whole(path: Path) -> bool:
    try:
        _read(path)
    except (OSError, ValueError, LookupError, TypeError, SyntaxError, UserError, zipfile.BadZipFile, EOFError):
        return False
    return True


def _read(path: Path) -> None:
    content = path.read_bytes()
    if path.name == "metrics.jsonl":
        RunFolder(path.parent).read_metrics()
    elif path.suffix == ".json":
        json.loads(content)
    elif path.suffix == ".yaml":
        assert_that(isinstance(yaml.safe_load(content), dict))
    elif path.suffix == ".safetensors":
        read_tensors(path)
    elif path.suffix in (".pt", ".pt2", ".npz"):
        with zipfile.ZipFile(path) as parts:
            assert_that(parts.testzip() is None)
    elif path.name == "samples.npy":
        assert_that(not damaged_rows(np.load(path), np.load(path.with_name("checksums.npy"))))
    elif path.suffix == ".npy":
        np.load(path)
    elif path.suffix == ".csv":
        rows = list(csv.reader(io.StringIO(content.decode(), newline=""), strict=True))
        assert_that(content.endswith(b"\n") and len({len(row) for row in rows}) == 1)
    elif path.suffix == ".html":
        assert_that(content.rstrip().endswith(b"</html>"))
    elif path.suffix == ".onnx":
        import onnx

        onnx.checker.check_model(onnx.load_from_string(content))


def assert_that(holds: bool) -> None:
    if not holds:
        raise ValueError("not whole")


def result(root: Path, path: Path | None = None) -> dict[str, Any]:
    """All files by name, without what tells the time, and with `ROOT` for `path`, the folder's own by default."""
    return {name: _content(root / name, str(path or root)) for name in files(root) if EVENTS not in name}


def _content(path: Path, root: str) -> Any:
    content = path.read_bytes().replace(root.encode(), b"ROOT")
    if path.name == "metrics.jsonl":
        return [without_times(json.loads(line)) for line in content.split(b"\n")[:-1]]  # a last line may be cut
    if path.name == "environment.json":
        return without_times(json.loads(content))
    return content


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in TIMES}


def differences(found: dict[str, Any], expected: dict[str, Any], ignored: str) -> list[str]:
    """The names of files that are missing, too many or different; those below the folder `ignored` may be."""
    names = sorted(found.keys() | expected.keys())
    return [n for n in names if found.get(n) != expected.get(n) and not (ignored and n.startswith(f"{ignored}/"))]

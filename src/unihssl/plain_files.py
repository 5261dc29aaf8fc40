"""Reading small files that somebody else may have written: plain files only, of bounded size and depth, no objects."""

import errno
import json
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile

import yaml

from unihssl.errors import CONTROL, UserError

MEBIBYTE = 2**20
MOST_JSON = 64 * MEBIBYTE  # more than a run writes; parsed it takes up to twenty times as much
MOST_YAML = MEBIBYTE // 4  # a run's settings take 4 KiB; PyYAML reads some 100 KiB a second
MOST_TABLE = 256 * MEBIBYTE  # a CSV of two million rows
MOST_IMAGE = 1024 * MEBIBYTE
ESCAPED = re.compile(rf"\\[bfru]|{CONTROL.pattern}")  # what may stand for a control character in JSON
MOST_DEPTH = 32  # of nested YAML
# What NumPy's reader raises on damaged files, beside OSError: it tokenises and evaluates headers, and opens archives.
BAD_NUMPY = (
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
    SyntaxError,
    TokenError,
    BadZipFile,
    RuntimeError,
    zlib.error,
)


def check_regular(path: Path) -> None:
    """OSError unless the path, links followed, is a plain file: reading a pipe or a device may never end."""
    try:
        mode = path.stat().st_mode
    except ValueError:
        raise OSError(errno.EINVAL, "no file can have this name") from None
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file")


def as_path(given: Any, what: str) -> Path:
    """A path that somebody gave in Python; `what` names it in the error if it is none."""
    if not isinstance(given, str | Path):
        raise UserError(f"{what} must be a path, got {type(given).__name__}")
    return Path(given)


def is_there(path: Path) -> bool:
    """Whether there is such a file or folder; a name that no file can have is none."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether there is such a folder."""
    return is_there(path) and path.is_dir()


def is_regular(path: Path) -> bool:
    """Whether there is such a plain file."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def read_bytes(path: Path, most: int) -> bytes:
    """The content of a plain file; OSError if it is none, or has more than `most` bytes."""
    check_regular(path)
    if path.stat().st_size > most:
        raise OSError(errno.EFBIG, f"larger than {most / MEBIBYTE:g} MiB")
    with path.open("rb") as file:
        return file.read(most)


def read_text(path: Path, most: int = MOST_TABLE, encoding: str = "utf-8") -> str:
    """The text of a plain file: as `read_bytes`; ValueError if it is not text."""
    return read_bytes(path, most).decode(encoding)


def read_json(path: Path, most: int = MOST_JSON) -> Any:
    """What a JSON file holds; a `UserError` if it cannot be read."""
    try:
        text = read_text(path, most)
        content = json.loads(text)
        if ESCAPED.search(text) and any(CONTROL.search(part) for part in _texts(content)):
            raise ValueError("it holds control characters")
        return content
    except FileNotFoundError:
        raise UserError(f"{path}: not found; is {path.parent} a run directory?") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise UserError(f"{path}: cannot be read ({error})") from None
    except RecursionError:
        raise UserError(f"{path}: cannot be read (nested too deeply)") from None


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file of `name: value` lines."""
    try:
        values = yaml.load(read_text(path, MOST_YAML), _Loader)
        if any(CONTROL.search(part) for part in _texts(values)):
            raise ValueError("it holds control characters")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        # PyYAML checks neither dates nor the text behind a tag: `2001-99-99`, `!!int ''`.
        raise UserError(f"{path}: cannot be read as YAML ({' '.join(str(error).split())})") from None
    if not isinstance(values or {}, dict):
        raise UserError(f"{path}: expected lines of 'name: value'")
    return values or {}


def _texts(content: Any) -> Iterator[str]:
    """All texts in what was read, names included."""
    if isinstance(content, dict):
        content = [*content.keys(), *content.values()]
    if isinstance(content, list):
        for part in content:
            yield from _texts(part)
    elif isinstance(content, str):
        yield content


class _Loader(yaml.SafeLoader):
    """Plain values alone. A few aliases of aliases would otherwise be billions of values."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="aliases (*name) are not read: write the value", problem_mark=mark)
        if self.depth == MOST_DEPTH:
            raise yaml.MarkedYAMLError(problem="nested too deeply", problem_mark=mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

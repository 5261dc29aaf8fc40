"""Downloading a file over HTTP. A broken download is resumed; the file gets its name once it is complete."""

import hashlib
import http.client
import re
import shutil
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from unihssl.data.catalog.dataset import Remote
from unihssl.data.decode import Progress
from unihssl.errors import UserError
from unihssl.files import write_error

TRIES, WAIT_SECONDS, TIMEOUT_SECONDS, BLOCK = 4, 2.0, 60.0, 2**20
BROKEN = (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError)


class _InterruptedError(Exception):
    """The connection ended before the file did."""


@dataclass(frozen=True)
class _Partial:
    """An unfinished download, and the server's tag of it (ETag or date): parts of two versions are never joined."""

    path: Path

    @property
    def tag(self) -> Path:
        return self.path.with_name(self.path.name + ".tag")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() and self.tag.exists() else 0

    def remove(self) -> None:
        for path in (self.path, self.tag):
            path.unlink(missing_ok=True)


def fetch(remote: Remote, folder: Path, progress: Progress | None = None) -> Path:
    """Download a file into the folder, unless it is there. Returns its path.

    If no checksum was published, the SHA-256 of the file received is written beside it (for `sha256sum -c`), so that
    later damage is noticed.
    """
    target = folder / remote.file
    partial = _Partial(folder / f".{remote.file}.part")
    checksum = folder / f"{remote.file}.sha256"
    if target.exists():
        if wrong := _wrong_md5(remote, target) or _changed(target, checksum):
            raise UserError(f"{target}: is not the file expected ({wrong}); delete it to download it again")
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _receive_all(remote.url, partial, progress)
        if wrong := _wrong_md5(remote, partial.path):
            partial.remove()
            raise UserError(f"{remote.url}: the file received is not the one expected ({wrong}); try again")
        if not remote.md5:
            checksum.write_text(f"{_digest(partial.path, 'sha256')}  {remote.file}\n", encoding="utf-8")
        partial.path.replace(target)
        partial.remove()
    except OSError as error:
        raise write_error(target, error) from error
    return target


def _wrong_md5(remote: Remote, path: Path) -> str:
    """`its MD5 differs` from the published one; empty if it does not, or none was published."""
    return "its MD5 differs" if remote.md5 and _digest(path, "md5") != remote.md5 else ""


def _changed(path: Path, checksum: Path) -> str:
    """How a file differs from its checksum file; empty if it does not, or there is none."""
    if not checksum.is_file():
        return ""
    expected = checksum.read_text(encoding="utf-8", errors="replace").split()
    return "" if expected[:1] == [_digest(path, "sha256")] else f"its SHA256 is not that of {checksum.name}"


def _receive_all(url: str, partial: _Partial, progress: Progress | None) -> None:
    """Download, and resume whenever the connection breaks; give up after a few tries without progress."""
    failures = 0
    while True:
        before = partial.size
        try:
            return _receive(url, partial, progress)
        except _InterruptedError as error:
            failures = 0 if partial.size > before else failures + 1
            if failures == TRIES:
                raise UserError(f"{url}: the connection broke ({error}); rerun to resume") from None
            time.sleep(WAIT_SECONDS)


def _receive(url: str, partial: _Partial, progress: Progress | None) -> None:
    """Request the missing bytes and append them to the partial file."""
    done = partial.size
    headers = {"User-Agent": "unihssl"}
    if done:
        headers |= {"Range": f"bytes={done}-", "If-Range": partial.tag.read_text(encoding="utf-8")}
    try:
        with urlopen(Request(url, headers=headers), timeout=TIMEOUT_SECONDS) as answer:
            if answer.status != 206:
                done = 0  # the whole file: the server cannot resume, or has a new version
            length = answer.headers.get("Content-Length")
            total = done + int(length) if length else 0
            tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
            if tag.startswith("W/"):
                tag = answer.headers.get("Last-Modified") or ""  # HTTP forbids resuming by a weak ETag
            if done == 0:
                partial.remove()
            _check_room(partial.path, total - done)
            with partial.path.open("ab") as file:
                if tag:
                    partial.tag.write_text(tag, encoding="utf-8")
                while block := answer.read(BLOCK):
                    file.write(block)
                    done += len(block)
                    if progress:
                        progress(done, total)
    except HTTPError as error:
        if error.code == 416:  # range not satisfiable: the file is complete, or not a part of this version
            if partial.size and partial.size == _whole_size(error):
                return
            partial.remove()
            raise _InterruptedError("the part received before did not fit") from None
        if error.code >= 500:
            raise _InterruptedError(f"{error.code} {error.reason}") from None
        raise UserError(f"{url}: the server answers {error.code} {error.reason}; has the file moved?") from None
    except URLError as error:
        host = urlsplit(url).hostname
        raise UserError(f"{url}: cannot reach {host} ({error.reason}); is there a network?") from None
    except BROKEN as error:
        raise _InterruptedError(str(error) or type(error).__name__) from None
    if total and partial.path.stat().st_size != total:
        raise _InterruptedError(f"{partial.path.stat().st_size:,} of {total:,} bytes received")


def _check_room(path: Path, size: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if size > free:
        raise UserError(f"{path.parent}: the download needs {size:,} bytes more, and {free:,} are free")


def _whole_size(error: HTTPError) -> int:
    match = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range") or "")
    return int(match[1]) if match else -1


def _digest(path: Path, name: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(name, usedforsecurity=False)).hexdigest()

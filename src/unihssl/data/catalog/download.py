"""Fetching a file over HTTP: goes on where it was broken off, and takes its name only when it is whole."""

import hashlib
import http.client
import re
import shutil
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from unihssl.data.catalog.dataset import Remote
from unihssl.errors import UserError
from unihssl.files import write_error

TRIES, WAIT_SECONDS, TIMEOUT_SECONDS, BLOCK = 4, 2.0, 60.0, 2**20
BROKEN = (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError)

Progress = Callable[[int, int], None]


class _BrokenOffError(Exception):
    """The connection ended before the file did."""


@dataclass(frozen=True)
class _Partial:
    """What has arrived of a file, and the server's mark of that version of it, lest two be joined."""

    path: Path

    @property
    def mark(self) -> Path:
        return self.path.with_name(self.path.name + ".mark")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() and self.mark.exists() else 0

    def remove(self) -> None:
        for path in (self.path, self.mark):
            path.unlink(missing_ok=True)


def fetch(remote: Remote, folder: Path, progress: Progress | None = None) -> Path:
    """Download into the folder; a file that is there already is left alone.

    Where no checksum is published, that of the file that came is kept beside it (`sha256sum -c` reads it), so that
    damage which comes later is seen.
    """
    target = folder / remote.file
    partial = _Partial(folder / f".{remote.file}.part")
    kept = folder / f"{remote.file}.sha256"
    if target.exists():
        if wrong := _wrong(remote, target) or _changed(target, kept):
            raise UserError(f"{target}: is not the file expected ({wrong}); delete it to fetch it anew")
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _receive_all(remote.url, partial, progress)
        if wrong := _wrong(remote, partial.path):
            partial.remove()
            raise UserError(f"{remote.url}: the file that came is not the one expected ({wrong}); try again")
        if not published(remote):
            kept.write_text(f"{_digest(partial.path, 'sha256')}  {remote.file}\n", encoding="utf-8")
        partial.path.replace(target)
        partial.remove()
    except OSError as error:
        raise write_error(target, error) from error
    return target


def published(remote: Remote) -> bool:
    """Whether there is a checksum that somebody else made."""
    return bool(remote.md5 or remote.sha256)


def _wrong(remote: Remote, path: Path) -> str:
    """What differs from what was published; empty if nothing does."""
    if remote.size and path.stat().st_size != remote.size:
        return f"{path.stat().st_size:,} bytes, not {remote.size:,}"
    for name, expected in (("md5", remote.md5), ("sha256", remote.sha256)):
        if expected and _digest(path, name) != expected:
            return f"its {name.upper()} differs"
    return ""


def _changed(path: Path, kept: Path) -> str:
    """Whether a file is no longer what its checksum, noted when it came, says."""
    if not kept.is_file():
        return ""
    noted = kept.read_text(encoding="utf-8", errors="replace").split()
    return "" if noted[:1] == [_digest(path, "sha256")] else f"its SHA256 is not that of {kept.name}"


def _receive_all(url: str, partial: _Partial, progress: Progress | None) -> None:
    """Ask again whenever the connection breaks, unless nothing comes any more."""
    failures = 0
    while True:
        before = partial.size
        try:
            return _receive(url, partial, progress)
        except _BrokenOffError as error:
            failures = 0 if partial.size > before else failures + 1
            if failures == TRIES:
                raise UserError(f"{url}: broken off ({error}); call again to go on") from None
            time.sleep(WAIT_SECONDS)


def _receive(url: str, partial: _Partial, progress: Progress | None) -> None:
    """One request for what is missing, written as it comes."""
    done = partial.size
    headers = {"User-Agent": "unihssl"}
    if done:
        headers |= {"Range": f"bytes={done}-", "If-Range": partial.mark.read_text(encoding="utf-8")}
    try:
        with urlopen(Request(url, headers=headers), timeout=TIMEOUT_SECONDS) as answer:
            if answer.status != 206:
                done = 0  # the whole file again: the server cannot resume, or has a new version
            length = answer.headers.get("Content-Length")
            total = done + int(length) if length else 0
            mark = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
            if mark.startswith("W/"):
                mark = answer.headers.get("Last-Modified") or ""  # a weak mark may not be resumed by
            if done == 0:
                partial.remove()
            _make_room(partial.path, total - done)
            with partial.path.open("ab") as file:
                if mark:
                    partial.mark.write_text(mark, encoding="utf-8")
                _copy(answer, file, done, total, progress)
    except HTTPError as error:
        if error.code == 416:  # nothing is left to ask for, or what we have is no part of it
            if partial.size and partial.size == _whole_size(error):
                return
            partial.remove()
            raise _BrokenOffError("what had come did not fit") from None
        if error.code >= 500:
            raise _BrokenOffError(f"{error.code} {error.reason}") from None
        raise UserError(f"{url}: the server answers {error.code} {error.reason}; has the file moved?") from None
    except URLError as error:
        host = urlsplit(url).hostname
        raise UserError(f"{url}: cannot reach {host} ({error.reason}); is there a network?") from None
    except BROKEN as error:
        raise _BrokenOffError(str(error) or type(error).__name__) from None
    if total and partial.path.stat().st_size != total:
        raise _BrokenOffError(f"{partial.path.stat().st_size:,} of {total:,} bytes came")


def _copy(answer: IO[bytes], file: IO[bytes], done: int, total: int, progress: Progress | None) -> None:
    while block := answer.read(BLOCK):
        file.write(block)
        done += len(block)
        if progress:
            progress(done, total)


def _make_room(path: Path, size: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if size > free:
        raise UserError(f"{path.parent}: the download needs {size:,} bytes more, and {free:,} are free")


def _whole_size(error: HTTPError) -> int:
    match = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range") or "")
    return int(match[1]) if match else -1


def _digest(path: Path, name: str) -> str:
    digest = hashlib.new(name, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()

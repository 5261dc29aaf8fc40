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
    """Download into the folder; a file that is there already is left alone."""
    target = folder / remote.file
    partial = _Partial(folder / f".{remote.file}.part")
    if target.exists():
        if remote.md5 and _md5(target) != remote.md5:
            raise UserError(f"{target}: is not the file expected (its MD5 differs); delete it to fetch it anew")
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _receive_all(remote.url, partial, progress)
        if remote.md5 and _md5(partial.path) != remote.md5:
            partial.remove()
            raise UserError(f"{remote.url}: the file that came is not the one expected (its MD5 differs); try again")
        partial.path.replace(target)
        partial.remove()
    except OSError as error:
        raise write_error(target, error) from error
    return target


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


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()

"""Unpacking a downloaded archive beside itself: nothing outside its folder, nothing half done."""

import fcntl
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Self

from unihssl.errors import UserError
from unihssl.files import write_error

ENDINGS = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar", ".zip")
MOST_ENTRIES = 1_000_000
SMALL_ENOUGH, MOST_GROWTH = 2**30, 20  # images hardly compress: what grows more, and past a gigabyte, is a bomb
MOST_PADDING = 2**24  # zeros after a tar's end mark: writers fill up a record, of 10 KiB as a rule
DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError)

Progress = Callable[[int, int], None]
Fits = Callable[[Sequence[tuple[str, ...]]], bool]  # whether files of these paths are what is looked for


@dataclass(frozen=True)
class Entry:
    """A file in an archive."""

    parts: tuple[str, ...]
    size: int
    open: Callable[[], IO[bytes] | None]


class Member(tarfile.TarInfo):
    """An entry of a tar. Only a block of zeros ends one; `tarfile` takes a cut at an entry's header for an end, too."""

    @classmethod
    def fromtarfile(cls, tar: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tar)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"the mark of its end is missing: {error}") from None


def stem(path: Path) -> str:
    """The file's name without its archive ending; empty if it has none."""
    return next((path.name[: -len(end)] for end in ENDINGS if path.name.lower().endswith(end)), "")


def unpack(archive: Path, progress: Progress | None = None, fits: Fits | None = None) -> Path | None:
    """Unpack into a hidden sibling, which takes its name when it is whole. Returns the folder; None if it does not fit.

    An archive of one folder becomes that folder; any other gets one of its own name.
    All entries are looked at before the first is written: only plain files and folders inside, of a sane size.
    """
    with _held(archive), _opened(archive) as listing:
        entries = _sane(archive, listing)
        if not entries:
            raise UserError(f"{archive}: the archive holds no files")
        if fits and not fits([entry.parts for entry in entries]):
            return None
        tops = {entry.parts[0] for entry in entries}
        one_folder = len(tops) == 1 and all(len(entry.parts) > 1 for entry in entries)
        folder = archive.parent / (tops.pop() if one_folder else stem(archive))
        if folder.exists():  # unpacked before, or the user's own: never written over
            return folder
        temporary = archive.with_name(f".{archive.name}.unpacking")
        try:
            shutil.rmtree(temporary, ignore_errors=True)  # what a killed process has left
            _write(entries, temporary, progress)
            (temporary / folder.name if one_folder else temporary).rename(folder)
        except DAMAGED as error:
            raise _damaged(archive, error) from None
        except OSError as error:
            raise write_error(folder, error) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def seems_to_hold(archive: Path, folder: Path) -> bool:
    """Whether a folder beside an archive is what it unpacks to, by its name or by its first file's folder."""
    if stem(archive) == folder.name:
        return True
    first = None
    with suppress(UserError), _opened(archive) as listing:
        first = next(listing, None)
    return first is not None and first.parts[0] == folder.name


@contextmanager
def _held(archive: Path) -> Iterator[None]:
    """One process at a time; where files cannot be locked, without."""
    try:
        file = archive.open("rb")
    except OSError as error:
        raise UserError(f"{archive}: cannot be read ({error.strerror})") from None
    with file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _opened(archive: Path) -> Iterator[Iterator[Entry]]:
    try:
        if archive.name.lower().endswith(".zip"):
            with zipfile.ZipFile(archive) as opened:
                yield _zip_entries(archive, opened)
        else:
            with tarfile.open(archive, tarinfo=Member) as tar:
                yield _tar_entries(archive, tar)
    except DAMAGED as error:
        raise _damaged(archive, error) from None
    except OSError as error:  # gzip's word for a wrong checksum
        raise _damaged(archive, error) from None


def _damaged(archive: Path, error: Exception) -> UserError:
    return UserError(
        f"{archive}: damaged or cut short; delete it and download it again ({error or type(error).__name__})"
    )


def _zip_entries(archive: Path, opened: zipfile.ZipFile) -> Iterator[Entry]:
    for info in opened.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise _refused(archive, info.filename, "is a link or a device")
        if info.flag_bits & 1:
            raise _refused(archive, info.filename, "is encrypted")
        parts = _parts(archive, info.filename)
        if parts and not info.is_dir():
            yield Entry(parts, info.file_size, lambda info=info: opened.open(info))  # type: ignore[misc]


def _tar_entries(archive: Path, tar: tarfile.TarFile) -> Iterator[Entry]:
    for member in tar:
        if member.issym() or member.islnk():
            raise _refused(archive, member.name, f"is a link (to {member.linkname})")
        if not member.isfile() and not member.isdir():
            raise _refused(archive, member.name, "is a device or the like")
        parts = _parts(archive, member.name)
        if parts and member.isfile():
            yield Entry(parts, member.size, lambda member=member: tar.extractfile(member))  # type: ignore[misc]
    assert tar.fileobj is not None
    tar.fileobj.read(MOST_PADDING)  # a compressed stream has its checksum at its end


def _parts(archive: Path, name: str) -> tuple[str, ...]:
    """The folders and file name of an entry; none for what operating systems strew about."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or path.as_posix()[1:2] == ":" or "\0" in name:
        raise _refused(archive, name, "is an absolute path" if "\0" not in name else "has no valid name")
    if ".." in path.parts:
        raise _refused(archive, name, "leads out of the folder")
    junk = any(part == "__MACOSX" or part.startswith("._") or part == ".DS_Store" for part in path.parts)
    return () if junk else path.parts


def _refused(archive: Path, name: str, why: str) -> UserError:
    return UserError(
        f"{archive}: not unpacked: '{name}' {why}, which no data set needs; get the archive from the official source, "
        "or unpack it yourself and give the folder"
    )


def _sane(archive: Path, listing: Iterator[Entry]) -> list[Entry]:
    """The entries, unless they would grow beyond reason, which is noticed on the way, or beyond the disk."""
    packed, size, entries = archive.stat().st_size, 0, []
    for entry in listing:
        entries.append(entry)
        size += entry.size
        if len(entries) > MOST_ENTRIES or size > max(SMALL_ENOUGH, MOST_GROWTH * packed):
            raise UserError(
                f"{archive}: not unpacked: {packed:,} bytes would become {len(entries):,} files of {size:,} bytes, or "
                "more; images do not compress like that. If you trust it, unpack it yourself and give the folder"
            )
    free = shutil.disk_usage(archive.parent).free
    if size > free:
        raise UserError(f"{archive}: unpacking needs {size:,} bytes, and {free:,} are free in {archive.parent}")
    return entries


def _write(entries: list[Entry], folder: Path, progress: Progress | None) -> None:
    made: set[Path] = set()
    for number, entry in enumerate(entries, start=1):
        path = folder.joinpath(*entry.parts)
        if path.parent not in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            made.add(path.parent)
        content = entry.open()
        if content is None:
            raise tarfile.ReadError(f"{path.name} cannot be read")
        with content, path.open("xb") as file:  # never over, or through, what is there
            shutil.copyfileobj(content, file, 2**20)
            if file.tell() != entry.size:
                raise EOFError(f"{path.name} ends early")
        if progress:
            progress(number, len(entries))

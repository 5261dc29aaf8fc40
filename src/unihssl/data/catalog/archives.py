"""Unpacking a downloaded archive beside itself: completely or not at all, and never outside its folder."""

import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Self

from unihssl.data.decode import Progress
from unihssl.errors import UserError
from unihssl.files import lock_if_possible, write_error
from unihssl.plain_files import check_regular

ENDINGS = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar", ".zip")
MAX_ENTRIES = 1_000_000
UNSUSPICIOUS_BYTES, MAX_GROWTH = 2**30, 20  # images hardly compress: a larger archive that grows more is a zip bomb
MAX_PADDING = 2**24  # zeros after the end of a tar: writers fill a record, usually of 10 KiB
DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError)

Accept = Callable[[Sequence[tuple[str, ...]]], bool]  # whether to unpack files of these paths, given as parts


@dataclass(frozen=True)
class Entry:
    """A file in an archive."""

    parts: tuple[str, ...]
    size: int
    open: Callable[[], IO[bytes]]


class Member(tarfile.TarInfo):
    """An entry of a tar that must end with a block of zeros: `tarfile` accepts one that was cut before a header."""

    @classmethod
    def fromtarfile(cls, tar: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tar)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"its end marker is missing: {error}") from None


def stem(path: Path) -> str:
    """The file name without its archive ending; empty if it is not an archive."""
    return next((path.name[: -len(end)] for end in ENDINGS if path.name.lower().endswith(end)), "")


def unpack(archive: Path, progress: Progress | None = None, accept: Accept | None = None) -> Path | None:
    """Unpack beside the archive. Returns the folder; None if `accept` refuses the files.

    An archive of a single folder becomes that folder; any other gets a folder of its own name. All entries are checked
    before the first is written: only plain files and folders, inside, of a plausible size. They are written to a hidden
    folder, which takes its real name once it is complete. A folder that exists is never written to.
    """
    with _locked(archive), _opened(archive) as listing:
        entries = _checked(archive, listing)
        if not entries:
            raise UserError(f"{archive}: the archive holds no files")
        if accept and not accept([entry.parts for entry in entries]):
            return None
        tops = {entry.parts[0] for entry in entries}
        one_folder = len(tops) == 1 and all(len(entry.parts) > 1 for entry in entries)
        folder = archive.parent / (tops.pop() if one_folder else stem(archive))
        if folder.exists():
            _require_unpacked(archive, entries, folder, archive.parent if one_folder else folder)
            return folder
        temporary = archive.with_name(f".{archive.name}.unpacking")
        try:
            shutil.rmtree(temporary, ignore_errors=True)  # left by a killed process
            _write(entries, temporary, progress)
            (temporary / folder.name if one_folder else temporary).rename(folder)
        except DAMAGED as error:
            raise _damaged(archive, error) from None
        except OSError as error:
            raise write_error(folder, error) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _require_unpacked(archive: Path, entries: list[Entry], folder: Path, base: Path) -> None:
    """Stop unless the folder has every file of the archive."""
    present = sum(base.joinpath(*entry.parts).is_file() for entry in entries)
    if present < len(entries):
        raise UserError(
            f"{archive}: not unpacked: the folder {folder} is in the way and has {present:,} of its {len(entries):,} "
            "files; move or delete that folder"
        )


@contextmanager
def _locked(archive: Path) -> Iterator[None]:
    """Let one process at a time unpack an archive, where files can be locked."""
    try:
        check_regular(archive)
        archive.open("rb").close()
    except OSError as error:
        raise UserError(f"{archive}: cannot be read ({error.strerror})") from None
    lock = archive.with_name(f".{archive.name}.lock")
    with lock_if_possible(lock) as held:
        try:
            yield
        finally:
            if held:
                lock.unlink(missing_ok=True)


@contextmanager
def _opened(archive: Path) -> Iterator[Iterator[Entry]]:
    """Open an archive; yields an iterator over its files."""
    try:
        if archive.name.lower().endswith(".zip"):
            with zipfile.ZipFile(archive) as opened:
                yield _zip_entries(archive, opened)
        else:
            with tarfile.open(archive, tarinfo=Member) as tar:
                yield _tar_entries(archive, tar)
    except (*DAMAGED, OSError) as error:  # OSError: gzip found a wrong checksum
        raise _damaged(archive, error) from None


def _damaged(archive: Path, error: Exception) -> UserError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return UserError(f"{archive}: damaged or cut short; delete it and download it again ({reason})")


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
        if not member.isfile() and not member.isdir():
            raise _refused(archive, member.name, "is a link or a device")
        parts = _parts(archive, member.name)
        if parts and member.isfile():
            yield Entry(parts, member.size, lambda member=member: tar.extractfile(member))  # type: ignore[arg-type, misc]
    assert tar.fileobj is not None
    tar.fileobj.read(MAX_PADDING)  # reads, and so verifies, the checksum at the end of a compressed stream


def _parts(archive: Path, name: str) -> tuple[str, ...]:
    """The folders and file name of an entry; empty for files that operating systems add."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or path.as_posix()[1:2] == ":" or ".." in path.parts or "\0" in name:
        raise _refused(archive, name, "leads out of the folder")
    junk = any(part == "__MACOSX" or part.startswith("._") or part == ".DS_Store" for part in path.parts)
    return () if junk else path.parts


def _refused(archive: Path, name: str, why: str) -> UserError:
    return UserError(
        f"{archive}: not unpacked: '{name}' {why}, which no data set needs; get the archive from the official source, "
        "or unpack it yourself and give the folder"
    )


def _checked(archive: Path, listing: Iterator[Entry]) -> list[Entry]:
    """All entries; an error as soon as they are too many or too large for the archive, or too large for the disk."""
    packed, size, entries = archive.stat().st_size, 0, []
    for entry in listing:
        entries.append(entry)
        size += entry.size
        if len(entries) > MAX_ENTRIES or size > max(UNSUSPICIOUS_BYTES, MAX_GROWTH * packed):
            raise UserError(
                f"{archive}: not unpacked: {packed:,} bytes would become {len(entries):,} files of {size:,} bytes, or "
                "more; images do not compress like that. If you trust it, unpack it yourself and give the folder"
            )
    free = shutil.disk_usage(archive.parent).free
    if size > free:
        raise UserError(f"{archive}: unpacking needs {size:,} bytes, and {free:,} are free in {archive.parent}")
    return entries


def _write(entries: list[Entry], folder: Path, progress: Progress | None) -> None:
    """Write all files below the folder."""
    for number, entry in enumerate(entries, start=1):
        path = folder.joinpath(*entry.parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        with entry.open() as content, path.open("xb") as file:  # x: never overwrite, never follow a link
            shutil.copyfileobj(content, file, 2**20)  # raises an error of DAMAGED where the content ends early
        if progress:
            progress(number, len(entries))

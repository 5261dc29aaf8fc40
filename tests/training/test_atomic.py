"""Files are whole or not there."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from unihssl import UserError
from unihssl.files import atomic, write_json, write_text
from unihssl.plain_files import read_json


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_real_name_appears_only_when_the_content_is_complete(tmp_path):
    path = tmp_path / "file"
    with atomic(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new" and names(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "is the disk full.*before is intact"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "is the disk full"),
        (OSError(errno.EROFS, "Read-only file system"), r"could not be written \(Read-only file system\)"),
        (RuntimeError("PytorchStreamWriter failed"), "is the disk full"),
    ],
)
def test_a_failed_write_leaves_the_old_content_alone(tmp_path, problem, message):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(UserError, match=f"^{path}: .*{message}"), atomic(path) as temporary:
        temporary.write_text("half")
        raise problem
    assert path.read_text() == "old" and names(tmp_path) == ["file"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ZeroDivisionError, UserError])
def test_whatever_stops_a_write_leaves_no_temporary_file(tmp_path, stop):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(stop), atomic(path) as temporary:
        temporary.write_text("half")
        raise stop
    assert path.read_text() == "old" and names(tmp_path) == ["file"]


def test_a_place_that_is_none_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "missing" / "x", tmp_path / "file" / "x", tmp_path / ("x" * 300)):
        with pytest.raises(UserError, match=f"^{path}: could not be written"):
            write_text(path, "content")


def test_json_comes_back_and_damage_is_named(tmp_path):
    content = {"größe": [1, 2.5, None], "path": "a/b"}
    write_json(tmp_path / "x.json", content)
    assert read_json(tmp_path / "x.json") == content
    (tmp_path / "x.json").write_bytes(b'{"half": ')
    with pytest.raises(UserError, match=r"x\.json: cannot be read"):
        read_json(tmp_path / "x.json")
    with pytest.raises(UserError, match=r"missing\.json: not found"):
        read_json(tmp_path / "missing.json")


def test_files_have_the_mode_that_the_umask_says(tmp_path):
    (tmp_path / "plain").write_text("")
    with atomic(tmp_path / "file") as temporary:
        temporary.unlink()
        temporary.touch(mode=0o600)  # as safetensors does
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_link_keeps_pointing_where_it_does(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_text(tmp_path / "pipe", "content")
    assert os.read(reader, 100) == b"content" and (tmp_path / "pipe").is_fifo()
    os.close(reader)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_an_open_file_is_written_to_whatever_is_behind_it(tmp_path, name):
    code = f"from pathlib import Path; from unihssl.files import write_text; write_text(Path({name!r}), 'content')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"content"
    (tmp_path / "file").write_text("before ")
    with (tmp_path / "file").open("a") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    assert (tmp_path / "file").read_text() == "before content"

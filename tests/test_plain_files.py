"""Only plain files are read, of bounded size and depth; whatever else is given ends in one line that names it."""

import json
import os
import zipfile

import numpy as np
import pytest

from unihssl import plain_files
from unihssl.config import Settings
from unihssl.data.readers import read
from unihssl.data.source import csv_rows
from unihssl.errors import UserError

ALIASES = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
BAD_YAML = {
    "aliases": ALIASES,
    "own alias": "a: &a [*a]",
    "deep": "a: " + "[" * 500 + "]" * 500,
    "no date": "seed: 2001-99-99",
    "empty int": "seed: !!int ''",
    "object": "seed: !!python/object/apply:os.system ['true']",
    "list": "- a\n- b",
    "control": "a: \x1b[31m",
}


@pytest.mark.parametrize("text", BAD_YAML.values(), ids=BAD_YAML.keys())
def test_yaml_holds_plain_values(text, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=r"config\.yaml: ") as refused:
        plain_files.read_yaml(file)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 500


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": 1', "9" * 5000, "\udcff"], ids=["deep", "cut", "long", "bytes"])
def test_json_that_cannot_be_read(text, tmp_path):
    file = tmp_path / "model.json"
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match=r"model\.json: cannot be read \("):
        plain_files.read_json(file)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    file = tmp_path / "model.json"
    with file.open("wb") as sparse:
        sparse.truncate(6 * 2**30)
    with pytest.raises(UserError, match=r"cannot be read \(larger than 64 MiB\)"):
        plain_files.read_json(file)
    with pytest.raises(UserError, match=r"larger than 0\.25 MiB"):
        plain_files.read_yaml(file)
    with pytest.raises(UserError, match="larger than 256 MiB"):
        csv_rows(file, ())


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_plain_files_are_opened(kind, tmp_path):
    file = tmp_path / "strange.npz"
    {"pipe": os.mkfifo, "device": lambda path: path.symlink_to("/dev/zero"), "folder": os.mkdir}[kind](file)
    with pytest.raises(UserError, match="not a regular file"):
        plain_files.read_json(file)
    with pytest.raises(UserError, match="not a regular file"):
        plain_files.read_yaml(file)
    with pytest.raises(UserError, match="not a regular file"):
        csv_rows(file, ("path",))
    with pytest.raises(UserError, match=r"not a regular file|no images found"):
        read(file, Settings(), "labeled")


def test_an_archive_of_arrays_that_would_fill_the_memory_is_not_unpacked(tmp_path):
    file = tmp_path / "bomb.npz"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", b"")
        archive.filelist[0].file_size = 2**45  # what the directory of the archive, written at the end, says
    with pytest.raises(UserError, match=r"it holds 32768\.0 GiB"):
        read(file, Settings(), "labeled")


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.ones((2, 0)), [0, 1], r"has shape \(2, 0\)"),
        (np.ones((2, 3)), np.array([b"a", b"b"]), r"labels are of type \|S1; expected names or whole numbers"),
        (np.ones((2, 3)), np.array(["2001-01-01", "2001-01-02"], dtype="M8[D]"), "labels are of type datetime64"),
    ],
    ids=["no width", "bytes", "dates"],
)
def test_arrays_that_are_no_samples(x, y, message, tmp_path):
    np.savez(tmp_path / "a.npz", x=x, y=np.asarray(y))
    with pytest.raises(UserError, match=message):
        read(tmp_path / "a.npz", Settings(), "labeled")


def test_a_path_longer_than_any_file_has(tmp_path):
    with pytest.raises(UserError, match="no such file or folder"):
        read("a" * 5000, Settings(), "labeled")
    (tmp_path / "a.csv").write_text("path,label\n" + "b" * 5000 + ",x\n")
    with pytest.raises(UserError, match="1 of 1 image files do not exist"):
        read(tmp_path / "a.csv", Settings(), "labeled")


def test_what_is_plain_is_read(tmp_path):
    (tmp_path / "a.yaml").write_text("seed: 3\nnames: [a, b]\n")
    assert plain_files.read_yaml(tmp_path / "a.yaml") == {"seed": 3, "names": ["a", "b"]}
    (tmp_path / "a.json").write_text(json.dumps({"a": [1]}))
    (tmp_path / "b.json").symlink_to("a.json")
    assert plain_files.read_json(tmp_path / "b.json") == {"a": [1]}

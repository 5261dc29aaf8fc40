"""Names from others: folders that link in circles, names that are not text, names that a terminal would obey."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unihssl.config import Settings
from unihssl.data.domain import Domain
from unihssl.data.images import find_images
from unihssl.data.label_file import class_numbers, read_label_file, read_label_rows, run_of, write_label_file
from unihssl.data.readers import read
from unihssl.errors import UserError, printable, worded
from unihssl.files import write_json
from unihssl.plain_files import read_json, read_yaml


def put_images(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((2, 2), np.uint8)).save(folder / name)


def listed(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in find_images(folder)]


def test_links_in_circles_end(tmp_path):
    put_images(tmp_path, "b/1.png", "c/d/2.png", "3.png")
    for name in ("a", "z", "c/up", "c/d/up"):
        (tmp_path / name).symlink_to(tmp_path)
    for name in range(12):  # every folder links to every other: followed without end, 12! paths
        for other in range(12):
            (tmp_path / f"dense/{name}").mkdir(parents=True, exist_ok=True)
            (tmp_path / f"dense/{name}/{other}").symlink_to(tmp_path / f"dense/{other}")
    assert listed(tmp_path) == ["3.png", "b/1.png", "c/d/2.png"]


def test_links_out_of_a_folder_are_followed_in_order(tmp_path):
    put_images(tmp_path / "data", "m/1.png", "z/2.png", "0.png")
    put_images(tmp_path / "elsewhere", "3.png", "deeper/4.png")
    put_images(tmp_path / "data" / ".hidden", "5.png")
    (tmp_path / "data" / "n").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data" / "a").symlink_to(".hidden")
    assert listed(tmp_path / "data") == ["0.png", "a/5.png", "m/1.png", "n/3.png", "n/deeper/4.png", "z/2.png"]


@pytest.mark.parametrize("name", [b"caf\xe9", b"\x1b[31mred", b"a\rb", "a\u202eb".encode()])
def test_names_that_are_not_text_are_refused_and_shown_escaped(name, tmp_path):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/" + name)
    put_images(Path(folder), "1.png")
    with pytest.raises(UserError, match="rename what holds control characters or is not UTF-8") as refused:
        read(tmp_path, Settings(), "labeled")
    assert str(refused.value).isprintable()
    with pytest.raises(UserError, match="rename what holds"):
        read(Path(folder).parent, Settings(unlabeled_layout="flat"), "unlabeled")


def test_messages_show_what_a_terminal_would_obey():
    assert printable("\x1b[2Jcaf\udce9 ünï\tcode\n") == "\\x1b[2Jcaf\\udce9 ünï\tcode\n"
    assert worded("\x9bname\x7f") == "\\x9bname\\x7f"


def test_a_run_from_others_holds_no_escapes(tmp_path):
    (tmp_path / "a.json").write_text('{"classes": ["\\u001b[2J", "b"]}')
    with pytest.raises(UserError, match="it holds control characters"):
        read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_text('{"path": "C:\\\\users\\\\rest\\u00e9"}')
    assert read_json(tmp_path / "a.json") == {"path": "C:\\users\\resté"}
    (tmp_path / "a.yaml").write_text('labeled: "\\e[2J"')
    with pytest.raises(UserError, match="it holds control characters"):
        read_yaml(tmp_path / "a.yaml")


def test_a_path_that_is_not_utf8_survives_in_json(tmp_path):
    write_json(tmp_path / "a.json", {"source": "caf\udce9"})
    assert json.loads((tmp_path / "a.json").read_text()) == {"source": "caf\udce9"} == read_json(tmp_path / "a.json")


def test_labels_that_a_spreadsheet_would_run_come_back_as_they_were(tmp_path):
    names, classes = ("=1+1", "@a", "'=b", "plain"), ("-x", "y")
    domain = Domain("given", np.zeros((4, 2)), names, np.full(4, -1), classes)
    write_label_file(tmp_path / "a.csv", domain, np.arange(4), tmp_path, ["-x", "y"])
    text = (tmp_path / "a.csv").read_text().replace(f",{tmp_path}", "").splitlines()
    assert text == ["path,label,run", "'=1+1,'-x", "'@a,y", "'=b,", "plain,"]
    assert run_of(tmp_path / "a.csv") == tmp_path
    rows = read_label_rows(tmp_path / "a.csv")
    assert [(row["path"], row["label"]) for row in rows[:2]] == [("=1+1", "-x"), ("@a", "y")]
    assert read_label_file(tmp_path / "a.csv", classes).labels.tolist() == [0, 1]


def test_a_folder_that_cannot_be_read_is_named(own_folders, monkeypatch):
    labeled, _ = own_folders()
    closed, scan = str(next(labeled.iterdir())), os.scandir

    def refusing(path):
        if str(path) == closed:
            raise PermissionError(13, "Permission denied", closed)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(UserError, match=r"cannot be read \(Permission denied\); allow it, or move it elsewhere"):
        find_images(labeled)


def test_labels_are_whole_floats_or_names_that_look_like_them():
    assert class_numbers([1.0, "0"], ["0", "1"], "x").tolist() == [1, 0]
    assert class_numbers([2.0, 1.0], ["1.0", "2.0"], "x").tolist() == [1, 0]

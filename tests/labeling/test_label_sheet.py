"""A CSV while it is labeled."""

import csv
from pathlib import Path

import pytest

from unihssl import UserError
from unihssl.labeling.sheet import LabelSheet, only_labeler

CLASSES = ["cat", "dog"]


def write(path: Path, *labels: str) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [("path", "label", "note"), *((f"{i}.png", label, f"a,{i}") for i, label in enumerate(labels))]
        )
    return path


def labels(path: Path) -> list[str]:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["note"] for row in rows] == [f"a,{i}" for i in range(len(rows))]  # other columns stay
    return [row["label"] for row in rows]


def test_answers_skips_and_undo(tmp_path):
    path = write(tmp_path / "todo.csv", "", "dog", "", "")
    sheet = LabelSheet(path, CLASSES)
    assert (sheet.current, sheet.labeled, sheet.last, sheet.following) == (0, 1, None, 2)
    sheet.answer(0, "cat")
    assert labels(path) == ["cat", "dog", "", ""] and sheet.last == "cat"
    sheet.skip(2)
    assert labels(path) == ["cat", "dog", "", ""] and (sheet.current, sheet.last, sheet.following) == (3, "", None)
    sheet.answer(3, "dog")
    assert labels(path) == ["cat", "dog", "", "dog"] and sheet.current is None
    sheet.undo()
    assert labels(path) == ["cat", "dog", "", ""] and sheet.current == 3
    sheet.undo()
    assert sheet.current == 2 and not sheet.skipped
    sheet.undo()
    assert labels(path) == ["", "dog", "", ""] and sheet.current == 0
    with pytest.raises(UserError, match="nothing to undo"):
        sheet.undo()


def test_skipped_rows_come_again_when_asked_for_and_after_a_restart(tmp_path):
    path = write(tmp_path / "todo.csv", "", "")
    sheet = LabelSheet(path, CLASSES)
    sheet.skip(0)
    sheet.answer(1, "cat")
    assert sheet.current is None and LabelSheet(path, CLASSES).current == 0
    sheet.revisit()
    sheet.answer(0, "dog")
    assert labels(path) == ["dog", "cat"] and sheet.current is None


def test_wrong_answers_change_nothing(tmp_path):
    path = write(tmp_path / "todo.csv", "", "")
    sheet = LabelSheet(path, CLASSES)
    before = path.read_bytes()
    for row, label, message in ((0, "bird", "bird: no such class"), (1, "cat", "dealt with already")):
        with pytest.raises(UserError, match=message):
            sheet.answer(row, label)
    assert path.read_bytes() == before and sheet.current == 0


def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path):
    path = write(tmp_path / "todo.csv", "", "")
    sheet = LabelSheet(path, CLASSES)
    changed = write(path, "", "dog").read_bytes()
    with pytest.raises(UserError, match="another program has changed this file"):
        sheet.answer(0, "cat")
    assert path.read_bytes() == changed and sheet.labeled == 0 and sheet.current == 0


def test_bad_files(tmp_path):
    with pytest.raises(UserError, match=r"has the labels bird, but the classes are cat, dog"):
        LabelSheet(write(tmp_path / "a.csv", "bird", "dog"), CLASSES)
    (tmp_path / "b.csv").write_text("path,label\na.png,cat\nb,c.png,dog\n")
    with pytest.raises(UserError, match="line 3 has more cells"):
        LabelSheet(tmp_path / "b.csv", CLASSES)


def test_one_labeler_at_a_time(tmp_path):
    path = write(tmp_path / "todo.csv", "")
    with only_labeler(path), pytest.raises(UserError, match="is being labeled already"), only_labeler(path):
        pass
    with only_labeler(path):
        pass

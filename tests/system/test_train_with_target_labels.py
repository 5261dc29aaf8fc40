"""`unihssl train --target-labels` as a user calls it: with a CSV, from a column, resumed, audited, and refused."""

import csv
import json
from pathlib import Path

import pytest
from warm_cli import error, train, unihssl


def write(path: Path, rows: list, header: tuple[str, ...] = ("path", "label")) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def unlabeled_record(run: Path) -> dict:
    return json.loads((run / "split.json").read_text())["unlabeled"]


@pytest.fixture
def images(image_folders) -> list[Path]:
    return sorted(image_folders[1].rglob("*.png"))


def test_a_csv_of_labels(image_folders, images, tmp_path):
    """Audits neither draw these images nor accept them."""
    labels = write(tmp_path / "b.csv", [(image, image.parent.name) for image in images[::3]])
    done = train(image_folders, tmp_path / "run", "--target-labels", labels, "--json")
    assert done.code == 0 and done.result["unlabeled"]["n"] > 0
    record = unlabeled_record(tmp_path / "run")
    assert set(record["target_labels"]) == {image.relative_to(image_folders[1]).as_posix() for image in images[::3]}
    assert not set(record["target_labels"]) & set(record["test"])
    assert "54 labeled and" in (shown := train(image_folders, tmp_path / "other", "--target-labels", labels)).stderr
    assert "unlabeled training samples (20 with target labels)" in shown.stderr
    assert unihssl("audit", tmp_path / "run", "--n", 40, "--out", tmp_path / "audit.csv").code == 0
    with (tmp_path / "audit.csv").open(newline="") as file:
        assert not {row["path"] for row in csv.DictReader(file)} & set(map(str, images[::3]))
    assert "20 of its images trained the model" in unihssl("audit", tmp_path / "run", "--labels", labels).error


def test_labels_in_the_unlabeled_csv(image_folders, images, tmp_path):
    """One label of one class; nothing is left to test on."""
    source = write(tmp_path / "b.csv", [(image, "blue" if image == images[0] else "") for image in images])
    assert train((image_folders[0], source), tmp_path / "run", "--target-labels", "column").code == 0
    record = unlabeled_record(tmp_path / "run")
    assert record["target_labels"] == {str(images[0]): "blue"} and record["test"] == [] and len(record["train"]) == 60
    assert unihssl("audit", tmp_path / "run", "--n", 59, "--out", tmp_path / "audit.csv").code == 0


def test_a_resumed_run_keeps_its_labels(image_folders, images, tmp_path):
    labels = write(tmp_path / "b.csv", [(images[0], "blue")])
    assert train(image_folders, tmp_path / "run", "--target-labels", labels).code == 0
    (tmp_path / "run" / "result.json").unlink()  # as if it had been killed just before
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    other = write(tmp_path / "c.csv", [(images[1], "blue")])
    refused = unihssl("train", "--resume", "--out", tmp_path / "run", "--target-labels", other).error
    assert "a resumed run keeps its settings, but target_labels was" in refused
    assert unihssl("train", "--resume", "--out", tmp_path / "run").code == 0
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before
    assert len(unlabeled_record(tmp_path / "run")["target_labels"]) == 1


def test_bad_labels_are_one_line_and_leave_no_run(image_folders, images, tmp_path):
    blue = images[0]
    for rows, message in (
        ([], "bad.csv: the CSV has no rows"),
        ([(blue, "")], "bad.csv: none of its 1 images has a label yet"),
        ([(blue, "bleu")], "bad.csv: the model knows no class bleu (blue?); its classes are blue, green, red"),
        ([("elsewhere.png", "red")], f"bad.csv: 1 of its images are not in {image_folders[1]} (elsewhere.png)"),
        ([(blue, "blue"), ("blue/" + blue.name, "red")], "has two labels (blue, red); keep one"),
        ([(blue, "red")], f"is labeled red, but its class in {image_folders[1]} is blue; correct one, or ignore the"),
    ):
        bad = write(tmp_path / "bad.csv", rows)
        assert message in error(image_folders, tmp_path / "run", "--target-labels", bad)
        assert not (tmp_path / "run").exists()
    no_column = write(tmp_path / "bad.csv", [(blue, "red")], ("path", "class"))
    assert "bad.csv: no column 'label'" in error(image_folders, tmp_path / "run", "--target-labels", no_column)
    assert "no.csv: no such file" in error(image_folders, tmp_path / "run", "--target-labels", tmp_path / "no.csv")
    folder = error(image_folders, tmp_path / "run", "--target-labels", "column")
    assert "--target-labels column needs a CSV or arrays, not a folder" in folder
    source = write(tmp_path / "source.csv", [(image,) for image in images], ("path",))
    printed = error((image_folders[0], source), tmp_path / "run", "--target-labels", "column")
    assert "source.csv: no column 'label'; its columns are path" in printed
    every = write(tmp_path / "all.csv", [(image, image.parent.name) for image in images])
    printed = error(image_folders, tmp_path / "run", "--target-labels", every, split="reserved")
    assert "of the target labels are of images reserved for testing" in printed and "--set split" in printed

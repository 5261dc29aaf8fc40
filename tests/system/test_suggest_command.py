"""`unihssl suggest` as a user calls it, up to training with the labels it asked for."""

import csv
import json
import shlex
from pathlib import Path

import pytest
from warm_cli import train, unihssl


@pytest.fixture(scope="module")
def finished(image_folders, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("suggest") / "run"
    assert train(image_folders, run).code == 0
    return run


def suggested(run: Path, out: Path, *more: object) -> list[str]:
    assert unihssl("suggest", run, "--out", out, *more).code == 0
    with out.open(newline="") as file:
        return [row["path"] for row in csv.DictReader(file) if not row["label"]]


def fill(path: Path) -> Path:
    """Fill in the true labels: the folders' names."""
    with path.open(newline="") as file:
        images = [row["path"] for row in csv.DictReader(file)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label"), *((image, Path(image).parent.name) for image in images)])
    return path


def paths(folder: Path, names: list[str]) -> set[str]:
    return {str(folder / name) for name in names}


def test_only_training_images_without_a_label_are_suggested_and_they_train(finished, image_folders, tmp_path):
    unlabeled = image_folders[1]
    split = json.loads((finished / "split.json").read_text())["unlabeled"]
    every = suggested(finished, tmp_path / "all.csv", "--n", len(split["train"]))
    assert set(every) == paths(unlabeled, split["train"]) and len(split["test"]) == 6
    assert "--n must be from 1 to 54" in unihssl("suggest", finished, "--n", 55, "--out", tmp_path / "b.csv").error

    todo = tmp_path / "todo.csv"
    first = suggested(finished, todo, "--n", 6)
    assert len(set(first)) == 6 and suggested(finished, tmp_path / "again.csv", "--n", 6) == first
    assert train(image_folders, tmp_path / "second", "--target-labels", fill(todo)).code == 0
    record = json.loads((tmp_path / "second" / "split.json").read_text())["unlabeled"]
    assert paths(unlabeled, list(record["target_labels"])) == set(first) and record["test"] == split["test"]

    told = unihssl("suggest", tmp_path / "second", "--n", 48, "--out", tmp_path / "rest.csv")
    assert "6 target labels of this run are not in" in told.stderr and "unihssl label" in told.stdout
    with (tmp_path / "rest.csv").open(newline="") as file:
        assert {row["path"] for row in csv.DictReader(file)} == set(every) - set(first)
    more = suggested(tmp_path / "second", tmp_path / "more.csv", "--n", 5, "--with-labels", "--by", "margin")
    with (tmp_path / "more.csv").open(newline="") as file:
        rows = [(row["path"], row["label"]) for row in csv.DictReader(file)]
    assert len(more) == 5 and {(image, Path(image).parent.name) for image in first} == set(rows[:6])
    fill(tmp_path / "rest.csv")
    next_command = shlex.split(told.stdout.splitlines()[-1].removeprefix("Then train with: unihssl "))
    third = tmp_path / "third"
    assert unihssl(*(str(third) if word == "NEW" else word for word in next_command)).code == 0
    assert len(json.loads((third / "split.json").read_text())["unlabeled"]["target_labels"]) == 48


def test_audited_and_excluded_images_are_left_out(image_folders, tmp_path):
    run = tmp_path / "run"
    assert train(image_folders, run).code == 0
    assert unihssl("audit", run, "--n", 20, "--out", tmp_path / "audit.csv").code == 0
    assert unihssl("audit", run, "--labels", fill(tmp_path / "audit.csv"), "--json").result["n"] == 20
    audited = {str(image_folders[1] / name) for name in json.loads((run / "audit.json").read_text())["sample"]["path"]}
    held_out = paths(image_folders[1], json.loads((run / "split.json").read_text())["unlabeled"]["test"])
    left = 60 - len(audited | held_out)
    first = suggested(run, tmp_path / "a.csv", "--n", 10, "--by", "random")
    rest = suggested(run, tmp_path / "b.csv", "--n", left - 10, "--exclude", tmp_path / "a.csv")
    assert len({*first, *rest}) == left and not (audited | held_out) & {*first, *rest}
    before = (tmp_path / "a.csv").read_bytes()
    assert "a.csv exists already" in unihssl("suggest", run, "--n", 3, "--out", tmp_path / "a.csv").error
    assert (tmp_path / "a.csv").read_bytes() == before
    assert "--by is one of clusters, margin, random; got 'luck'" in (
        unihssl("suggest", run, "--out", tmp_path / "c.csv", "--by", "luck").error
    )


def test_suggested_images_are_not_drawn_for_an_audit(image_folders, tmp_path):
    run = tmp_path / "run"
    assert train(image_folders, run).code == 0
    asked = {*suggested(run, tmp_path / "one.csv", "--n", 5), *suggested(run, tmp_path / "two.csv", "--n", 7)}
    drawn = unihssl("audit", run, "--n", 60 - len(asked), "--out", tmp_path / "audit.csv")
    assert f"note: {len(asked)} images that were suggested are not drawn from" in drawn.stderr
    refused = unihssl("audit", run, "--labels", fill(tmp_path / "one.csv")).error
    assert "one.csv: its images were suggested, not drawn at random" in refused and not (run / "audit.json").exists()
    assert unihssl("audit", run, "--labels", fill(tmp_path / "audit.csv")).code == 0
    part = (tmp_path / "audit.csv").read_text().splitlines()[:6] + (tmp_path / "one.csv").read_text().splitlines()[1:3]
    (tmp_path / "mixed.csv").write_text("\n".join(part))
    notes = unihssl("audit", run, "--labels", tmp_path / "mixed.csv").stderr
    assert "2 of its 7 images were suggested" in notes and f"more labels ({60 - len(asked)}) than this one (7)" in notes
    with (tmp_path / "audit.csv").open(newline="") as file:
        assert not asked & {row["path"] for row in csv.DictReader(file)}

"""`unihssl audit` as a user calls it, from drawing images to predictions that abstain."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from warm_cli import train, unihssl

from unihssl import UserError, load
from unihssl.evaluation.audit_run import NOT_TOLD_APART


@pytest.fixture(scope="module")
def finished(image_folders, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("audit") / "run"
    assert train(image_folders, run).code == 0
    return run


@pytest.fixture
def run(finished, tmp_path) -> Path:
    return shutil.copytree(finished, tmp_path / "run")


def write(path: Path, rows: list) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label"), *rows])
    return path


def drawn(run: Path, out: Path, n: int = 40, *more: object) -> list[str]:
    """The images of a new audit file."""
    assert unihssl("audit", run, "--n", n, "--out", out, *more).code == 0
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(row["label"] == "" for row in rows)
    return [row["path"] for row in rows]


def filled(run: Path, out: Path, n: int = 40) -> Path:
    """An audit file with its true labels: the folders' names."""
    return write(out, [(image, Path(image).parent.name) for image in drawn(run, out, n)])


def test_draw_label_answer_predict(run, image_folders, tmp_path):
    unlabeled = image_folders[1]
    before = unihssl("predict", run, unlabeled, "--out", tmp_path / "before.csv")
    assert before.stderr.count("confidences are not calibrated for the unlabeled domain") == 1
    assert f"unihssl audit {run} --n 100 --out audit.csv" in before.stderr
    refused = unihssl("predict", run, unlabeled, "--out", tmp_path / "refused.csv", "--max-risk", "0.1").error
    assert "--max-risk needs an audit" in refused and not (tmp_path / "refused.csv").exists()

    answer = unihssl("audit", run, "--labels", filled(run, tmp_path / "audit.csv"), "--max-risk", 0.5, "--json").result
    assert answer == json.loads((run / "audit.json").read_text())
    assert answer["n"] == 40 and answer["domain_size"] == 60
    with (tmp_path / "before.csv").open(newline="") as file:
        predicted = {row["path"]: row["class"] for row in csv.DictReader(file)}
    names = [str(unlabeled / name) for name in answer["sample"]["path"]]
    right = [predicted[name] == Path(name).parent.name for name in names]
    assert answer["accuracy"]["value"] == pytest.approx(sum(right) / 40)
    assert answer["labeled"]["accuracy"]["n"] == 3  # half of 6 held out
    assert answer["notes"] == ([] if answer["labeled_temperature"] else [NOT_TOLD_APART])

    text = unihssl("audit", run, "--labels", tmp_path / "audit.csv", "--max-risk", 0.5).stdout
    assert "Accuracy on the unlabeled domain: " in text and "from 40 labels" in text and "audit.json" in text
    after = unihssl("predict", run, unlabeled, "--out", tmp_path / "after.csv", "--json").result
    with (tmp_path / "after.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert after["calibrated"] and after["abstained"] == sum(row["abstain"] == "yes" for row in rows)
    assert {row["path"]: row["class"] for row in rows} == predicted
    assert any("abstain" in note for note in after["notes"]) == (answer["threshold"] is None)
    strict = unihssl("predict", run, unlabeled, "--out", tmp_path / "after.csv", "--max-risk", 0.001)
    assert "60 of them without an answer" in strict.stdout and "not calibrated" not in strict.stderr
    assert "note: abstain is yes for every image: the 40 labels of the audit cannot show that 0.1%" in strict.stderr


def test_the_draw_is_random_repeatable_and_loses_no_labels(run, tmp_path):
    first, again = drawn(run, tmp_path / "a.csv"), drawn(run, tmp_path / "b.csv")
    assert first == again and len(set(first)) == 40 and all(Path(image).is_file() for image in first)
    assert drawn(run, tmp_path / "c.csv", 40, "--seed", 1) != first
    labels = write(tmp_path / "a.csv", [(first[0], "blue")]).read_bytes()
    assert "a.csv exists already, and may hold labels: choose another --out" in (
        unihssl("audit", run, "--out", tmp_path / "a.csv", "--n", 3).error
    )
    assert (tmp_path / "a.csv").read_bytes() == labels
    assert "--n must be from 1 to 60" in unihssl("audit", run, "--out", tmp_path / "d.csv", "--n", 61).error
    assert "pass either --out" in unihssl("audit", run).error


def test_bad_labels_are_one_line_and_the_last_answer_stays(run, image_folders, tmp_path):
    good = filled(run, tmp_path / "audit.csv")
    assert unihssl("audit", run, "--labels", good, "--json").result
    before = (run / "audit.json").read_bytes()
    images = drawn(run, tmp_path / "more.csv", 3)
    split = json.loads((run / "split.json").read_text())
    trained = image_folders[0] / split["labeled"]["train"][0]
    name = Path(images[0]).relative_to(image_folders[1]).as_posix()
    for rows, message in (
        ([], "bad.csv: the CSV has no rows"),
        ([(images[0], ""), (images[1], " ")], "bad.csv: none of its 2 images has a label yet"),
        ([(images[0], "bleu")], "bad.csv: the model knows no class bleu (blue?); its classes are blue, green, red"),
        ([("elsewhere.png", "red")], f"bad.csv: 1 of its images are not in {image_folders[1]} (elsewhere.png)"),
        ([(images[0], "red"), (name, "blue")], f"bad.csv: {name} has two labels (red, blue); keep one"),
        ([(trained, "red")], f"bad.csv: 1 of its images trained the model, with their labels ({trained})"),
    ):
        printed = unihssl("audit", run, "--labels", write(tmp_path / "bad.csv", rows)).error
        assert message in printed
        assert (run / "audit.json").read_bytes() == before
    (tmp_path / "bad.csv").write_text("image,class\na.png,red\n")
    assert (
        "bad.csv: no column 'path'; its columns are image, class"
        in unihssl("audit", run, "--labels", tmp_path / "bad.csv").error
    )
    assert "no.csv: no such file" in unihssl("audit", run, "--labels", tmp_path / "no.csv").error
    assert "--max-risk is a share" in unihssl("audit", run, "--labels", good, "--max-risk", 2).error
    assert (run / "audit.json").read_bytes() == before


def test_labels_may_stop_early_but_gaps_are_noted(run, tmp_path):
    images = drawn(run, tmp_path / "audit.csv")
    rows = [(image, Path(image).parent.name) for image in images]
    early = write(tmp_path / "early.csv", rows[:20] + [(image, "") for image in images[20:]])
    answer = unihssl("audit", run, "--labels", early, "--json").result
    assert answer["n"] == 20 and answer["notes"] == []
    gaps = write(tmp_path / "gaps.csv", [(images[0], ""), *rows[1:]])
    assert "some images were skipped" in unihssl("audit", run, "--labels", gaps).stderr


def test_an_audit_of_the_oracle_draws_no_image_it_trained_on(image_folders, tmp_path):
    settings = [f"--set={k}={v}" for k, v in (("backbone", "small_cnn"), ("epochs", 1), ("tensorboard", False))]
    given = ["--labeled", image_folders[0], "--unlabeled", image_folders[1], "--method", "oracle"]
    assert unihssl("train", *given, *settings, "--out", tmp_path / "run").code == 0
    held_out = json.loads((tmp_path / "run" / "split.json").read_text())["unlabeled"]
    images = drawn(tmp_path / "run", tmp_path / "audit.csv", len(held_out["test"]))
    assert {str(image_folders[1] / name) for name in held_out["test"]} == set(images)
    trained = write(tmp_path / "bad.csv", [(image_folders[1] / held_out["train"][0], "red")])
    assert "1 of its images trained the model" in unihssl("audit", tmp_path / "run", "--labels", trained).error


def test_data_that_has_moved(own_folders, tmp_path):
    labeled, unlabeled = own_folders()
    assert train((labeled, unlabeled), tmp_path / "run").code == 0
    unlabeled.rename(tmp_path / "moved")
    labeled.rename(tmp_path / "gone")
    printed = unihssl("audit", tmp_path / "run", "--n", 5, "--out", tmp_path / "audit.csv").error
    assert "the unlabeled data of this run is not there; say where with --unlabeled" in printed
    images = drawn(tmp_path / "run", tmp_path / "audit.csv", 5, "--unlabeled", tmp_path / "moved")
    file = write(tmp_path / "audit.csv", [(image, Path(image).parent.name) for image in images])
    answer = unihssl("audit", tmp_path / "run", "--labels", file, "--unlabeled", tmp_path / "moved", "--json").result
    assert answer["n"] == 5 and answer["labeled"] is None


def test_groups_share_the_draw(image_folders, tmp_path):
    sources = []
    for name, folder in zip(("a", "b"), image_folders, strict=True):
        images = sorted(folder.rglob("*.png"))
        rows = [(image, image.parent.name, f"patient {i // 3}") for i, image in enumerate(images)]
        sources.append(tmp_path / f"{name}.csv")
        with sources[-1].open("w", newline="") as file:
            csv.writer(file).writerows([("path", "label", "patient"), *rows])
    assert train(tuple(sources), tmp_path / "run", group_by="patient").code == 0
    images = drawn(tmp_path / "run", tmp_path / "audit.csv", 20)
    order = sorted(map(str, image_folders[1].rglob("*.png")))
    assert {order.index(image) // 3 for image in images} == set(range(20))  # one of each patient's three


def test_arrays_are_named_by_their_rows(image_arrays, tmp_path):
    for name, (x, y) in zip(("a", "b"), image_arrays, strict=True):
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    assert train((tmp_path / "a.npz", tmp_path / "b.npz"), tmp_path / "run").code == 0
    rows = drawn(tmp_path / "run", tmp_path / "audit.csv", 10)
    file = write(tmp_path / "audit.csv", [(row, image_arrays[1][1][int(row)]) for row in rows])
    assert unihssl("audit", tmp_path / "run", "--labels", file, "--json").result["sample"]["path"] == rows


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", "hot"),
        ("temperature", 0),
        ("threshold", [0.5]),
        ("accuracy", {"value": 0.5}),
        ("class_shares", {"red": 1}),
        ("reference", []),
        ("sample", {"label": ["red"], "predicted": [], "confidence": [0.5]}),
        ("n", None),
    ],
)
def test_a_damaged_audit_is_one_line(run, image_folders, tmp_path, name, value):
    assert unihssl("audit", run, "--labels", filled(run, tmp_path / "audit.csv")).code == 0
    answer = json.loads((run / "audit.json").read_text())
    (run / "audit.json").write_text(json.dumps(answer | {name: value}))
    error = unihssl("predict", run, image_folders[1], "--out", tmp_path / "p.csv").error
    assert "audit.json: not the answers of an audit: its" in error and "delete it, and audit again" in error


def test_images_are_suggested_after_an_audit_of_arrays(run, image_arrays, tmp_path):
    model = load(run)
    model.audit(*image_arrays[1])
    model.save(run)
    assert unihssl("suggest", run, "--n", 3, "--out", tmp_path / "todo.csv").code == 0


def test_python_refuses_files_that_trained_with_their_labels(run, image_folders, tmp_path):
    model, split = load(run), json.loads((run / "split.json").read_text())
    trained = image_folders[0] / split["labeled"]["train"][0]
    held_out = [image_folders[0] / name for name in split["labeled"]["test"]]
    with pytest.raises(UserError, match="the samples: 1 of its images trained the model, with their labels"):
        model.audit([*held_out, trained], [image.parent.name for image in (*held_out, trained)])
    assert model.audit(held_out, [image.parent.name for image in held_out])["n"] == len(held_out)
    (tmp_path / "broken.png").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"broken.png: cannot be read"):
        model.audit([*held_out, tmp_path / "broken.png"], ["red"] * (len(held_out) + 1))

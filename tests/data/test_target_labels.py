"""Labels of the unlabeled domain that train: how they are given, what is refused, and that they never are tested."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import unihssl
from colour_domains import colour_images
from unihssl.config import Settings
from unihssl.data.batches import PairedData
from unihssl.data.domain import Domain
from unihssl.data.pair import DomainPair, load_pair, read_domains
from unihssl.data.split import Split, keep_in_training, split_domain
from unihssl.data.target_labels import with_target_labels
from unihssl.data.views import Views
from unihssl.errors import UserError

CLASSES = ("blue", "green", "red")


def domain(count: int = 6, labels: list[int] | None = None, groups: list[str] | None = None) -> Domain:
    known = np.full(count, -1) if labels is None else np.array(labels)
    names = tuple(f"{row}.png" for row in range(count))
    files = [Path("scans") / name for name in names]
    return Domain("scans", files, names, known, CLASSES, None if groups is None else np.array(groups))


@pytest.fixture(autouse=True)
def scans(tmp_path, monkeypatch) -> None:
    """The folder that `domain` names."""
    monkeypatch.chdir(tmp_path)
    Path("scans").mkdir()
    for row in range(6):
        Path(f"scans/{row}.png").touch()


def write(path: Path, *rows: tuple[str, str], header: tuple[str, ...] = ("path", "label")) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def labels_of(given: object, **more) -> list[int]:
    return with_target_labels(domain(**more), given).target_labels.tolist()


def test_every_way_to_give_labels_is_the_same(tmp_path):
    expected = [-1, 2, -1, -1, 0, -1]
    file = write(tmp_path / "b.csv", ("1.png", "red"), ("0.png", ""), ("4.png", "blue"), ("1.png", "red"))
    ways = [file, str(file), {"1.png": "red", "4.png": "blue", "0.png": None}, {1: "red", 4: "blue"}]
    ways += [{Path("scans/1.png"): "red", np.int64(4): "blue"}, [None, "red", "", None, "blue", float("nan")]]
    ways += [np.array([None, "red", None, -1, "blue", None], dtype=object)]
    for way in ways:
        assert labels_of(way) == expected, way
    from_a_file = replace(domain(labels=expected), name="scans.csv")
    assert with_target_labels(from_a_file, "column").target_labels.tolist() == expected


def test_paths_are_relative_to_the_csv(tmp_path, monkeypatch):
    found = Domain("scans", [tmp_path / "scans" / "0.png"], ("a name",), np.array([-1]), CLASSES)
    file = write(tmp_path / "b.csv", ("scans/0.png", "red"))
    monkeypatch.chdir("/")
    assert with_target_labels(found, file).target_labels.tolist() == [2]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"7.png": "red"}, r"target_labels: 1 of its images are not in scans \(7.png\)"),
        ({9: "red"}, r"target_labels: 1 of its images are not in scans \(9\)"),
        ({"1.png": "rde"}, r"target_labels: the model knows no class rde \(red\?\); its classes are blue, green, red"),
        ({"1.png": "red", 1: "blue"}, r"target_labels: 1.png has two labels \(red, blue\); keep one"),
        ({"scans/1.png": "red", 1: "blue"}, r"target_labels: 1.png has two labels \(red, blue\); keep one"),
        (
            {"0.png": "red"},
            "target_labels: 0.png is labeled red, but its class in scans is blue; correct one, or ignore",
        ),
        ({}, "target_labels: no sample has a label"),
        ({"1.png": None}, "target_labels: no sample has a label"),
        (["red", None], r"target_labels have shape \(2,\); expected one label, None or -1 for each of the 6"),
        ("nowhere.csv", "nowhere.csv: no such file"),
    ],
)
def test_labels_that_cannot_be_used_are_one_line(given, message):
    with pytest.raises(UserError, match=message) as error:
        labels_of(given, labels=[0, -1, -1, -1, -1, -1])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column .path.; its columns are none"),
        ("path,label\n", "the CSV has no rows"),
        ("path,label\n1.png,\n", "none of its 1 images has a label yet"),
        ("path,class\n1.png,red\n", "no column .label.; its columns are path, class"),
        ("path,label\n1.png,red\n1.png,blue\n", r"1.png has two labels \(red, blue\); keep one"),
    ],
)
def test_a_csv_that_cannot_be_used_is_one_line(tmp_path, text, message):
    (tmp_path / "b.csv").write_text(text)
    with pytest.raises(UserError, match=rf"b\.csv: {message}"):
        labels_of(tmp_path / "b.csv")


def test_labels_in_a_column(own_folders, tmp_path):
    """One filled row of one class is enough; without the column, or in a folder, there is nothing to take."""
    labeled, unlabeled = own_folders()
    files = sorted(unlabeled.rglob("*.png"))
    source = write(tmp_path / "all.csv", *((str(file), "red" if i == 3 else "") for i, file in enumerate(files)))
    settings = Settings(target_labels="column")
    _, target = read_domains(str(labeled), str(source), settings)
    assert target.has_target_label.tolist() == [i == 3 for i in range(12)]
    write(source, *((str(file), "") for file in files))
    with pytest.raises(UserError, match="target_labels='column', but no label is filled in"):
        read_domains(str(labeled), str(source), settings)
    write(source, *((str(file),) for file in files), header=("path",))
    with pytest.raises(UserError, match="no column 'label'; its columns are path"):
        read_domains(str(labeled), str(source), settings)
    with pytest.raises(UserError, match="needs a CSV or arrays, not a folder"):
        read_domains(str(labeled), str(unlabeled), settings)


def test_the_test_part_loses_what_is_labeled_and_nothing_else():
    labels = np.arange(60) % 3
    split = split_domain(domain(60, list(labels)), 0.3, 0)
    given = {int(row): CLASSES[labels[row]] for row in [*split.test[:4], *split.train[:4]]}
    kept = keep_in_training(split, with_target_labels(domain(60, list(labels)), given), "stratified")
    assert np.array_equal(kept.test, split.test[4:])
    assert np.array_equal(kept.train, np.setdiff1d(np.arange(60), kept.test))


def test_the_group_of_a_labeled_sample_trains():
    groups = [f"patient {row // 3}" for row in range(12)]
    split = Split(np.arange(6), np.arange(6, 12))
    kept = keep_in_training(split, with_target_labels(domain(12, groups=groups), {7: "red"}), "stratified")
    assert kept.test.tolist() == [9, 10, 11] and kept.train.tolist() == list(range(9))


@pytest.mark.parametrize("kind", ["reserved", "search"])
def test_labels_of_reserved_images_are_refused(kind):
    plain = domain(60, [row % 3 for row in range(60)])
    reserved = split_domain(plain, 0.2, 0, "reserved").test
    other = np.setdiff1d(np.arange(60), reserved)[0]
    split = split_domain(plain, 0.2, 0, kind)
    assert other in keep_in_training(split, with_target_labels(plain, {int(other): CLASSES[other % 3]}), kind).train
    given = {int(reserved[0]): CLASSES[reserved[0] % 3]}
    with pytest.raises(UserError, match=rf"1 of the target labels are of images reserved .* \({reserved[0]}.png\)"):
        keep_in_training(split, with_target_labels(plain, given), kind)


def pair_of(vector_arrays, labels: dict, **knobs) -> DomainPair:
    settings = Settings(**knobs)
    return load_pair(*read_domains(*vector_arrays, settings, labels), settings, None, lambda name: lambda *_: None)


def training(pair: DomainPair, shard: tuple[int, int] = (0, 1), **knobs) -> PairedData:
    return pair.training_data(Views(None, (), ()), Settings(**knobs), torch.device("cpu"), shard)[0]


LABELS = {row: 10 * (1 + row // 20) for row in (*range(0, 60, 2), *range(1, 60, 2))}


@pytest.mark.parametrize(
    ("labels", "processes", "batch"), [(1, 1, 1), (1, 2, 2), (12, 1, 2), (20, 1, 2), (20, 2, 2), (28, 1, 4), (40, 2, 4)]
)
def test_fewer_than_32_labels_have_less_than_their_share(vector_arrays, labels, processes, batch):
    """At most four of sixteen; processes can always share them evenly."""
    pair = pair_of(vector_arrays, dict(list(LABELS.items())[:labels]))
    data = training(pair, (0, processes), batch_size=16)
    data.load(0, 0, 0.0)
    assert len(data.batch().target) * processes == batch


def test_samples_with_target_labels_keep_weak_views():
    (x, y), (u, _) = colour_images(8, 0, seed=0), colour_images(12, 60, seed=1)
    settings = Settings(labeled_view="half_strong", batch_size=8, test_fraction=0, cache="none")
    sources = read_domains((x, y), u, settings, dict.fromkeys(range(6), y[0]))
    pair = load_pair(*sources, settings, None, lambda name: lambda *_: None)
    views = Views(None, (0.0,) * 3, (1.0,) * 3)
    data = pair.training_data(views, settings, torch.device("cpu"), (0, 1))[0]
    data.load(0, 0, 0.0)
    batch = data.batch()
    assert torch.equal(batch.all_labeled.labeled_view, torch.cat([batch.labeled.labeled_view, batch.target.weak]))
    assert torch.equal(batch.labeled.labeled_view, torch.cat([batch.labeled.strong[:4], batch.labeled.weak[4:]]))


def test_batches_of_few_labels_repeat_them_in_shuffled_orders(vector_arrays):
    """Three labels, one in a step: all are drawn, none much more often than another."""
    pair = pair_of(vector_arrays, {0: 10, 25: 20, 50: 30})
    data = training(pair, batch_size=16)
    counts = np.zeros(61, int)
    for step in range(300):
        data.load(0, step, 0.0)
        batch = data.batch()
        assert len(batch.target) == 1 and batch.target.y.shape == (1,)
        rows = np.array(
            [np.flatnonzero((vector_arrays[1][0].astype(np.float32) == x.numpy()).all(1))[0] for x in batch.target.weak]
        )
        assert np.array_equal(np.array([10, 20, 30])[batch.target.y.numpy()], vector_arrays[1][1][rows])
        np.add.at(counts, rows, 1)
        assert len(batch.all_labeled) == 17 and len(batch.all_labeled.rows.unique()) == 17
        assert batch.all_labeled.y.tolist() == [*batch.labeled.y.tolist(), *batch.target.y.tolist()]
        assert batch.images == 17
    assert set(np.flatnonzero(counts)) == {0, 25, 50}
    assert counts[[0, 25, 50]].min() > 90
    classes = data.target_classes()
    train = pair.unlabeled.split.train
    assert {int(train[i]): int(classes[i]) for i in np.flatnonzero(classes != -1)} == {0: 0, 25: 1, 50: 2}


def test_processes_share_the_batch(vector_arrays):
    pair = pair_of(vector_arrays, dict(list(LABELS.items())[:40]))
    shards = [training(pair, shard, batch_size=16) for shard in ((0, 1), (0, 2), (1, 2))]
    for data in shards:
        data.load(1, 5, 0.0)
    whole, first, second = (data.batch().target.rows.tolist() for data in shards)
    assert whole[::2] == first and whole[1::2] == second
    with pytest.raises(UserError, match=r"a batch of 3 .* cannot be shared evenly by 2 processes: target_share=0.125"):
        training(pair, (0, 2), batch_size=16, target_share=0.19)


def test_without_labels_nothing_is_there(vector_arrays):
    settings = Settings()
    pair = load_pair(*read_domains(*vector_arrays, settings), settings, None, lambda name: lambda *_: None)
    data = training(pair)
    assert data.target is None and data.target_classes() is None
    data.load(0, 0, 0.0)
    assert data.batch().target is None
    batch = data.batch()
    assert batch.all_labeled is batch.labeled


def test_the_truth_in_the_log_leaves_out_what_trains(vector_arrays):
    pair = pair_of(vector_arrays, {0: 10, 25: 20})
    train = pair.unlabeled.split.train
    assert set(train[(pair.truth == -1).numpy()]) == {0, 25}


def test_thinned_classes_keep_their_labeled_samples(vector_arrays):
    rows = range(40, 60)
    pair = pair_of(vector_arrays, dict.fromkeys(rows, 30), label_shift=10)
    assert set(rows) <= set(pair.unlabeled.split.train) and len(pair.unlabeled.split.train) < 50


KNOBS = {"epochs": 1, "pretrain_epochs": 1, "max_steps": 2, "tensorboard": False, "backbone": "small_cnn"}


def test_a_run_records_its_labels(own_folders, tmp_path):
    labeled, unlabeled = own_folders(10)
    file = write(tmp_path / "b.csv", *((str(path), path.parent.name) for path in sorted(unlabeled.rglob("*.png"))[::4]))
    model = unihssl.fit(labeled, unlabeled, tmp_path / "run", target_labels=file, batch_size=8, **KNOBS)
    record = json.loads((tmp_path / "run" / "split.json").read_text())["unlabeled"]
    assert len(record["target_labels"]) == 8
    assert all(name.startswith(f"{label}/") for name, label in record["target_labels"].items())
    assert record["target_labels"].keys() <= set(record["train"])
    assert len(record["train"]) + len(record["test"]) == 30 and 0 < len(record["test"]) <= 3
    assert model.result["unlabeled_training"]["n"] == len(record["train"]) - 8
    config = (tmp_path / "run" / "config.yaml").read_text()
    assert f"target_labels: {file}" in config
    again = unihssl.fit(labeled, unlabeled, tmp_path / "run", target_labels=str(file), resume=True)
    assert np.array_equal(again.predict(unlabeled), model.predict(unlabeled))


def test_unreadable_images_with_labels_are_left_out(own_folders, tmp_path):
    labeled, unlabeled = own_folders(10)
    first, second = sorted((unlabeled / "red").iterdir())[:2]
    first.write_bytes(b"nothing")
    labels = {first: "red", second: "red"}
    with pytest.warns(UserWarning, match="skipped 1 of 30 images as unreadable"):
        unihssl.fit(labeled, unlabeled, tmp_path / "run", target_labels=labels, batch_size=8, **KNOBS)
    record = json.loads((tmp_path / "run" / "split.json").read_text())["unlabeled"]
    assert record["target_labels"] == {f"red/{second.name}": "red"}
    with pytest.raises(UserError, match="no image with a target label can be read"):
        unihssl.fit(labeled, unlabeled, target_labels={first: "red"}, batch_size=8, **KNOBS)

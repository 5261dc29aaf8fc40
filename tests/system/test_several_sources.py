"""Several unlabeled sources are trained together and measured one by one."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from warm_cli import FAST, unihssl

import unihssl as package
from unihssl.config import Settings
from unihssl.data.domain import test_domain as read_test_domain
from unihssl.data.domain import unlabeled_domain
from unihssl.data.source import Source, joined

COLORS = {"red": (200, 30, 30), "blue": (30, 30, 200)}


def photos(folder, shift: int, per_class: int = 12):
    rng = np.random.default_rng(shift)
    for name, color in COLORS.items():
        (folder / name).mkdir(parents=True)
        for i in range(per_class):
            pixels = np.clip(np.array(color) + shift + rng.normal(0, 20, (8, 8, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{i}.png")
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("sources")
    return [photos(root / name, shift) for name, shift in (("a", 0), ("b", 20), ("c", 40))]


def test_names_and_sources_are_those_of_each_folder(folders):
    _, b, c = folders
    for source in ([b, c], [str(b), str(c)], f"{b}|{c}"):
        domain = unlabeled_domain(source, ("blue", "red"), Settings())
        assert len(domain) == 48 and domain.names[0] == "b/blue/0.png" and domain.names[-1] == "c/red/9.png"
        assert domain.sources.tolist() == ["b"] * 24 + ["c"] * 24
    assert read_test_domain(f"{b}|{c}", ("blue", "red"), Settings()).names == domain.names


def test_folders_of_one_name_are_told_apart(folders, tmp_path):
    again = photos(tmp_path / "b", 7)
    domain = unlabeled_domain([folders[1], again], ("blue", "red"), Settings())
    assert set(domain.sources) == {"b-1", "b-2"}


def test_sources_of_one_name_and_csvs_with_domains_stay_apart():
    def source(name, **columns):
        return Source(name, [Path("1.png")], ["1"], [None], columns)

    found = joined([source("f/b"), source("f/y/b"), source("f/z/b-1")])
    assert found.columns["domain"] == ["b-2", "b-3", "b-1"]
    both = joined([source("m1.csv", domain=["left"]), source("m2.csv", domain=["left"])])
    assert both.columns["domain"] == ["m1/left", "m2/left"] and both.names == ["m1/1", "m2/1"]


def test_a_csv_names_sources_in_its_column(folders, tmp_path):
    rows = [
        f"{folders[i]}/red/{n}.png,red,scanner{i}\n{folders[i]}/blue/{n}.png,blue,scanner{i}"
        for i in (1, 2)
        for n in (0, 1)
    ]
    (tmp_path / "b.csv").write_text("\n".join(["path,label,domain", *rows]))
    domain = unlabeled_domain(tmp_path / "b.csv", ("blue", "red"), Settings())
    assert domain.sources.tolist() == ["scanner1"] * 4 + ["scanner2"] * 4 and not domain.notes


def test_images_and_vectors_do_not_mix(folders, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 3)))
    with pytest.raises(package.UserError, match="must all be images, or arrays alike"):
        unlabeled_domain([folders[1], tmp_path / "x.npy"], ("blue", "red"), Settings())


def test_every_source_is_measured_by_itself(folders, tmp_path):
    a, b, c = folders
    knobs = [text for name, value in FAST.items() for text in ("--set", f"{name}={value}")]
    call = ["train", "--labeled", a, "--unlabeled", b, "--unlabeled", c, "--out", tmp_path / "run", *knobs]
    done = unihssl(*call, "--test-fraction", "0.25", "--json")
    result = json.loads(done.stdout)
    assert {name: part["n"] for name, part in result["sources"].items()} == {"b": 6, "c": 6}
    assert sum(p["n"] * p["accuracy"] for p in result["sources"].values()) == pytest.approx(
        result["unlabeled"]["n"] * result["unlabeled"]["accuracy"]
    )
    again = json.loads(unihssl("evaluate", tmp_path / "run", "--json").stdout)
    assert again["sources"] == result["sources"] and again["unlabeled"] == result["unlabeled"]
    shown = unihssl("evaluate", tmp_path / "run").stdout
    assert [line.split("│")[1].strip() for line in shown.splitlines() if "│" in line][-2:] == ["b", "c"]
    assert unihssl("suggest", tmp_path / "run", "--n", 36, "--out", tmp_path / "todo.csv").code == 0
    assert (tmp_path / "todo.csv").read_text().count(f"{b}/") == 18  # a quarter of each source is held out


def test_a_repeated_option_is_never_dropped_in_silence(folders, tmp_path):
    a, b, c = folders
    run, both = tmp_path / "run", ["--unlabeled", b, "--unlabeled", c]
    knobs = [text for name, value in FAST.items() for text in ("--set", f"{name}={value}")]
    assert unihssl("train", "--labeled", a, *both, "--out", run, *knobs).code == 0
    assert json.loads(unihssl("evaluate", run, *both, "--json").stdout)["unlabeled"]["n"] == 48
    assert unihssl("audit", run, "--n", 48, "--out", tmp_path / "audit.csv", *both).code == 0
    assert (tmp_path / "audit.csv").read_text().count(f"{b}/") == 24
    assert unihssl("report", run, *both).code == 0 and "b + c" in (run / "report.html").read_text()
    moved = shutil.copytree(c, tmp_path / "renamed")
    gone = unihssl("evaluate", run, "--unlabeled", b, "--unlabeled", moved, "--held-out").error
    assert "test images are gone" in gone and "of several sources, each must keep its folder's name" in gone
    twice = ["--labeled", a, "--labeled", b]
    for call in (
        ["train", *twice, *both, "--out", tmp_path / "x"],
        ["evaluate", run, *twice],
        ["data", "report", *twice],
    ):
        assert "--labeled was given 2 times; name one" in unihssl(*call).error


def test_a_source_without_classes_beside_one_with(folders, tmp_path):
    a, b, c = folders
    (tmp_path / "flat").mkdir()
    for i, path in enumerate(sorted(c.rglob("*.png"))):
        (tmp_path / "flat" / f"{i}.png").write_bytes(path.read_bytes())
    model = package.fit(str(a), [str(b), str(tmp_path / "flat")], tmp_path / "run", **FAST)
    assert model.result["sources"].keys() == {"b"}
    assert package.evaluate(tmp_path / "run")["unlabeled"] == model.result["unlabeled"]
    with pytest.raises(package.UserError, match="needs a CSV or arrays, not a folder"):
        package.fit(str(a), [str(b), str(c)], target_labels="column", **FAST)

"""The paper's data sets, laid out as published with tiny images, go through `data check` and `benchmark`."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from digit_runs import Here
from typer.testing import CliRunner

from catalog_trees import SHARED, lay_out, lay_out_real_isic, thinned
from unihssl.cli import app
from unihssl.data import catalog

NO_TABLES = pytest.mark.skipif(not (SHARED / "isic2019").is_dir(), reason=f"{SHARED}/isic2019 is not here")
KNOBS = ("max_steps=2", "batch_size=8", "image_size=16")
THIN = 20  # of VisDA's images one in so many is there


def unihssl(*args: object) -> Any:
    return CliRunner().invoke(app, [str(a) for a in args])


def tree(name: str, root: Path) -> Path:
    dataset = catalog.get(name)
    if name == "isic-2019":
        return lay_out_real_isic(root)
    if name == "visda-2017":
        synthetic, real = thinned(dataset, THIN).domains
        lay_out(root, replace(dataset, domains=(synthetic,)), suffix=".png")
        return lay_out(root, replace(dataset, domains=(real,)))
    return lay_out(root, dataset, images="images" if name == "office-31" else "")


@pytest.mark.parametrize(
    ("name", "pair", "samples"),
    [
        ("office-31", "A/W", (2817, 795)),
        ("office-home", "Pr/Rw", (4439, 4357)),
        ("visda-2017", "S/R", (7622, 2775)),
        pytest.param("isic-2019", "HAM/BCN", (10015, 12413), marks=NO_TABLES),
    ],
)
def test_check_and_benchmark(name, pair, samples, tmp_path, monkeypatch):
    """Every image as published, but for VisDA: a benchmark of all its 207,785 files takes 60 s on two cores.

    They are checked in tests/data/test_catalog.py; here is a twentieth of each class. The four take 23 s together.
    """
    monkeypatch.setattr("unihssl.experiments.launchers.make_launcher", lambda *_: Here())
    monkeypatch.setattr(
        "unihssl.data.pair.drop_trained_copies", lambda _, splits: splits
    )  # all images are links to one file
    root, out = tree(name, tmp_path), tmp_path / "runs"
    published = name != "visda-2017"
    assert (unihssl("data", "check", name, "--root", root).exit_code == 0) == published
    knobs = [part for knob in KNOBS for part in ("--set", knob)]
    options = ["--pairs", pair, "--seeds", 1, "--methods", "supervised,unihssl", "--backbone", "small_cnn", *knobs]
    done = unihssl("benchmark", name, "--root", root, "--out", out, *options)
    assert done.exit_code == 0, done.output
    assert ("not as published" in done.stderr) != published
    runs = [path.parent for path in out.glob("*/result.json")]
    assert len(runs) == 2
    for run in runs:
        split = json.loads((run / "split.json").read_text())
        assert samples == tuple(len(part["train"]) + len(part["test"]) for part in split.values())
    table = (out / "table.md").read_text()
    assert "| supervised |" in table and "| unihssl |" in table and pair in table

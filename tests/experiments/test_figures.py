"""What an experiment's figures show."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unihssl.experiments.report import draw_figures, knob_points, write_report
from unihssl.experiments.results import Record, label_records, read_records


def record(pair: str, value: float, seed: int, accuracy: float | None, knob: str = "beta", **more: Any) -> Record:
    result = {} if accuracy is None else {"pooled": {"accuracy": accuracy}}
    variant = f"{knob}={value}"
    settings = {"method": "unihssl", "preset": "paper" if "method" not in more else "", knob: value} | more
    return Record("digits", pair, "sensitivity", variant, seed, result, settings, label=variant)


def test_points_are_means_over_pairs_for_each_seed_that_has_them_all():
    records = [record("a/b", 0.5, 0, 0.6), record("b/a", 0.5, 0, 0.8), record("a/b", 0.5, 1, 0.5)]
    records += [record("b/a", 0.5, 1, 0.7), record("a/b", 0.8, 0, 0.9), record("a/b", 0.9, 0, None)]
    points = knob_points(records)
    assert {value: [pytest.approx(a) for a in seeds] for value, seeds in points.items()} == {0.5: [0.7, 0.6]}
    assert knob_points(records[4:5]) == {0.8: [pytest.approx(0.9)]}
    assert knob_points([records[0], record("b/a", 0.8, 0, 0.9)]) == {}


def test_runs_that_differ_in_more_than_the_knob_make_no_point(tmp_path):
    mixed = [record("a/b", 0.5, 0, 0.6, epochs=1), record("a/b", 0.5, 0, 0.7, epochs=2)]
    assert knob_points(label_records(mixed)) == {}
    assert draw_figures(label_records(mixed), tmp_path) == []


def learnt(folder: Path, variant: str, experiment: str = "benchmark", **last: float) -> Record:
    folder.mkdir()
    (folder / "config.yaml").write_text("method: unihssl\nseed: 0\n")
    row = {"stage": "adapt", "step": 1, "global_step": 1, "loss": 1.0, **last}
    (folder / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    return Record("digits", "a/b", experiment, variant, 0, {}, last=last, label=variant, folder=folder)


def test_learning_figures_show_every_row_that_has_pseudo_labels(tmp_path):
    records = [learnt(tmp_path / "1", "unihssl", mask_rate=0.5), learnt(tmp_path / "2", "fixmatch", mask_rate=0.4)]
    records += [learnt(tmp_path / "3", "biadapt", oracle_pseudo_accuracy=0.4), learnt(tmp_path / "4", "supervised")]
    png, svg = draw_figures(records, tmp_path)
    assert (png.name, svg.name) == ("learning-a-b.png", "learning-a-b.svg")
    text = svg.read_text()
    assert text.index("fixmatch") < text.index("biadapt") < text.index("unihssl") and "supervised" not in text
    ablation = [replace(records[0], experiment="ablation"), replace(records[1], experiment="ablation", label="w/o WMA")]
    (_, svg) = draw_figures(ablation, tmp_path)
    assert svg.name == "ablation-a-b.svg" and "w/o WMA" in svg.read_text()


def test_only_the_papers_own_values_are_marked_as_such(tmp_path):
    records = [record("a/b", 0.5, 0, 0.6), record("a/b", 0.1, 0, 0.6, knob="lr")]
    records += [record("a/b", 0.1, 0, 0.6, knob="lr", method="mcc")]
    files = draw_figures(label_records(records), tmp_path)
    texts = {file.stem: file.read_text() for file in files if file.suffix == ".svg"}
    assert set(texts) == {"sensitivity-beta", "sensitivity-lr", "sensitivity-mcc-lr"}
    assert "the paper's value, 0.8" in texts["sensitivity-beta"] and "mcc: digits, a/b" in texts["sensitivity-mcc-lr"]
    assert "paper" not in texts["sensitivity-lr"] + texts["sensitivity-mcc-lr"]


def test_without_matplotlib_there_are_tables_and_a_word_about_figures(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    kept = read_records([Path(__file__).parents[2] / "results" / "digits" / "runs"])
    assert write_report(kept, tmp_path, "benchmark").endswith("pip install 'unihssl[plots]'")
    assert {p.name for p in tmp_path.iterdir()} >= {"table.md", "table.tex", "table.csv", "table.json"}

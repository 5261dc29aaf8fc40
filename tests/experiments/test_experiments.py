"""The paper's experiments as commands: their grids, their tables, and what a kill leaves behind."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from digit_runs import Here
from typer.testing import CliRunner

from catalog_trees import lay_out, lay_out_isic
from unihssl.cli import app
from unihssl.data import catalog
from unihssl.errors import UserError
from unihssl.experiments.designs import VARIANTS, ablation_runs, sensitivity_runs, sensitivity_values
from unihssl.experiments.protocol import Protocol

OFFICE31 = catalog.get("office-31")
REPOSITORY = Path(__file__).parents[2]
TINY = ["--backbone", "small_cnn", "--set", "max_steps=2", "--set", "batch_size=8", "--set", "image_size=16"]


@pytest.fixture
def here(monkeypatch):
    monkeypatch.setattr("unihssl.experiments.launchers.make_launcher", lambda *_: Here())
    monkeypatch.setattr(
        "unihssl.data.pair.drop_trained_copies", lambda _, splits: splits
    )  # images are links to one file


@pytest.fixture(scope="module")
def office31(tmp_path_factory) -> Path:
    """Webcam and DSLR of Office-31, four images of each class."""
    domains = tuple(replace(d, counts=dict.fromkeys(OFFICE31.classes, 4)) for d in OFFICE31.domains[1:])
    return lay_out(tmp_path_factory.mktemp("data") / "office31", replace(OFFICE31, domains=domains))


def unihssl(*args: object) -> Any:
    return CliRunner().invoke(app, [str(a) for a in args])


def folders(out: Path) -> set[Path]:
    return {path.parent for path in out.glob("*/result.json")}


def test_benchmark_ablation_and_sensitivity_of_a_data_set_share_their_runs(here, office31, tmp_path):
    common = ["office31", "--root", office31, "--pairs", "D/W", "--seeds", 1, "--out", tmp_path, *TINY]
    done = unihssl("benchmark", *common, "--methods", "supervised,unihssl:paper")
    assert done.exit_code == 0, done.output
    assert "note: office-31 is not as published" in done.stderr and "[2/2] D/W unihssl:paper seed 0: " in done.stderr
    assert len(folders(tmp_path)) == 2
    table = (tmp_path / "table.md").read_text()
    assert re.search(r"\| unihssl:paper \| [*\d.]+ \(100\.0, -\d+\.\d\) \|", table), table
    assert (tmp_path / "table.tex").exists() and "D/W,pooled,accuracy,1," in (tmp_path / "table.csv").read_text()

    started = times(tmp_path)
    done = unihssl("ablation", *common, "--json")
    assert done.exit_code == 0, done.output
    assert [row["method"] for row in json.loads(done.stdout)] == list(VARIANTS)
    assert len(folders(tmp_path)) == 2 + 6 and {path: times(tmp_path)[path] for path in started} == started
    assert "w/o Prog. Mixup" in (tmp_path / "ablation.tex").read_text()

    done = unihssl("sensitivity", *common, "--knob", "beta", "--values", "0.8,0.50", "--json")
    assert done.exit_code == 0, done.output
    assert [row["method"] for row in json.loads(done.stdout)] == ["beta=0.5", "beta=0.8"]
    assert len(folders(tmp_path)) == 2 + 6 + 1

    done = unihssl("sensitivity", *common, "--set", "preset=robust", "--knob", "beta", "--values", "0.5", "--json")
    assert [row["method"] for row in json.loads(done.stdout)] == ["beta=0.5 [unihssl]"]
    assert len(folders(tmp_path)) == 2 + 6 + 1 + 1

    rebuilt = unihssl("table", tmp_path, "--format", "markdown").stdout
    figures = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"sensitivity-beta.png", "sensitivity-beta.svg"} < figures
    assert any(name.startswith("learning-") and name.endswith(".svg") for name in figures)
    for stem in ("table", "ablation", "sensitivity"):
        lines = (tmp_path / f"{stem}.md").read_text().splitlines()
        assert all(line in rebuilt for line in lines if line.startswith("| ")), stem
    (written,) = [f for f in folders(tmp_path) if len(json.loads((f / "run.json").read_text())["roles"]) == 3]
    roles = json.loads((written / "run.json").read_text())["roles"]
    assert roles[2] == {"experiment": "sensitivity", "variant": "beta=0.8"}

    written.rename(tmp_path / "renamed")  # names of folders mean nothing to tables
    assert unihssl("table", tmp_path, "--format", "markdown").stdout == rebuilt


def times(out: Path) -> dict[Path, int]:
    """When each run was last started: its lock is opened anew."""
    return {path: path.stat().st_mtime_ns for path in out.glob("*/.lock")}


def test_the_grids_of_the_paper():
    protocol = Protocol(OFFICE31)
    runs = ablation_runs(protocol, protocol.pairs(), 3)
    assert len(runs) == 7 * 6 * 3
    knobs = {run.roles[0].variant: run.knobs for run in runs}
    assert knobs["w/o WMA"]["pseudo_update"] == "previous" and knobs["w/o L_cl"]["lambda_cl"] == 0
    assert knobs["w/o Prog. Mixup"]["mixup_schedule"] == "simple"
    with pytest.raises(UserError, match="lambda_pa: the ablation varies it"):
        ablation_runs(Protocol(OFFICE31, asked={"lambda_pa": "1"}), ["A/W"], 1)
    values = sensitivity_values("", "")
    assert list(values) == ["lambda_pa", "lambda_pl", "lambda_mixup", "beta"]
    runs = sensitivity_runs(protocol, ["W/A"], 1, values)
    assert "lambda_pa=0.01" in {run.roles[0].variant for run in runs}
    (run,) = sensitivity_runs(protocol, ["W/A"], 1, sensitivity_values("lr", "1e-3"), "mcc")
    assert run.roles[0].variant == "lr=0.001" and run.knobs["method"] == "mcc"
    with pytest.raises(UserError, match="knob='lr' needs values"):
        sensitivity_values("lr", "")
    with pytest.raises(UserError, match="values needs a knob"):
        sensitivity_values("", "1")
    with pytest.raises(UserError, match="unknown setting 'lamda_pa': did you mean 'lambda_pa'"):
        sensitivity_runs(protocol, ["W/A"], 1, {"lamda_pa": [1]})


def test_missing_data_is_refused_before_anything_starts(here, tmp_path):
    done = unihssl("benchmark", "office-31", "--root", tmp_path, "--out", tmp_path / "runs", *TINY)
    assert isinstance(done.exception, UserError) and "its official source is https" in str(done.exception)
    assert not (tmp_path / "runs").exists()


def test_isic_tells_of_its_leak_and_groups_by_lesion(here, tmp_path):
    classes = catalog.get("isic-2019").classes
    rows = [
        (f"ISIC_{source}_{label}_{i}", label, f"{source}_{label}{i // 2}")
        for source in ("BCN", "HAM")
        for label in classes
        for i in range(8)
    ]
    root = lay_out_isic(tmp_path / "isic", rows, classes)
    common = ["isic-2019", "--root", root, "--pairs", "BCN/HAM", "--seeds", 1, "--methods", "supervised", *TINY]
    common += ["--set", "test_fraction=0.25"]
    done = unihssl("benchmark", *common, "--out", tmp_path / "a")
    assert done.exit_code == 0, done.output
    assert "note: isic-2019: split by image" in done.stderr
    table = (tmp_path / "a" / "table.md").read_text()
    assert "share their lesions" in table and "balanced accuracy" in table and "macro F1" in table
    done = unihssl("benchmark", *common, "--out", tmp_path / "b", "--group-by", "lesion_id")
    assert done.exit_code == 0 and "split by image" not in done.stderr, done.output
    (folder,) = folders(tmp_path / "b")
    split = json.loads((folder / "split.json").read_text())["labeled"]
    lesion = {image: group for image, _, group in rows}
    assert not {lesion[n] for n in split["train"]} & {lesion[n] for n in split["test"]}


MAIN = """
import unihssl.experiments.launchers as launchers
from digit_runs import Here
from unihssl.cli import main
launchers.make_launcher = lambda *_: Here()
main()
"""


def test_a_grid_killed_in_the_middle_repeats_no_finished_run(here, tmp_path):
    args = ["ablation", "digits", "--seeds", "1", "--out", str(tmp_path), "--set", "max_steps=10", "--json"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])}
    process = subprocess.Popen([sys.executable, "-c", MAIN, *args], env=environment, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 300
    while len(folders(tmp_path)) < 2:
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = folders(tmp_path)
    assert len(finished) < 7
    before = {path: start for path, start in times(tmp_path).items() if path.parent in finished}
    done = unihssl(*args)
    assert done.exit_code == 0, done.output
    assert [row["seeds"] for row in json.loads(done.stdout)] == [1] * 7 and len(folders(tmp_path)) == 7
    assert {path: times(tmp_path)[path] for path in before} == before


def test_the_table_of_kept_runs_is_the_one_that_was_kept():
    text = unihssl("table", REPOSITORY / "results" / "digits" / "runs", "--format", "markdown").stdout
    detail = rows_of(text[text.index("in detail") :])
    kept = (REPOSITORY / "results" / "digits" / "table.md").read_text()
    kept = rows_of(kept[kept.index("in detail") :])
    assert len(kept) >= 11 and kept == detail


def rows_of(text: str) -> dict[str, list[str]]:
    lines = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if "|" in line]
    return {name: rest for name, *rest in lines if name not in ("", "seeds", "method", "---")}


def test_table_writes_by_the_suffix_and_names_what_is_wrong(tmp_path):
    runs = REPOSITORY / "results" / "digits" / "runs"
    assert unihssl("table", runs, "--out", tmp_path / "t.tex").exit_code == 0
    assert "\\toprule" in (tmp_path / "t.tex").read_text()
    written = unihssl("table", runs, "--out", tmp_path / "new" / "folder" / "t.csv")
    assert written.exit_code == 0 and f"wrote {tmp_path / 'new' / 'folder' / 't.csv'}" in written.stderr
    assert (tmp_path / "new" / "folder" / "t.csv").read_text().startswith("dataset,")
    refused = unihssl("table", runs, "--out", tmp_path / "t.tex" / "t.csv")
    assert "t.tex: cannot be made a folder" in str(refused.exception)
    assert "simmatch" in unihssl("table", runs).stdout
    assert len(json.loads(unihssl("table", runs, "--json").stdout)) == 11 + 16  # a benchmark and an ablation
    for name in ("a", "b"):
        shutil.copytree(next(iter(folders(runs))), tmp_path / "twice" / name)
    rows = json.loads(unihssl("table", tmp_path / "twice", "--json").stdout)  # one, or two if two grids share the run
    assert rows and all(row["seeds"] == 1 for row in rows)
    printed = " ".join(unihssl("table", tmp_path / "twice", "--format", "markdown").stdout.split())
    assert f"{tmp_path / 'twice' / 'a'} and {tmp_path / 'twice' / 'b'} are equal runs: counted once" in printed
    shutil.rmtree(tmp_path / "twice")
    assert "no finished run in it" in str(unihssl("table", tmp_path).exception)
    assert "no such folder" in str(unihssl("table", tmp_path / "x").exception)
    assert "unknown format 'html'" in str(unihssl("table", runs, "--format", "html").exception)
    for wrong in (["t.json"], ["t"], ["t.md", "--format", "csv"]):
        refused = str(unihssl("table", runs, "--out", tmp_path / wrong[0], *wrong[1:]).exception)
        assert "does not fit; tables are written as .md (markdown), .csv (csv), .tex (latex)" in refused
        assert not (tmp_path / wrong[0]).exists()


def test_a_table_of_several_folders(tmp_path):
    runs = REPOSITORY / "results" / "digits" / "runs"
    whole = unihssl("table", runs, "--format", "markdown").stdout
    for i, folder in enumerate(sorted(folders(runs))):
        shutil.copytree(folder, tmp_path / "ab"[i % 2] / folder.name)
    both = [tmp_path / "a", tmp_path / "b"]
    assert unihssl("table", *both, "--format", "markdown").stdout == whole
    assert unihssl("table", *both, tmp_path, "--format", "markdown").stdout == whole
    assert unihssl("table", *both, runs, "--format", "markdown").stdout == whole  # copies count once
    copy = next(iter(folders(tmp_path / "a"))) / "result.json"
    copy.write_text(json.dumps(json.loads(copy.read_text()) | {"rule": "another"}))
    assert "one run with two results" in str(unihssl("table", *both, runs).exception)
    assert "x: no such folder" in str(unihssl("table", *both, tmp_path / "x").exception)


def test_a_call_for_fewer_runs_keeps_the_others_in_the_written_table(here, tmp_path):
    common = ["digits", "--seeds", 1, "--out", tmp_path, "--set", "max_steps=2"]
    assert unihssl("benchmark", *common, "--methods", "supervised,mcc", "--json").exit_code == 0
    done = unihssl("benchmark", *common, "--methods", "mcc")
    assert done.exit_code == 0 and "supervised" not in done.stdout and "mcc" in done.stdout, done.output
    for suffix in (".md", ".csv", ".tex", ".json"):
        text = (tmp_path / f"table{suffix}").read_text()
        assert "supervised" in text and "mcc" in text
    (own,) = [f for f in folders(tmp_path) if "method: mcc" in (f / "config.yaml").read_text()]
    shutil.copytree(own, tmp_path / "older")  # as another version of this package would have called it
    assert unihssl("benchmark", *common, "--methods", "mcc").exit_code == 0
    result = json.loads((own / "result.json").read_text()) | {"rule": "another"}
    (tmp_path / "older" / "result.json").write_text(json.dumps(result))
    assert unihssl("benchmark", *common, "--methods", "mcc").exit_code == 0
    assert "one run with two results" in str(unihssl("benchmark", *common, "--methods", "supervised").exception)

"""`unihssl benchmark`: a table, no run twice, a failure that stops nothing, and what each data set is run with."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from digit_runs import Here

from unihssl.cli import main
from unihssl.data import catalog
from unihssl.errors import UserError
from unihssl.experiments.protocol import Protocol
from unihssl.methods.recipe import resolve


def arguments(out: Path, *options: str) -> list[str]:
    return ["benchmark", "digits", "--out", str(out), "--seeds", "1", *options, "--set", "max_steps=2"]


@pytest.fixture
def benchmark_here(monkeypatch, capsys) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command in this process, its runs too."""
    monkeypatch.setattr("unihssl.experiments.launchers.make_launcher", lambda *_: Here())

    def call(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["unihssl", *arguments(out, *options)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code
        return subprocess.CompletedProcess(sys.argv, code or 0, *capsys.readouterr())

    return call


def test_a_benchmark_prints_its_table_and_never_runs_a_finished_run_again(tmp_path, benchmark_here):
    command = [sys.executable, "-m", "unihssl", *arguments(tmp_path, "--methods", "supervised,mcc", "--json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = json.loads(done.stdout)
    assert [row["method"] for row in rows] == ["supervised", "mcc"] and all(row["seeds"] == 1 for row in rows)
    assert all(0 <= row[part] <= 100 for row in rows for part in ("pooled", "labeled", "unlabeled"))
    assert "| mcc | 1 |" in (tmp_path / "table.md").read_text()
    results = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/result.json")}
    assert len(results) == 2
    again = benchmark_here(tmp_path, "--methods", "supervised,mcc,fixmatch", "--set", "lr=0.09", "--json")
    assert [row["method"] for row in json.loads(again.stdout)] == ["supervised", "fixmatch", "mcc"]
    assert {path: path.stat().st_mtime_ns for path in results} == results
    assert len(list(tmp_path.glob("*/result.json"))) == 3
    assert "fixmatch with flip=False, lr=0.09" in (tmp_path / "table.md").read_text()  # as asked for


def test_a_failed_run_is_named_and_stops_no_other(tmp_path, benchmark_here):
    done = benchmark_here(tmp_path, "--methods", "supervised,mcc", "--set", "lr=1e30", "--set", "warm=no")
    assert done.returncode == 1 and "error: unknown setting 'warm'" in done.stderr
    done = benchmark_here(tmp_path, "--methods", "supervised,mcc", "--set", "lr=1e30")
    assert done.returncode == 1 and done.stderr.count("became NaN or infinite") >= 2
    assert "error: 2 of 2 runs failed" in done.stderr.splitlines()[-1]


def test_unknown_pairs_methods_data_sets_and_schedules_are_refused():
    digits = Protocol(catalog.get("digits"))
    with pytest.raises(UserError, match="digits: no domain 'svhn'"):
        digits.pairs("mnist/svhn")
    with pytest.raises(UserError, match="the paper has no pairs of it"):
        digits.pairs("paper")
    with pytest.raises(UserError, match="did you mean 'mcc'"):
        digits.methods("mc")
    with pytest.raises(UserError, match=r"unknown schedule 'original'.*is a preset of .*preset='original'"):
        Protocol(catalog.get("digits"), schedule="original").knobs("mcc")


def test_what_a_data_set_is_benchmarked_on():
    digits, office, visda, pacs = (Protocol(catalog.get(name)) for name in ("digits", "office31", "visda", "pacs"))
    assert digits.pairs() == ["mnist/uci"] and "usps/uci" in digits.pairs("all")
    assert office.pairs() == office.pairs("paper") == ["W/A", "A/W", "A/D", "D/A", "D/W", "W/D"]
    assert office.pairs("amazon/webcam, A/W,D/A") == ["A/W", "D/A"]
    assert len(pacs.pairs()) == 12 and len(Protocol(catalog.get("office-home")).pairs()) == 12
    assert len(office.methods("paper")) == 8 and office.methods() == [*office.methods("paper"), "unihssl"]
    assert "unihssl:paper" in digits.methods() and "mcc" in digits.methods() and "mcc" not in office.methods()
    assert office.knobs("unihssl")["dataset"] == "office-31" and "dataset" not in pacs.knobs("unihssl")
    assert visda.knobs("unihssl")["backbone"] == "resnet101"
    assert resolve(office.knobs("unihssl"))[0].backbone == "resnet50"
    asked = Protocol(catalog.get("visda"), asked={"backbone": "resnet50", "epochs": "3"})
    assert asked.knobs("unihssl")["backbone"] == "resnet50" and asked.knobs("unihssl")["epochs"] == "3"


def test_schedules_say_how_long_to_train():
    def length(schedule: str, method: str) -> tuple[int, int, int]:
        settings, _ = resolve(Protocol(catalog.get("office-31"), schedule=schedule).knobs(method))
        return settings.epochs, settings.steps, settings.max_steps

    assert length("", "unihssl") == length("paper", "unihssl") == (100, 0, 0)
    assert length("paper", "cdan")[1:] == (20_000, 0)  # as its authors have it
    assert length("fast", "cdan") == length("fast", "unihssl") == (20, 0, 500)
    routed = resolve(Protocol(catalog.get("office-31"), schedule="fast").knobs("mcc+sup"))[1]
    assert routed.sup_epochs == 20
    assert resolve(Protocol(catalog.get("digits")).knobs("cdan"))[0].epochs == 20


def test_a_split_that_leaks_is_told():
    isic = catalog.get("isic-2019")
    assert "set group_by to lesion_id" in Protocol(isic).cautions()[0]
    assert Protocol(isic, asked={"group_by": "lesion_id"}).cautions() == []
    assert Protocol(catalog.get("office-31")).cautions() == []
    for asked in ({}, {"group_by": "writer"}):  # grouping is no cure here
        assert "first chosen on the test digits" in Protocol(catalog.get("digits"), asked=asked).cautions()[0]

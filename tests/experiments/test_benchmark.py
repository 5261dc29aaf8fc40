"""`unihssl benchmark digits`: a table, no run twice, a failure that stops nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from unihssl.errors import UserError
from unihssl.experiments.benchmark import benchmark_runs, load_digits_pair, markdown, summarise
from unihssl.experiments.grid import Run


def benchmark(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unihssl", "benchmark", "digits", "--out", str(out), "--seeds", "1", *options]
    return subprocess.run([*command, "--set", "max_steps=2"], capture_output=True, text=True, timeout=300)


def test_a_benchmark_prints_its_table_and_never_runs_a_finished_run_again(tmp_path):
    done = benchmark(tmp_path, "--methods", "supervised,mcc", "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    rows = json.loads(done.stdout)
    assert [row["method"] for row in rows] == ["supervised", "mcc"] and all(row["seeds"] == 1 for row in rows)
    assert all(0 <= row[part] <= 100 for row in rows for part in ("pooled", "labeled", "unlabeled"))
    assert "| mcc | 1 |" in (tmp_path / "table.md").read_text()
    results = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/result.json")}
    assert len(results) == 2
    again = benchmark(tmp_path, "--methods", "supervised,mcc,fixmatch", "--set", "lr=0.01", "--json")
    assert [row["method"] for row in json.loads(again.stdout)] == ["supervised", "mcc", "fixmatch"]
    assert {path: path.stat().st_mtime_ns for path in results} == results
    assert len(list(tmp_path.glob("*/result.json"))) == 3


def test_a_failed_run_is_named_and_stops_no_other(tmp_path):
    done = benchmark(tmp_path, "--methods", "supervised,mcc", "--set", "lr=1e30", "--set", "warm=no")
    assert done.returncode == 1 and "error: unknown setting 'warm'" in done.stderr
    done = benchmark(tmp_path, "--methods", "supervised,mcc", "--set", "lr=1e30")
    assert done.returncode == 1 and done.stderr.count("became NaN or infinite") >= 2
    assert "error: 2 of 2 runs failed" in done.stderr.splitlines()[-1]


def test_unknown_pairs_methods_and_data_sets_are_refused():
    with pytest.raises(UserError, match="unknown pair 'mnist/svhn'"):
        load_digits_pair("mnist/svhn")
    with pytest.raises(UserError, match="did you mean 'mcc'"):
        benchmark_runs(["mnist/uci"], ["mc"], 1, {})


def test_means_and_deviations_over_seeds():
    def run(seed: int, accuracy: float) -> Run:
        parts = {part: {"accuracy": accuracy} for part in ("pooled", "labeled", "unlabeled")}
        return Run("mnist/uci", {"method": "mcc", "seed": seed}, parts | {"domain_accuracy": 0.75})

    (row,) = summarise([run(0, 0.5), run(1, 0.7), Run("mnist/uci", {"method": "mcc", "seed": 2}, failure="died")])
    assert (row["seeds"], row["pooled"], row["domain_accuracy"]) == (2, pytest.approx(60), 75)
    assert row["pooled_std"] == pytest.approx(200**0.5)
    assert "| mcc | 2 | 60.0 ± 14.1 | 60.0 ± 14.1 | 60.0 ± 14.1 | 75.0 | - |" in markdown([row])
    (single,) = summarise([run(0, 0.5)])
    assert "| mcc | 1 | 50.0 | 50.0 | 50.0 | 75.0 | - |" in markdown([single])

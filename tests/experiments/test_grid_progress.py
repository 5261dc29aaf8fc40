"""What a grid says while it trains."""

import json
import os

import pytest
from digit_runs import digit_runs
from typer.testing import CliRunner

from unihssl.cli import app
from unihssl.cli.grid_progress import GridProgress
from unihssl.errors import UserError
from unihssl.experiments import schedules


def test_the_line_names_what_has_begun_and_how_far_it_is(tmp_path):
    runs = digit_runs(["supervised", "mcc"], 2, {})
    progress = GridProgress(runs, tmp_path)
    assert progress.line() == "0 of 4 done; starting"
    folders = [run.folder(tmp_path) for run in runs]
    for folder in folders[:3]:
        folder.mkdir()
        (folder / "config.yaml").touch()
    (folders[0] / "result.json").write_text("{}")
    row = {"stage": "supervised", "step": 40, "global_step": 40}
    (folders[1] / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    folders[3].mkdir()
    (folders[3] / "config.yaml").touch()
    os.utime(folders[3] / "config.yaml", (1, 1))  # left by a grid that was stopped, and not begun again yet
    progress.end(runs[0])
    progress._start -= 100
    names = [f"{run.pair} {run.roles[0].variant} seed {run.knobs['seed']}" for run in runs]
    assert progress.line() == f"1 of 4 done; about 0:05:00 left; {names[1]} (supervised, step 40); {names[2]}"


def test_mistakes_common_to_all_runs_are_told_before_any():
    with pytest.raises(UserError, match=r"nowhere.pt: no such weights file"):
        CliRunner().invoke(app, ["benchmark", "digits", "--weights", "nowhere.pt"], catch_exceptions=False)
    message = r"unknown schedule 'robust'.*'robust' is a preset of unihssl .preset='robust'"
    with pytest.raises(UserError, match=message):
        schedules.get("robust")

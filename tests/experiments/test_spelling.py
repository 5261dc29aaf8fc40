"""Errors name settings; the command line spells them as options. Workers learn how many runs share their machine."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from digit_runs import LOAD, Here, digit_runs

from unihssl.cli.options import as_options
from unihssl.errors import Setting, UserError, python_spelling, resume_call
from unihssl.experiments.runner import _train, run_grid


@pytest.mark.parametrize(
    ("part", "spelled"),
    [
        (Setting("labeled"), "--labeled"),
        (Setting("seeds", 3), "--seeds 3"),
        (Setting("gpus_per_run", 0.5), "--gpus-per-run 0.5"),
        (Setting("resume", True), "--resume"),
        (Setting("held_out", True), "--held-out"),
        (Setting("beta"), "--set beta"),
        (Setting("lr", 1e7), "--set lr=1e+07"),
        (Setting("cache", "my folder"), "--set cache='my folder'"),
        (resume_call(Path("my runs/first")), "unihssl train --resume --out 'my runs/first'"),
    ],
)
def test_a_part_of_a_message_on_the_command_line(part, spelled):
    assert as_options(part) == spelled


def test_failures_of_a_grid_are_spelled_as_asked_for(tmp_path, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise UserError(f"choose another {Setting('lr', 0.1)}")

    monkeypatch.setattr("unihssl.pipeline.train.train", fail)
    runs = digit_runs(["supervised"], 1, {})
    for spell, text in ((python_spelling, "choose another lr=0.1"), (as_options, "choose another --set lr=0.1")):
        assert [run.failure for run in run_grid(runs, LOAD, tmp_path, Here(), spell)] == [text]


def test_training_is_told_how_many_runs_share_the_machine(tmp_path, monkeypatch):
    given = {}

    def train(*_: object, **options: object) -> SimpleNamespace:
        given.update(options)
        return SimpleNamespace(result={"rule": "argmax"})

    monkeypatch.setattr("unihssl.pipeline.train.train", train)
    (run,) = digit_runs(["supervised"], 1, {})
    assert _train(run, 3, LOAD, tmp_path) == {"rule": "argmax"} and given["concurrent_runs"] == 3

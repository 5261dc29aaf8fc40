"""What a run writes down, and what of it outlives a kill."""

import json
import time

import pytest
import torch

from unihssl import UserError
from unihssl.config import Settings
from unihssl.run_folder import RunFolder
from unihssl.seals import unsealed
from unihssl.training.callbacks import TensorBoard
from unihssl.training.fabric import make_fabric
from unihssl.training.log import Meter


def row(step: int, **values: float) -> dict:
    place = {"stage": "adapt", "epoch": 1, "step": step, "global_step": step, "lr": 0.5}
    return {**place, **values, "terms": {}, "stats": {"mask_rate": 0.5}}


def test_meter_gives_means_since_the_last_reading():
    meter, fabric = Meter(), make_fabric(Settings(device="cpu"))
    assert meter.read(fabric) == {}
    for loss, rate in ((1.0, 0), (2.0, 1), (6.0, 1)):
        meter.add({"loss": torch.tensor(loss, dtype=torch.float64), "mask_rate": torch.tensor(rate)})
    assert meter.read(fabric) == {"loss": 3.0, "mask_rate": pytest.approx(2 / 3)}
    meter.add({"loss": torch.tensor(8.0)})
    assert meter.read(fabric) == {"loss": 8.0}
    assert meter.read(fabric) == {}


def test_meter_does_not_hide_a_nan():
    meter = Meter()
    for loss in (1.0, float("nan"), 1.0):
        meter.add({"loss": torch.tensor(loss)})
    assert meter.read(make_fabric(Settings(device="cpu")))["loss"] != 1.0


def test_metrics_are_lines_of_json(tmp_path):
    folder = RunFolder(tmp_path)
    for step in (1, 2):
        folder.append_metrics(row(step, loss=0.25))
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [unsealed(json.loads(line)) for line in lines] == [row(1, loss=0.25), row(2, loss=0.25)]


@pytest.mark.parametrize("torn", ["", '{"stage": "adapt", "epo', '{"stage": "adapt", "global_step": 2', "\x00\x00"])
def test_a_resumed_log_drops_what_came_after_the_checkpoint(tmp_path, torn):
    folder = RunFolder(tmp_path)
    for step in (1, 2, 3, 4):
        folder.append_metrics(row(step))
    with folder.metrics.open("a") as file:
        file.write(torn)
    assert [r["global_step"] for r in folder.read_metrics()] == [1, 2, 3, 4]
    folder.keep_metrics(2)
    folder.append_metrics(row(3, loss=1.0))
    kept = [unsealed(json.loads(line)) for line in folder.metrics.read_text().splitlines()]
    assert kept == [row(1), row(2), row(3, loss=1.0)]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("0.25", "0.26", 1),
        lambda text: text.replace('"stage"', '"stag', 1),
        lambda text: text[text.index("\n") + 1 :],
        lambda text: text[: text.index("\n") + 1],
    ],
)
def test_a_log_that_changed_since_the_checkpoint_is_refused_until_it_is_deleted(tmp_path, damage):
    folder = RunFolder(tmp_path)
    for step in (1, 2):
        folder.append_metrics(row(step, loss=0.25))
    folder.metrics.write_text(damage(folder.metrics.read_text()))
    with pytest.raises(UserError, match=r"metrics\.jsonl: damaged .*delete it to resume without"):
        folder.keep_metrics(2, rows=2)
    folder.metrics.unlink()
    assert folder.keep_metrics(2, rows=2) == 0


def test_readings_between_reports_outlive_a_checkpoint():
    meter, resumed, fabric = Meter(), Meter(), make_fabric(Settings(device="cpu"))
    assert meter.state() is None
    meter.add({"loss": torch.tensor(1.0)})
    resumed.restore(meter.state(), fabric.device)
    resumed.add({"loss": torch.tensor(4.0)})
    assert resumed.read(fabric) == {"loss": 2.5}
    assert resumed.state() is None


def test_tensorboard_shows_a_resumed_run_once(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for done, steps in ((0, (1, 2, 3)), (1, (2, 3, 4))):
        board = TensorBoard()
        board.on_start(tmp_path, {}, done)
        for step in steps:
            board.on_log(row(step, loss=float(10 * done + step)))
        board.on_end(None)
        time.sleep(1.1)  # files of events are ordered by the second in their names
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("adapt/loss")] == [(1, 1), (2, 12), (3, 13), (4, 14)]
    assert [e.step for e in events.Scalars("adapt/stats/mask_rate")] == [1, 2, 3, 4]

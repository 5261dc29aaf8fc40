"""What a run writes down, and what of it outlives a kill."""

import json

import pytest
import torch

from unihssl.config import Settings
from unihssl.run_folder import RunFolder
from unihssl.training.fabric import make_fabric
from unihssl.training.log import Meter, MetricsLog


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
    log = MetricsLog(RunFolder(tmp_path), 0, tensorboard=False)
    for step in (1, 2):
        log.write(row(step, loss=0.25))
    log.close()
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [row(1, loss=0.25), row(2, loss=0.25)]
    assert not (tmp_path / "tensorboard").exists()


@pytest.mark.parametrize("torn", ["", '{"stage": "adapt", "epo', '{"stage": "adapt", "global_step": 2', "\x00\x00"])
def test_a_resumed_log_drops_what_came_after_the_checkpoint(tmp_path, torn):
    log = MetricsLog(RunFolder(tmp_path), 0, tensorboard=False)
    for step in (1, 2, 3, 4):
        log.write(row(step))
    with log.folder.metrics.open("a") as file:
        file.write(torn)
    assert [r["global_step"] for r in RunFolder(tmp_path).read_metrics()] == [1, 2, 3, 4]
    resumed = MetricsLog(RunFolder(tmp_path), 2, tensorboard=False)
    resumed.write(row(3, loss=1.0))
    assert [json.loads(line) for line in resumed.folder.metrics.read_text().splitlines()] == [
        row(1),
        row(2),
        row(3, loss=1.0),
    ]


def test_tensorboard_shows_a_resumed_run_once(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for done, steps in ((0, (1, 2, 3)), (1, (2, 3, 4))):
        log = MetricsLog(RunFolder(tmp_path), done, tensorboard=True)
        for step in steps:
            log.write(row(step, loss=float(10 * done + step)))
        log.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("adapt/loss")] == [(1, 1), (2, 12), (3, 13), (4, 14)]
    assert [e.step for e in events.Scalars("adapt/stats/mask_rate")] == [1, 2, 3, 4]

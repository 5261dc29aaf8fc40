"""The time that a run will take, said after its first steps."""

import itertools

import pytest
import torch

import unihssl
from unihssl import methods
from unihssl.errors import worded
from unihssl.training import forecast
from unihssl.training.forecast import Forecast, duration
from unihssl.training.loop import Trainer

CPU = torch.device("cpu")


def steps(monkeypatch, plan: Forecast, seconds: float, stage: int = 0) -> list[str]:
    """The lines said in the first twenty steps, each of this length."""
    ticks = itertools.count(step=seconds)
    now = [0.0]
    monkeypatch.setattr(forecast.time, "monotonic", lambda: now[0])
    lines = []
    for _ in range(20):
        now[0] = next(ticks)
        lines.append(plan.step(stage))
    return [line for line in lines if line]


def test_stages_count_by_their_costs(monkeypatch) -> None:
    lines = steps(monkeypatch, Forecast([10.0, 40.0], [100, 50], CPU, frozen=False), 2.0)
    assert lines == ["training will take about 10 minutes (150 steps)"]  # 100 * 2 s + 50 * 8 s


def test_long_runs_on_a_cpu_get_a_way_out(monkeypatch) -> None:
    (line,) = steps(monkeypatch, Forecast([1.0], [1000], CPU, frozen=False), 20.0)
    assert line.startswith("training will take about 5.6 hours") and "train='head'" in worded(line)
    for known in ({"frozen": True}, {"frozen": False, "pretrained": False}):
        (line,) = steps(monkeypatch, Forecast([1.0], [1000], CPU, **known), 20.0)
        assert "train=" not in worded(line) and "max_steps=500" in worded(line)


def test_the_unit_suits() -> None:
    assert [duration(s) for s in (0.1, 89, 91, 3600, 7200, 90_000, 200_000)] == [
        *("1 second", "89 seconds", "2 minutes", "60 minutes", "2.0 hours", "25.0 hours", "2.3 days")
    ]


COSTS = {  # forward passes of a step with batches of 8: three for a sample that is trained on, one for one that is not
    "supervised": [3 * 8],
    "unihssl": [3 * 8, 3 * 4 * 8],  # labeled, weak, mixed, strong
    "fixmatch": [3 * 8 + 3 * 8 + 8],  # the weak view without a gradient
    "mcc+sup": [3 * 16, 3 * 8, 3 * 16],
}


@pytest.mark.parametrize("method", COSTS)
def test_a_rehearsal_counts_every_stage(method, image_arrays, tmp_path, monkeypatch) -> None:
    seen = []
    build = Trainer.__init__

    def note_costs(self, *arguments, **options) -> None:
        build(self, *arguments, **options)
        seen.append(self.costs)
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "__init__", note_costs)
    with pytest.raises(KeyboardInterrupt):
        unihssl.fit(*image_arrays, tmp_path / "run", method=method, backbone="small_cnn", batch_size=8)
    assert seen == [COSTS[method]]
    assert method in methods.available()


@pytest.mark.filterwarnings("ignore")
def test_a_method_that_looks_into_its_backbone_trains(image_arrays, monkeypatch) -> None:
    """What comes before training takes a step without one."""
    mcc = methods.get("mcc")
    step = mcc.step

    def looking(self, batch):
        losses = step(self, batch)
        losses.log("weight", next(self.network.encoder.layers.parameters()).mean())
        return losses

    monkeypatch.setattr(mcc, "step", looking)
    model = unihssl.fit(*image_arrays, method="mcc", backbone="small_cnn", max_steps=2, batch_size=8)
    assert model.result["labeled"]["n"]

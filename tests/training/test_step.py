"""When a step is captured, when it is not, and what the user is told; with a graph that only counts."""

import warnings

import pytest
import torch

from unihssl.training import step as module
from unihssl.training.step import WARM_UP, Capture, Step


class CountingStep(Step):
    """Neither data nor GPU: every way to take a step is noted."""

    def __init__(self, capture: Capture, failure: str = "", says: tuple[str, ...] = ()) -> None:
        self.optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)
        self.note, self.notes, self.taken = lambda text: self.notes.append(text), [], []
        self._capture, self._to_warm_up, self._graph, self._encoders = capture, WARM_UP, None, None
        self.data, self.method, self.kind, self._kind = self, torch.nn.Module(), "", ""
        self.failure, self.says = failure, says

    def settle(self) -> None:
        self.taken.append("settled")

    def _run(self) -> None:
        self.taken.append("run")
        for text in self.says:
            warnings.warn(text, stacklevel=1)

    def _captured(self):
        if self.failure:
            raise RuntimeError(self.failure)
        self.taken.append("captured")
        return self

    def replay(self) -> None:
        self.taken.append("replayed")


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(module.torch.cuda, "set_sync_debug_mode", lambda mode: None)


def take(step: CountingStep, steps: int = 6) -> list[str]:
    for _ in range(steps):
        step()
    return step.taken


def test_some_steps_run_as_they_are_and_one_graph_is_replayed():
    step = CountingStep("step")
    assert take(step) == ["run"] * WARM_UP + ["captured"] + ["replayed"] * 3 and not step.notes


def test_without_capture_every_step_runs():
    assert take(CountingStep("nothing")) == ["run"] * 6


def test_passes_are_captured_once_with_nothing_else_under_way():
    step = CountingStep("network")
    assert take(step) == ["run"] * WARM_UP + ["settled"] + ["run"] * 3 and step._encoders


def test_each_kind_of_step_is_captured_by_itself():
    step, once = CountingStep("step"), take(CountingStep("step"), WARM_UP + 2)
    step.kind = "apart"
    assert take(step, WARM_UP + 2) == once
    step.kind = "joint"
    assert take(step, WARM_UP + 2) == 2 * once


def test_a_network_that_cannot_be_replayed_is_not_tried_again_for_another_kind_of_step():
    step = CountingStep("network")
    take(step, WARM_UP + 1)
    step.kind = "joint"
    assert take(step, WARM_UP + 2).count("settled") == 1


def test_a_step_that_waits_is_not_captured_and_the_user_is_told_once():
    step = CountingStep("step", says=("called a synchronizing CUDA operation (somewhere)",) * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert take(step) == ["run"] * WARM_UP + ["settled"] + ["run"] * 3
    because = "the method's step waits for the GPU; only passes through the network are replayed"
    assert step.notes == [f"steps are not replayed as a CUDA graph, which is slower: {because}"]


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_other_warnings_of_the_watched_step_are_not_swallowed():
    step = CountingStep("step", says=("Synchronization debug mode is a prototype", "mind the gap"))
    with pytest.warns(UserWarning, match="mind the gap"):
        take(step, WARM_UP)
    assert not step.notes


def test_a_failed_capture_costs_speed_not_the_run():
    step = CountingStep("step", failure="CUDA out of memory. Tried\nto allocate")
    assert take(step) == ["run"] * 6
    assert step.notes == ["steps are not replayed as a CUDA graph, which is slower: CUDA out of memory. Tried"]

"""The short form of `make faults`: some points of the cheap commands, some damage, and what happens from outside."""

import numpy as np
import pytest
from damage import KINDS
from injector import ACTIONS
from situations import SITUATIONS

from faults import Bench, Case


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Bench(tmp_path_factory.mktemp("faults") / "work")


def some(cases: list[Case], count: int) -> list[Case]:
    return [cases[i] for i in np.random.default_rng(0).choice(len(cases), count, replace=False)]


@pytest.mark.parametrize("action", [*ACTIONS, "SIGTERM"])
def test_a_run_survives_a_fault(bench, action):
    for case in some([case for case in bench.cases("run") if case.action == action], 1):
        assert bench.check(case, 0) == [], case


def test_a_run_that_is_stopped_after_its_result_leaves_no_checkpoint(bench):
    last = bench.reference("run").points.index("unlink new/checkpoint.pt") + 1
    assert bench.check(Case("run", last, "SIGTERM"), 0) == []


@pytest.mark.parametrize("name", ["cache", "labels", "save"])
def test_other_commands_survive_faults(bench, name):
    for case in some(bench.cases(name), 2):
        assert bench.check(case, 0) == [], case


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_noticed(bench, kind):
    for number in range(5):
        assert bench.check(Case("damage", number, kind), 1) == []


@pytest.mark.parametrize("name", SITUATIONS)
def test_disturbances_from_outside(bench, name):
    assert bench.check(Case("situation", 0, name), 0) == []

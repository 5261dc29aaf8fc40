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


@pytest.mark.parametrize("action", [*ACTIONS, "SIGTERM"])
def test_a_run_survives_a_fault_anywhere(bench, action):
    cases = [case for case in bench.cases("run") if case.action == action]
    for case in np.random.default_rng(ACTIONS.index(action) if action in ACTIONS else 9).choice(len(cases), 3, False):
        assert bench.check(cases[case], 0) == [], cases[case]


@pytest.mark.parametrize("name", ["cache", "predict", "labels", "save"])
def test_other_commands_survive_faults(bench, name):
    cases = bench.cases(name)
    for case in np.random.default_rng(0).choice(len(cases), 4, False):
        assert bench.check(cases[case], 0) == [], cases[case]


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_noticed(bench, kind):
    for number in range(10):
        assert bench.check(Case("damage", number, kind), 1) == []


@pytest.mark.parametrize("name", SITUATIONS)
def test_disturbances_from_outside(bench, name):
    assert bench.check(Case("situation", 0, name), 0) == []

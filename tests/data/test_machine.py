"""Memory and CPUs, as limits leave them."""

import os

import pytest

from unihssl.data import machine

GIB = 2**30


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """A machine whose control groups are a folder of ours: `groups(membership, {file: content})`."""
    monkeypatch.setattr(machine, "CGROUPS", tmp_path)
    monkeypatch.setattr(machine, "MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(os, "sysconf", lambda name: 2**40 if name == "SC_PHYS_PAGES" else 1)

    def make(membership: str, files: dict[str, str]) -> int:
        (tmp_path / "membership").write_text(membership)
        for name, content in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(content)
        return machine.free_memory()

    return make


def limits(folder: str, limit: object, used: int, inactive: int, version: int = 2) -> dict[str, str]:
    names = ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    key = "inactive_file" if version == 2 else "total_inactive_file"
    files = {names[0]: f"{limit}\n", names[1]: f"{used}\n", "memory.stat": f"anon 5\n{key} {inactive}\n"}
    return {f"{folder}/{name}": content for name, content in files.items()}


def test_without_limits_it_is_what_the_machine_has(groups):
    free = groups("0::/\n", limits(".", "max", 0, 0))
    assert 2**20 < free <= machine.free_memory() * 1.5


def test_the_tightest_group_above_the_process_counts(groups):
    files = limits("job", 3 * GIB, 1 * GIB, 0) | limits("job/step", 8 * GIB, 1 * GIB, 0) | limits(".", "max", 0, 0)
    assert groups("0::/job/step\n", files) == 2 * GIB


def test_pages_that_can_be_given_back_count_as_free(groups):
    assert groups("0::/job\n", limits("job", 4 * GIB, 3 * GIB, 2 * GIB)) == 3 * GIB


def test_the_first_version_of_control_groups_counts_too(groups):
    files = limits("memory/slurm/job_7", 2 * GIB, GIB, 0, version=1)
    assert groups("5:cpu,cpuacct:/\n4:memory:/slurm/job_7\n", files) == GIB


def test_a_group_that_cannot_be_seen_from_inside_is_passed_over(groups):
    assert groups("0::/far/away\n", limits(".", 2 * GIB, GIB, 0)) == GIB


def test_over_the_limit_nothing_is_free(groups):
    assert groups("0::/\n", limits(".", GIB, 2 * GIB, 0)) == 0


def test_cpus_are_those_of_this_process(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7}, raising=False)
    assert machine.cpus() == 3

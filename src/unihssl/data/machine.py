"""How much memory and how many CPUs this process may use."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
UNKNOWN_MEMORY = 8 * 2**30


def cpus() -> int:
    """Number of CPUs this process may run on; a batch system may allow it four of a hundred."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory() -> int:
    """Bytes of host memory this process may still use, by the machine and by all limits it runs under."""
    free = [_installed_memory()]
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free.append(1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")))
    return max(0, min([*free, *_cgroup_memory()]))


def _installed_memory() -> int:
    """Bytes of memory in the machine; where the system does not tell (Windows), a modest guess."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return UNKNOWN_MEMORY


def _cgroup_memory() -> Iterator[int]:
    """Free bytes in each control group of this process, from its own up to the root."""
    with suppress(OSError, ValueError):
        for line in MEMBERSHIP.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:  # cgroup version 2
                yield from _up(CGROUPS, path, "memory.max", "memory.current", "inactive_file")
            elif "memory" in controllers.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
                yield from _up(CGROUPS / "memory", path, *names)


def _up(root: Path, path: str, limit: str, used: str, reclaimable: str) -> Iterator[int]:
    group = root / path.lstrip("/")
    for folder in (group, *(p for p in group.parents if p.is_relative_to(root))):
        with suppress(OSError, ValueError):  # the group is not visible here, or "max": no limit
            allowed = int((folder / limit).read_text())
            statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            # The kernel takes back inactive pages of files when memory is needed.
            yield allowed - int((folder / used).read_text()) + int(statistics.get(reclaimable, 0))

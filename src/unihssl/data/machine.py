"""What this process may take of the machine: memory, and CPUs."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def cpus() -> int:
    """Those this process may run on; a batch system may have given it four of a hundred."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory() -> int:
    """Bytes of host memory that may still be taken: by the machine, and by every limit this process is under."""
    free = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free.append(1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")))
    return max(0, min([*free, *_rooms()]))


def _rooms() -> Iterator[int]:
    """What the control groups of this process, from its own up to the root, leave of their limits."""
    with suppress(OSError, ValueError):
        for line in MEMBERSHIP.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:  # version 2
                yield from _up(GROUPS, path, "memory.max", "memory.current", "inactive_file")
            elif "memory" in controllers.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
                yield from _up(GROUPS / "memory", path, *names)


def _up(root: Path, path: str, limit: str, used: str, reclaimable: str) -> Iterator[int]:
    group = root / path.lstrip("/")
    for folder in (group, *(p for p in group.parents if p.is_relative_to(root))):
        with suppress(OSError, ValueError):  # no such group seen from here, or "max": no limit
            allowed = int((folder / limit).read_text())
            statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            # Pages of files that nobody has looked at lately are given back when somebody needs memory.
            yield allowed - int((folder / used).read_text()) + int(statistics.get(reclaimable, 0))

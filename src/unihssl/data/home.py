"""Where decoded samples live while a run trains: on the GPU, in host memory, or on the disk."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from unihssl.data.store import Store
from unihssl.errors import UserError

Home = Literal["gpu", "host", "disk"]
SHARE = 0.5  # of the memory that is free; the rest is for the network and for everybody else
PLACES = {"gpu": "on the GPU", "host": "in host memory", "disk": "on the disk, memory-mapped"}


def settle(stores: Sequence[Store], device: torch.device, wish: str) -> tuple[list[Store], str]:
    """The stores where they will live, and a line that says so. All go to the nearest place that holds them."""
    size = sum(store.samples.nbytes for store in stores)
    home = choose_home(size, device, wish, on_disk=any(store.on_disk for store in stores))
    if home == "gpu":
        settled = [replace(store, samples=store.samples.to(device), on_disk=False) for store in stores]
    elif home == "host":
        settled = [
            replace(store, samples=store.samples.clone(), on_disk=False) if store.on_disk else store for store in stores
        ]
    else:
        settled = list(stores)
    return settled, f"{size / 2**30:.2f} GiB of decoded samples, {PLACES[home]}"


def choose_home(size: int, device: torch.device, wish: str, *, on_disk: bool) -> Home:
    """The nearest place with room for `size` bytes, or the one asked for."""
    if wish == "gpu" and device.type != "cuda":
        raise UserError("home=gpu, but this run is on the CPU: use home=host, disk or auto")
    if wish == "disk" and not on_disk:
        raise UserError(
            "home=disk, but these samples are not on the disk in decoded form: they are arrays, or the cache is off "
            "or cannot be written (--set cache=FOLDER)"
        )
    if wish in ("host", "disk"):
        return "host" if wish == "host" else "disk"
    room = SHARE * torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
    if wish == "gpu" and size > room / SHARE:
        raise UserError(
            f"home=gpu, but {size / 2**30:.1f} GiB of decoded samples do not fit the GPU's {room / SHARE / 2**30:.1f} "
            "GiB of free memory: use home=auto, or a smaller --set image_size"
        )
    if wish == "gpu" or size <= room:
        return "gpu"
    return "disk" if on_disk and size > SHARE * free_memory() else "host"


def free_memory() -> int:
    """Bytes of host memory that may still be taken: by the machine, and by the limit set for this container."""
    free = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free.append(1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")))
    with suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        inactive = _statistic(group / "memory.stat", "inactive_file")
        used = int((group / "memory.current").read_text()) - inactive
        free.append(int((group / "memory.max").read_text()) - used)  # "max": no limit, a ValueError
    return max(0, min(free))


def _statistic(path: Path, name: str) -> int:
    return next((int(line.split()[1]) for line in path.read_text().splitlines() if line.startswith(name + " ")), 0)

"""Where decoded samples live while a run trains: on the GPU, in host memory, or on the disk."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch

from unihssl.data.machine import free_memory
from unihssl.data.store import Store
from unihssl.errors import UserError

Home = Literal["gpu", "host", "disk"]
NEIGHBOURS = "UNIHSSL_NEIGHBOURS"
SHARE = 0.5  # of the memory that is free; the rest is for the network and for everybody else
PLACES = {"gpu": "on the GPU", "host": "in host memory", "disk": "on the disk, memory-mapped"}


def place_stores(
    stores: Sequence[Store], device: torch.device, wish: str, processes: int = 1
) -> tuple[list[Store], str]:
    """The stores where they will live, and a line that says so. All go to the nearest place that holds them.

    Each of the run's processes has samples of its own on its GPU or in host memory; a map is shared by all.
    """
    size = sum(store.samples.nbytes for store in stores)
    home = choose_placement(size, device, wish, processes, on_disk=any(store.on_disk for store in stores))
    if home == "gpu":
        settled = [replace(store, samples=store.samples.to(device), on_disk=False) for store in stores]
    elif home == "host":
        settled = [
            replace(store, samples=store.samples.clone(), on_disk=False) if store.on_disk else store for store in stores
        ]
    else:
        settled = list(stores)
    amount = f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
    found = ", found in the cache" if all(store.found for store in stores) else ""
    return settled, f"{amount} of decoded samples{found}, {PLACES[home]}"


def choose_placement(size: int, device: torch.device, wish: str, processes: int = 1, *, on_disk: bool) -> Home:
    """The nearest place with room for `size` bytes, or the one asked for."""
    if wish == "gpu" and device.type != "cuda":
        raise UserError("placement=gpu, but this run is on the CPU: use placement=host, disk or auto")
    if wish == "disk" and not on_disk:
        raise UserError(
            "placement=disk, but these samples are not on the disk in decoded form: they are arrays, or the cache is "
            "off or cannot be written (--set cache=FOLDER)"
        )
    if wish in ("host", "disk"):
        return "host" if wish == "host" else "disk"
    room = SHARE * torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
    if wish == "gpu" and size > room / SHARE:
        raise UserError(
            f"placement=gpu, but {size / 2**30:.1f} GiB of decoded samples do not fit the "
            f"GPU's {room / SHARE / 2**30:.1f} GiB of free memory: use placement=auto, or a smaller --set image_size"
        )
    if wish == "gpu" or size * neighbours() <= room:
        return "gpu"
    return "disk" if on_disk and size * processes * neighbours() > SHARE * free_memory() else "host"


def neighbours() -> int:
    """How many runs share this machine and its GPU, this one included: a grid tells its workers."""
    return max(1, int(os.environ.get(NEIGHBOURS, "1")))

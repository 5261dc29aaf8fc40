"""Where decoded samples are kept while a run trains: on the GPU, in host memory, or on the disk."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch

from unihssl.data.machine import free_memory
from unihssl.data.store import Store
from unihssl.errors import Setting, UserError

Placement = Literal["gpu", "host", "disk"]
SHARE = 0.5  # of the free memory may be taken; the rest is for the network and other programs
DESCRIPTIONS = {"gpu": "on the GPU", "host": "in host memory", "disk": "on the disk, memory-mapped"}


def place_stores(
    stores: Sequence[Store], device: torch.device, requested: str, processes: int = 1, concurrent_runs: int = 1
) -> tuple[list[Store], str]:
    """Move all stores to one place (see `choose_placement`); returns them, and a line that says where they are."""
    size, on_disk = sum(store.samples.nbytes for store in stores), any(store.on_disk for store in stores)
    placement = choose_placement(size, device, requested, processes, concurrent_runs, on_disk=on_disk)
    for store in stores:
        store.check()
    if placement == "gpu":
        placed = [replace(store, samples=store.samples.to(device), on_disk=False) for store in stores]
    elif placement == "host":
        placed = [
            replace(store, samples=store.samples.clone(), on_disk=False) if store.on_disk else store for store in stores
        ]
    else:
        placed = list(stores)
    amount = f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
    found = ", found in the cache" if all(store.found for store in stores) else ""
    return placed, f"{amount} of decoded samples{found}, {DESCRIPTIONS[placement]}"


def choose_placement(
    size: int,
    device: torch.device,
    requested: str,
    processes: int = 1,
    concurrent_runs: int = 1,
    *,
    on_disk: bool,
) -> Placement:
    """The requested place or, for `auto`, the fastest with room for `size` bytes.

    Every process of the run has its own samples, on its own GPU or in host memory; only a memory map is shared.
    `concurrent_runs` is how many runs share this machine and its GPU.
    """
    if requested == "gpu" and device.type != "cuda":
        raise UserError(f"{Setting('placement', 'gpu')}, but this run is on the CPU: use host, disk or auto")
    if requested == "disk" and not on_disk:
        raise UserError(
            f"{Setting('placement', 'disk')}, but these samples are not on the disk in decoded form: they are arrays, "
            f"or the cache is off or cannot be written ({Setting('cache', 'FOLDER')})"
        )
    if requested in ("host", "disk"):
        return "host" if requested == "host" else "disk"
    free_gpu = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
    if requested == "gpu" and size > free_gpu:
        raise UserError(
            f"{Setting('placement', 'gpu')}, but {size / 2**30:.1f} GiB of decoded samples do not fit the GPU's "
            f"{free_gpu / 2**30:.1f} GiB of free memory: use auto, or a smaller {Setting('image_size')}"
        )
    if requested == "gpu" or size * concurrent_runs <= SHARE * free_gpu:
        return "gpu"
    return "disk" if on_disk and size * processes * concurrent_runs > SHARE * free_memory() else "host"

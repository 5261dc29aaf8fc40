"""Fabric, and how many processes a run has: started by torchrun, by SLURM, or by Fabric itself."""

import inspect
import logging
import os
from typing import Any, NamedTuple

import torch
from torch import nn

from unihssl.config import Settings
from unihssl.errors import Setting, UserError
from unihssl.models.backbones import pick_device

try:
    from lightning_fabric import Fabric
    from lightning_fabric.plugins.environments import LightningEnvironment, SLURMEnvironment, TorchElasticEnvironment
    from lightning_fabric.strategies import DDPStrategy
except ImportError:  # the `lightning` bundle carries the same package
    from lightning.fabric import Fabric
    from lightning.fabric.plugins.environments import LightningEnvironment, SLURMEnvironment, TorchElasticEnvironment
    from lightning.fabric.strategies import DDPStrategy

__all__ = ["Fabric", "autocast_dtype", "make_fabric"]


def make_fabric(settings: Settings) -> Fabric:
    """Where to train, and in how many processes. Networks do their own autocast (models.classifier)."""
    on_gpu = pick_device(settings.device) == "cuda"
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it announces each setting it was given
    processes = find_processes(settings, on_gpu)
    return Fabric(
        accelerator="cuda" if on_gpu else "cpu",
        devices=processes.devices,
        num_nodes=processes.nodes,
        strategy=_ddp() if processes.devices * processes.nodes > 1 else "auto",
        plugins=[processes.environment],
        precision="32-true",
    )


def autocast_dtype(settings: Settings, device: torch.device) -> torch.dtype | None:
    """What networks run in: bf16 on a GPU unless `precision` is fp32; None is full precision."""
    bf16 = settings.precision == "bf16" or (settings.precision == "auto" and device.type == "cuda")
    return torch.bfloat16 if bf16 else None


def _ddp() -> Any:
    """DDP that does not broadcast buffers: the memory of pseudo-labels may be large, and every step keeps it equal."""
    known = inspect.signature(nn.parallel.DistributedDataParallel).parameters
    broadcast = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    return DDPStrategy(find_unused_parameters=True, gradient_as_bucket_view=True, **{broadcast: False})


class Processes(NamedTuple):
    """Processes on each machine, machines, and Fabric's name for what starts them."""

    devices: int
    nodes: int
    environment: Any


def find_processes(settings: Settings, on_gpu: bool) -> Processes:
    """As the launcher says, if there is one; else as the settings ask."""
    if TorchElasticEnvironment.detect():
        found = _by_torchrun()
        _refuse_contradiction("torchrun", found, settings)
    elif _started_by_srun():
        found = _by_slurm()
        _refuse_contradiction("SLURM", found, settings)
    else:
        found = Processes(settings.devices, settings.nodes, LightningEnvironment())
        _require_meeting_place(found)
    _refuse_too_many(found, on_gpu)
    return found


def _by_torchrun() -> Processes:
    here, everywhere = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
    if everywhere % here:
        raise UserError(
            f"torchrun started {here} of {everywhere} processes on this machine: give all machines equally many"
        )
    return Processes(here, everywhere // here, TorchElasticEnvironment())


def _started_by_srun() -> bool:
    """An sbatch script sees SLURM's variables too, but only what srun starts is one of several tasks."""
    interactive = os.environ.get("SLURM_JOB_NAME") in ("bash", "interactive")
    return "SLURM_STEP_ID" in os.environ and int(os.environ.get("SLURM_NTASKS", 1)) > 1 and not interactive


def _by_slurm() -> Processes:
    tasks, nodes = int(os.environ["SLURM_NTASKS"]), int(os.environ.get("SLURM_NNODES", 1))
    here = os.environ.get("SLURM_NTASKS_PER_NODE", "")
    if not here.isdigit() or int(here) * nodes != tasks:
        raise UserError(f"SLURM started {tasks} tasks on {nodes} machines: ask for --ntasks-per-node, equal on all")
    return Processes(int(here), nodes, SLURMEnvironment())


def _refuse_contradiction(launcher: str, found: Processes, settings: Settings) -> None:
    """Refuse settings that the launcher contradicts; 1 means unset."""
    for name, what in (("devices", "processes on each machine"), ("nodes", "machines")):
        asked, started = getattr(settings, name), getattr(found, name)
        if asked not in (1, started):
            raise UserError(
                f"{Setting(name, asked)}, but {launcher} started {started} {what}: leave it out, or use "
                f"{Setting(name, started)}"
            )


def _require_meeting_place(found: Processes) -> None:
    """Without these variables the machines would wait for each other forever."""
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK") if name not in os.environ]
    if found.nodes > 1 and missing:
        raise UserError(
            f"{Setting('nodes', found.nodes)}, but not set: {', '.join(missing)}. Start it on every machine with the "
            "first one's MASTER_ADDR and a free port of it, and NODE_RANK 0, 1 and so on; or use torchrun or SLURM"
        )


def _refuse_too_many(found: Processes, on_gpu: bool) -> None:
    visible = torch.cuda.device_count() if on_gpu else found.devices
    if found.devices > visible:
        raise UserError(
            f"{Setting('devices', found.devices)}, but {'one GPU is' if visible == 1 else f'{visible} GPUs are'} "
            f"visible here: use {Setting('devices', visible)} (under SLURM, ask for --gpus-per-node, which "
            "each task can see all of)"
        )

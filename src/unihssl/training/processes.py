"""How many processes a run has, and who started them: torchrun, SLURM, or Fabric itself."""

import os
from dataclasses import dataclass
from typing import Any

import torch

from unihssl.config import Settings
from unihssl.errors import UserError
from unihssl.training.fabric import LightningEnvironment, SLURMEnvironment, TorchElasticEnvironment


@dataclass(frozen=True)
class Processes:
    """Processes on each machine, machines, and Fabric's name for what starts them."""

    devices: int
    nodes: int
    environment: Any

    @property
    def count(self) -> int:
        return self.devices * self.nodes


def find_processes(settings: Settings, on_gpu: bool) -> Processes:
    """What the launcher says, where there is one; else what the settings ask for."""
    if TorchElasticEnvironment.detect():
        found = _by_torchrun()
        _refuse_contradiction("torchrun", found, settings)
    elif _started_by_srun():
        found = _by_slurm()
        _refuse_contradiction("SLURM", found, settings)
    else:
        found = Processes(settings.devices, settings.nodes, LightningEnvironment())
        _refuse_to_wait_for_nobody(found)
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
    """1 is the default, and so no wish."""
    for name, wish, there in (("devices", settings.devices, found.devices), ("nodes", settings.nodes, found.nodes)):
        if wish not in (1, there):
            what = "processes on each machine" if name == "devices" else "machines"
            raise UserError(
                f"{name}={wish}, but {launcher} started {there} {what}: leave {name} out, or set {name}={there}"
            )


def _refuse_to_wait_for_nobody(found: Processes) -> None:
    """Without these a machine would wait for the others where they do not look for it."""
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK") if name not in os.environ]
    if found.nodes > 1 and missing:
        raise UserError(
            f"nodes={found.nodes}, but not set: {', '.join(missing)}. Start it on every machine with the first one's "
            "MASTER_ADDR, a free MASTER_PORT of it, and NODE_RANK 0, 1 and so on; or let torchrun or SLURM start it"
        )


def _refuse_too_many(found: Processes, on_gpu: bool) -> None:
    there = torch.cuda.device_count() if on_gpu else found.devices
    if found.devices > there:
        raise UserError(
            f"devices={found.devices}, but {'one GPU is' if there == 1 else f'{there} GPUs are'} visible here: "
            f"set devices={there} (under SLURM, ask for --gpus-per-node, which each task can see all of)"
        )

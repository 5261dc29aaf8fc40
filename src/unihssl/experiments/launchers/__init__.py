"""Where the runs of a grid go: processes of this machine, or a Ray cluster."""

from unihssl.errors import UserError
from unihssl.experiments.launchers.base import Launcher, ProcessDiedError
from unihssl.experiments.launchers.local import LocalLauncher
from unihssl.experiments.launchers.on_ray import RayLauncher

__all__ = ["Launcher", "LocalLauncher", "ProcessDiedError", "RayLauncher", "make_launcher"]


def make_launcher(name: str = "local", workers: int = 2, gpus_per_run: float | None = None) -> Launcher:
    """A launcher by name, for `workers` runs at a time; what cannot work is refused before anything starts."""
    if workers < 1:
        raise UserError(f"workers must be 1 or more, got {workers}")
    if name == "local":
        if gpus_per_run is not None:
            raise UserError("--gpus-per-run needs --launcher ray: local spreads its --workers evenly over the GPUs")
        return LocalLauncher(workers)
    if name == "ray":
        return RayLauncher(workers, gpus_per_run)
    raise UserError(f"unknown launcher '{name}': there are local and ray")

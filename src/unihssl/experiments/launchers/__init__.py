"""Where the runs of a grid go: processes of this machine, or a Ray cluster."""

from unihssl.errors import Setting, UserError
from unihssl.experiments.launchers.base import Launcher, ProcessDiedError
from unihssl.experiments.launchers.local import LocalLauncher
from unihssl.experiments.launchers.on_ray import RayLauncher

__all__ = ["Launcher", "LocalLauncher", "ProcessDiedError", "RayLauncher", "make_launcher"]


def make_launcher(name: str = "local", workers: int = 2, gpus_per_run: float | None = None) -> Launcher:
    """The launcher called `local` or `ray`, for `workers` runs at a time.

    >>> make_launcher("ray", workers=8, gpus_per_run=0.25)
    """
    if workers < 1:
        raise UserError(f"{Setting('workers')} must be 1 or more, got {workers}")
    if name == "local":
        if gpus_per_run is not None:
            needed = Setting("launcher", "ray")
            raise UserError(f"{Setting('gpus_per_run')} needs {needed}: local workers are spread evenly over the GPUs")
        return LocalLauncher(workers)
    if name == "ray":
        return RayLauncher(workers, gpus_per_run)
    raise UserError(f"unknown launcher '{name}': there are local and ray")

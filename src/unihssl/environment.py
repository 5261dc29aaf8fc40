"""What a run notes of the machine, the versions and the command behind it."""

import contextlib
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("unihssl", "torch", "torchvision", "timm", "lightning-fabric", "lightning", "numpy", "pillow")


def environment() -> dict[str, Any]:
    """Command, versions and machine."""
    import torch

    packages = {}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            packages[name] = version(name)
    return {
        "command": sys.argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
        "threads": torch.get_num_threads(),
        "processes": torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "commit": commit(),
    }


def commit() -> str | None:
    """The state of the source this runs from, by git; by UNIHSSL_COMMIT where it was copied without its history."""
    if "UNIHSSL_COMMIT" in os.environ:
        return os.environ["UNIHSSL_COMMIT"]
    source = Path(__file__).parents[1]
    if not (source.parent / ".git").exists():  # an installed package: a .git above it is another project's
        return None
    with contextlib.suppress(OSError):
        git = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=source, capture_output=True, text=True)
        return git.stdout.strip() or None
    return None

"""Where a run stands, in one file that is always whole.

The method's state dict holds weights, pseudo-labels and prototypes; the optimiser's holds momentum. Batches,
views, dropout and mixup are drawn from (seed, stage, step), and the schedule is a function of the step, so the
step number is the sampler's position, the schedule's and the random generators' state at once.
"""

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from unihssl.errors import UserError
from unihssl.files import atomic

CHECKPOINT = "checkpoint.pt"
FORMAT = 3  # of what is in it; 2 had other names for prototypes


@dataclass(frozen=True)
class Position:
    """The next step to take: in which stage, and its number there."""

    stage: int = 0
    step: int = 0


def save_checkpoint(
    path: Path, position: Position, method: dict[str, Any], optimizer: dict[str, Any] | None, fingerprint: str
) -> None:
    with atomic(path) as temporary:
        content = {
            "stage": position.stage,
            "step": position.step,
            "method": method,
            "optimizer": optimizer,
            "fingerprint": fingerprint,
        }
        torch.save(content, temporary)


def load_checkpoint(path: Path, fingerprint: str) -> tuple[Position, dict[str, Any], dict[str, Any] | None]:
    """Read a checkpoint back; it must be of a run with the same settings and data."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError):
        content = None  # what torch says of it runs over many lines and helps nobody
    if not isinstance(content, dict) or "fingerprint" not in content:
        raise UserError(f"{path}: the checkpoint cannot be read, it is damaged; delete it to start again")
    if content["fingerprint"] != fingerprint:
        raise UserError(
            f"{path}: the data or settings have changed since this run began, or another version of unihssl saved it; "
            "start a new one, or give it its own data again"
        )
    return Position(content["stage"], content["step"]), content["method"], content["optimizer"]

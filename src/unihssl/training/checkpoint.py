"""Where a run stands, in one file that is always whole.

The method's state dict holds weights, pseudo-labels and prototypes; the optimiser's holds momentum. Batches, views,
dropout and mixup are drawn from (seed, stage, step), and the schedule is a function of the step. So the step number is
the position of the sampler, of the schedule and of the random generators at once.
"""

import hashlib
import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from unihssl.config import deciding_knobs
from unihssl.data.pair import DomainPair
from unihssl.errors import UserError
from unihssl.files import atomic

FORMAT = 3  # raised when what a checkpoint holds changes


@dataclass(frozen=True)
class Position:
    """The next step to take: in which stage, and its number there."""

    stage: int = 0
    step: int = 0


def fingerprint(settings: Any, params: Any, pair: DomainPair) -> str:
    """Changes when the samples, their split, a knob that changes the result, or the checkpoint format does."""
    digest = hashlib.sha256(json.dumps([FORMAT, deciding_knobs(settings, params)], sort_keys=True).encode())
    for part in pair.parts.values():
        digest.update("\0".join(part.domain.names).encode())
        digest.update(part.store.key.encode())  # the samples themselves may be many gigabytes on disk
        digest.update(part.domain.labels.tobytes() + part.split.train.tobytes() + part.split.test.tobytes())
    return digest.hexdigest()


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
    """Read a checkpoint; it must be of a run with the same settings and data."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError):
        content = None  # torch's own message runs over many lines
    if not isinstance(content, dict) or "fingerprint" not in content:
        raise UserError(f"{path}: the checkpoint cannot be read, it is damaged; delete it to start again")
    if content["fingerprint"] != fingerprint:
        raise UserError(
            f"{path}: the data or settings have changed since this run began, or another version of unihssl saved it; "
            "start a new one, or give it its own data again"
        )
    return Position(content["stage"], content["step"]), content["method"], content["optimizer"]

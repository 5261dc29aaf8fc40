"""What a checkpoint holds, and which run may resume from it. `run_folder` reads and writes the file.

The method's state dict holds weights, pseudo-labels, prototypes and the classes to draw by, if there are any; the
optimiser's holds momentum. Batches, views, dropout and mixup are drawn from (seed, stage, step), and the schedule is a
function of the step. So the step number is the position of the sampler, of the schedule and of the random generators at
once.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from unihssl.config import deciding_knobs
from unihssl.data.pair import DomainPair
from unihssl.errors import UserError
from unihssl.run_folder import RunFolder

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
        drawn = np.sort(np.concatenate([part.split.test, part.split.copies]))  # 0.1.0 tested copies, too
        digest.update(part.domain.labels.tobytes() + part.split.train.tobytes() + drawn.tobytes())
        if part.domain.target_labels is not None:
            digest.update(part.domain.target_labels.tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Saved:
    """What a run resumes from: by default its beginning."""

    position: Position = Position()
    method: dict[str, Any] | None = None
    optimizer: dict[str, Any] | None = None
    readings: dict[str, Any] | None = None  # of the steps that no row of the log tells of yet
    rows: int = 0  # of the log


def load_checkpoint(folder: RunFolder, fingerprint: str) -> Saved:
    """Read a checkpoint; it must be of a run with the same settings and data."""
    content = folder.read_checkpoint()
    if content["fingerprint"] != fingerprint:
        raise UserError(
            f"{folder.checkpoint}: the data, target labels or settings have changed since this run began, or another "
            "version of unihssl saved it; start a new one, or give it its own data again"
        )
    method = {re.sub("^average[.]", "ema.", name): tensor for name, tensor in content["method"].items()}  # as in 0.1.0
    position = Position(content["stage"], content["step"])
    return Saved(position, method, content["optimizer"], content.get("readings"), content.get("rows", 0))

"""What a run is, written before its first step."""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from unihssl.config import Settings
from unihssl.data.pair import DomainPair
from unihssl.data.source import counted
from unihssl.errors import Setting
from unihssl.methods.recipe import all_knobs, row_name
from unihssl.run_folder import RunFolder


def describe_run(
    folder: RunFolder, settings: Settings, params: Any, pair: DomainPair, asked: Mapping[str, Any], resumed: bool
) -> None:
    """Write what the run is: every setting, every sample's name under its part, and the machine."""
    folder.write_config(all_knobs(settings, params))
    split: dict[str, dict[str, Any]] = {
        role: {
            "source": getattr(settings, role),
            "train": [part.domain.names[i] for i in part.split.train],
            "test": [part.domain.names[i] for i in part.split.test],
            "unused": [part.domain.names[i] for i in part.unused],
        }
        for role, part in pair.parts.items()
    }
    unlabeled = pair.unlabeled.domain
    if unlabeled.target_labels is not None:
        rows = np.flatnonzero(unlabeled.has_target_label)
        split["unlabeled"]["target_labels"] = {
            unlabeled.names[row]: unlabeled.classes[unlabeled.target_labels[row]] for row in rows
        }
    folder.write_split(split)
    plain = {name: value if isinstance(value, int | float) else str(value) for name, value in asked.items()}
    about: dict[str, Any] = {"asked": plain, "row": row_name(settings.method, settings.preset)}
    about["data"] = {role: part.store.key for role, part in pair.parts.items()}  # change when a sample does
    about["threads_asked"] = settings.threads  # beside `threads`, those that are used
    if resumed:  # what made the run is the first command
        first = folder.read_environment()
        about |= {key: first[key] for key in ("command", "asked", "row") if key in first} | {"resumed_by": sys.argv}
        if (before := first.get("threads")) not in (None, torch.get_num_threads()):
            about["threads_before"] = before
    folder.write_environment(**about)


def other_threads_note(folder: RunFolder, device: torch.device) -> str:
    """That the run resumes with another number of CPU threads, which changes the last digits; else empty."""
    before, now = folder.read_environment().get("threads"), torch.get_num_threads()
    if device.type != "cpu" or not isinstance(before, int) or before == now or not folder.checkpoint.exists():
        return ""
    return (
        f"this run had {counted(before, 'CPU thread')} and resumes with {now}: its weights will not be exactly "
        f"those of a run that was never stopped; {Setting('threads', before)} keeps the number"
    )

"""One run's folder: who may write to it, and the files that say what the run is."""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import torch
import yaml

from unihssl.config import Settings, changes_result, deciding_knobs
from unihssl.data.pair import DomainPair
from unihssl.errors import UserError
from unihssl.files import write_error, write_json, write_text
from unihssl.training.checkpoint import FORMAT

CONFIG, RESULT, LOCK = "config.yaml", "result.json", ".lock"
FREE_TO_CHANGE = frozenset(name for name in Settings.__dataclass_fields__ if not changes_result(name))
PACKAGES = ("unihssl", "torch", "torchvision", "timm", "lightning-fabric", "lightning", "numpy", "pillow")


class RunDirectory:
    """A run's folder, held by one process alone while the object is entered.

    Of several processes of one run only the first holds it (`mine`) and writes; for the others it is just a place.
    """

    def __init__(self, folder: Path, *, resume: bool, mine: bool = True) -> None:
        self.folder, self.mine = folder, mine
        self._lock: IO[str] | None = None
        if not mine:
            return
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder}: is a file; the run needs a folder")
        entries = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
        others = [name for name in entries if not name.startswith(".")]  # a kill may leave a lock, or half a file
        if others and CONFIG not in others:
            raise UserError(f"{folder}: is not empty, and what it holds is no run; choose another --out")
        if others and not resume:
            raise UserError(f"{folder}: is not empty; go on with its run (--resume) or choose another --out")

    def __enter__(self) -> "RunDirectory":
        if self.mine:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._lock = (self.folder / LOCK).open("w")
            except OSError as error:
                raise write_error(self.folder, error) from error
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._lock.close()
                raise UserError(f"{self.folder}: another process is training in this run directory") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock:
            with contextlib.suppress(OSError):  # the folder may be gone, which the error under way then says
                if value and [entry.name for entry in self.folder.iterdir()] == [LOCK]:  # it never became a run
                    (self.folder / LOCK).unlink()
                    self.folder.rmdir()
            self._lock.close()

    def describe(self, settings: Any, params: Any, pair: DomainPair) -> None:
        """Write what the run is: every setting, every sample's name under its part, and the machine."""
        if not self.mine:
            return
        sources = {role: absolute(part.domain.name) for role, part in pair.parts.items()}
        values = dataclasses.asdict(settings) | dataclasses.asdict(params) | sources
        write_text(self.folder / CONFIG, yaml.safe_dump(values, sort_keys=False, allow_unicode=True))
        split = {
            role: {
                "source": sources[role],
                "train": [part.domain.names[i] for i in part.split.train],
                "test": [part.domain.names[i] for i in part.split.test],
            }
            for role, part in pair.parts.items()
        }
        write_json(self.folder / "split.json", split)
        environment = {
            "command": sys.argv,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "packages": {name: v for name in PACKAGES if (v := _version(name))},
            "threads": torch.get_num_threads(),
            "processes": torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1,
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
            "commit": commit(),
        }
        write_json(self.folder / "environment.json", environment)


def fingerprint(settings: Any, params: Any, pair: DomainPair) -> str:
    """Changes when the samples, their split or a setting that matters to training does, or what checkpoints hold."""
    digest = hashlib.sha256(json.dumps([FORMAT, deciding_knobs(settings, params)], sort_keys=True).encode())
    for part in pair.parts.values():
        digest.update("\0".join(part.domain.names).encode())
        digest.update(part.store.key.encode())  # the samples themselves may be many gigabytes on disk
        digest.update(part.domain.labels.tobytes() + part.split.train.tobytes() + part.split.test.tobytes())
    return digest.hexdigest()


def read_config(folder: Path) -> dict[str, Any]:
    """The settings of a run, by name."""
    path = folder / CONFIG
    if not path.is_file():
        raise UserError(f"{folder}: not a run directory (no {CONFIG})")
    return read_yaml(path)


def read_yaml(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read as YAML ({' '.join(str(error).split())})") from None
    if not isinstance(values or {}, dict):
        raise UserError(f"{path}: expected lines of 'name: value'")
    return values or {}


def absolute(source: str) -> str:
    """What is on disk by its full path, so that a run can be resumed and evaluated from anywhere."""
    return str(Path(source).resolve()) if Path(source).exists() else source


def commit() -> str | None:
    """The state of the source this runs from, by git; by UNIHSSL_COMMIT where it was copied without its history."""
    if "UNIHSSL_COMMIT" in os.environ:
        return os.environ["UNIHSSL_COMMIT"]
    source = Path(__file__).parents[2]
    if not (source.parent / ".git").exists():  # installed, and whatever history lies above is not ours
        return None
    with contextlib.suppress(OSError):
        said = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=source, capture_output=True, text=True)
        return said.stdout.strip() or None
    return None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None

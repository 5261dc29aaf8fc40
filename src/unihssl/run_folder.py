"""The folder of one run: its files' names, readers and writers, and the lock that lets one process write.

config.yaml          every setting, by name
split.json           the samples of both domains, as training or test samples
environment.json     command, versions, machine, and the settings that were asked for
run.json             what a grid trained the run for
metrics.jsonl        a line for each report while training; tensorboard/ holds the same
checkpoint.pt        while a run is not finished: what it resumes from
model.safetensors    the weights of the finished model, described by model.json
features.safetensors features of some training samples, which novelty is measured from
result.json          written last: a run that has one is finished
README.md            of a saved model: its card
audit.json           what labels of a random sample said of the finished model on the unlabeled domain
suggested.json       images that were suggested to be labeled
report.html          all of it for people, in one file; plots/ holds figures
"""

import contextlib
import json
import pickle
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from filelock import FileLock, Timeout

from unihssl.environment import environment
from unihssl.errors import Setting, UserError
from unihssl.files import atomic, flush, make_folder, write_error, write_json, write_text
from unihssl.plain_files import MOST_JSON, MOST_TABLE, as_path, check_regular, read_json, read_text, read_yaml
from unihssl.run_schema import check_audit, check_environment, check_model, check_result, check_split
from unihssl.seals import sealed, unsealed
from unihssl.tensor_files import checksum_of, open_tensors, read_tensors, write_tensors

if TYPE_CHECKING:
    from torch import Tensor

# 0.1.0 wrote loss terms and statistics side by side in metrics.jsonl; these were the statistics.
OLD_STATS = {"mask_rate", "pseudo_agreement", "unlabeled_half", "belief", "discriminator_accuracy", "router_accuracy"}
OLD_STATS |= {"oracle_pseudo_accuracy"}
BAD_CHECKPOINT = (OSError, RuntimeError, EOFError, ValueError, LookupError, pickle.UnpicklingError, zipfile.BadZipFile)
PLACE = ("stage", "epoch", "step", "global_step", "lr", "loss", "images_per_second")  # neither terms nor statistics


class RunFolder:
    """Paths, readers and writers of a run's files."""

    def __init__(self, path: str | Path) -> None:
        self.path = as_path(path, "the folder of a run")
        self.config = self.path / "config.yaml"
        self.split = self.path / "split.json"
        self.environment = self.path / "environment.json"
        self.purpose = self.path / "run.json"
        self.metrics = self.path / "metrics.jsonl"
        self.tensorboard = self.path / "tensorboard"
        self.checkpoint = self.path / "checkpoint.pt"
        self.weights = self.path / "model.safetensors"
        self.model = self.path / "model.json"
        self.features = self.path / "features.safetensors"
        self.result = self.path / "result.json"
        self.card = self.path / "README.md"
        self.audit = self.path / "audit.json"
        self.suggested = self.path / "suggested.json"
        self.report = self.path / "report.html"
        self.plots = self.path / "plots"
        self.lock = self.path / ".lock"
        self.held: int | None = None  # while this process writes the run: the inode of the lock it holds

    @property
    def is_run(self) -> bool:
        """Whether a run was begun here."""
        return self.config.is_file()

    @property
    def is_finished(self) -> bool:
        return self.result.exists()

    def read_config(self) -> dict[str, Any]:
        """Every setting of the run, by the name that the version which wrote it used."""
        if not self.is_run:
            raise UserError(f"{self.path}: not a run directory (no {self.config.name})")
        return read_yaml(self.config)

    def read_result(self) -> dict[str, Any]:
        content = _dict(self.result)
        check_result(content, self.result)
        return content

    def read_split(self) -> dict[str, Any]:
        """The samples of both domains by role: source, train, test."""
        content = _dict(self.split, MOST_TABLE)
        check_split(content, self.split)
        return content

    def read_audit(self) -> dict[str, Any] | None:
        """The last audit; None if there was none."""
        if not self.audit.exists():
            return None
        content = _dict(self.audit)
        check_audit(content, self.audit)
        return content

    def read_environment(self) -> dict[str, Any]:
        """Empty where it was not noted."""
        if not self.environment.exists():
            return {}
        content = _dict(self.environment)
        check_environment(content, self.environment)
        return content

    def trained_by(self) -> str:
        """The version of this package that trained the run; empty where it was not noted."""
        with contextlib.suppress(UserError):  # a damaged one: it is only for a note
            packages = self.read_environment().get("packages")
            return str(packages.get("unihssl", "")) if isinstance(packages, dict) else ""
        return ""

    def read_purpose(self) -> dict[str, Any]:
        """What a grid noted; empty for a run by itself."""
        return _dict(self.purpose) if self.purpose.exists() else {}

    def read_metrics(self) -> list[dict[str, Any]]:
        """The rows of metrics.jsonl, `terms` and `stats` by name; a last line cut short by a kill is passed over."""
        rows = []
        *lines, cut = _lines(self.metrics) if self.metrics.exists() else [""]
        for number, line in enumerate([*lines, cut] if self.is_finished and cut else lines, start=1):
            try:
                row = unsealed(json.loads(line))
                rows.append(_with_stats_apart(row | {"global_step": int(row["global_step"])}))
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                raise self._damaged_metrics(f"line {number}") from None
        return rows

    def keep_metrics(self, steps_done: int, rows: int = 0) -> int:
        """Drop the rows that come after this step, as a run resumed there will write them again; returns how many stay.

        At least `rows` must stay, unless the file was deleted.
        """
        if not self.metrics.exists():
            return 0
        kept = [row for row in self.read_metrics() if row["global_step"] <= steps_done]
        if len(kept) < rows:
            raise self._damaged_metrics("the end")
        write_text(self.metrics, "".join(json.dumps(sealed(row)) + "\n" for row in kept))
        return len(kept)

    def append_metrics(self, row: dict[str, Any]) -> None:
        self._expect_own()
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(sealed(row)) + "\n")

    def _damaged_metrics(self, where: str) -> UserError:
        way_out = "delete the file to do without" if self.is_finished else "delete it to resume without its rows"
        return UserError(f"{self.metrics}: damaged ({where}): it changed since it was written; {way_out}")

    def _expect_own(self) -> None:
        """Refuse to write a run whose folder was removed, or replaced, under this process."""
        if self.held is None:
            return
        with contextlib.suppress(OSError):
            if self.lock.stat().st_ino == self.held and self.is_run:
                return
        raise UserError(f"{self.path}: was removed, or files in it were, while the run was training; start it again")

    def read_model(self) -> dict[str, Any]:
        """The description of the model, each entry of the right type; their values are checked by `load_model`."""
        content = _dict(self.model)
        check_model(content, self.model)
        try:
            return unsealed(content)
        except ValueError as error:
            way_out = "use an undamaged copy or, if you changed it on purpose, remove its checksum"
            raise UserError(f"{self.model}: damaged: {error}; {way_out}") from None

    def write_model(
        self, description: dict[str, Any], weights: dict[str, "Tensor"], features: dict[str, "Tensor"] | None
    ) -> None:
        """The model's weights, features of training samples if there are any, and its description; makes the folder.

        The description comes last and names the others by their checksums: what is left of a model that was there
        before is not taken for a part of this one.
        """
        self._expect_own()
        make_folder(self.path)
        sums = {"features": None if features is None else write_tensors(self.features, features)}
        sums["weights"] = write_tensors(self.weights, weights)
        write_json(self.model, sealed(description | sums))
        if features is None:
            self.features.unlink(missing_ok=True)

    def read_weights(self) -> dict[str, "Tensor"]:
        """The weights; a `UserError` if they are damaged, not those of model.json, or hold NaN or infinity."""
        tensors = self._read_part(self.weights, "weights")
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
                raise UserError(f"{self.weights}: {name} holds NaN or infinity: damaged, or training diverged")
        return tensors

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights by name, from the header alone: so they can be checked before any is loaded."""
        with open_tensors(self.weights) as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118

    def read_features(self) -> dict[str, "Tensor"] | None:
        """None where they were not saved, as by early versions."""
        if not self.features.exists() or self.read_model().get("features", "") is None:
            return None
        return self._read_part(self.features, "features")

    def _read_part(self, path: Path, name: str) -> dict[str, "Tensor"]:
        """Tensors that the model's description names by their checksum, unless an early version wrote it."""
        tensors, described = read_tensors(path), self.read_model()
        if name in described and described[name] != checksum_of(tensors):
            way_out = "saving another model there was stopped half-way: save it again"
            raise UserError(f"{path}: not the {name} that {self.model.name} describes; {way_out}")
        return tensors

    def write_checkpoint(self, content: dict[str, Any]) -> None:
        import torch

        self._expect_own()
        with atomic(self.checkpoint) as temporary:
            if self.metrics.exists():
                flush(self.metrics)  # whose rows the checkpoint counts
            torch.save(content, temporary)

    def read_checkpoint(self) -> dict[str, Any]:
        """What `write_checkpoint` wrote, on the CPU; nothing in it is executed."""
        import torch

        content = None
        with contextlib.suppress(*BAD_CHECKPOINT):
            check_regular(self.checkpoint)
            with zipfile.ZipFile(self.checkpoint) as parts:
                whole = parts.testzip() is None  # torch does not look at the checksums
            content = torch.load(self.checkpoint, map_location="cpu", weights_only=True) if whole else None
        if not isinstance(content, dict) or "fingerprint" not in content:
            raise UserError(
                f"{self.checkpoint}: the checkpoint cannot be read, it is damaged; delete it to start again"
            )
        return content

    def write_config(self, settings: dict[str, Any]) -> None:
        write_text(self.config, yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))

    def write_split(self, split: dict[str, Any]) -> None:
        write_json(self.split, split)

    def read_suggested(self) -> list[str]:
        """Names of the images that were suggested to be labeled."""
        names = _dict(self.suggested).get("path") if self.suggested.exists() else []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise UserError(f"{self.suggested}: is damaged; delete it, and images that were suggested may be audited")
        return names

    def write_suggested(self, names: list[str]) -> None:
        write_json(self.suggested, {"path": list(dict.fromkeys(names))})

    def write_audit(self, audit: dict[str, Any] | None) -> None:
        """None removes that of another model."""
        if audit is None:
            self.audit.unlink(missing_ok=True)
        else:
            write_json(self.audit, audit)

    def write_card(self, text: str) -> None:
        write_text(self.card, text)

    def write_environment(self, **more: Any) -> None:
        write_json(self.environment, environment() | more)

    def write_purpose(self, purpose: dict[str, Any]) -> None:
        write_json(self.purpose, purpose)

    def write_result(self, result: dict[str, Any]) -> None:
        """The last act of a run: nothing is left to resume from."""
        self._expect_own()
        write_json(self.result, result)
        self.remove_checkpoint()

    def remove_checkpoint(self) -> None:
        """Of a finished run, whose process may have been killed before it did so itself."""
        self.checkpoint.unlink(missing_ok=True)


class RunLock:
    """Holds a run's folder while entered; another process that wants it is refused.

    Without `resume` the folder must be new or empty. A folder that never became a run is removed again.
    """

    def __init__(self, folder: RunFolder, *, resume: bool) -> None:
        self.folder = folder
        path = folder.path
        if path.exists() and not path.is_dir():
            raise UserError(f"{path}: is a file; the run needs a folder")
        entries = [entry.name for entry in path.iterdir()] if path.is_dir() else []
        visible = [name for name in entries if not name.startswith(".")]  # a kill may leave a lock, or half a file
        if visible and folder.config.name not in visible:
            raise UserError(f"{path}: is not empty, and what it holds is no run; choose another {Setting('out')}")
        if visible and not resume:
            ways = f"resume its run ({Setting('resume', True)}) or choose another {Setting('out')}"
            raise UserError(f"{path}: is not empty; {ways}")
        self._lock = FileLock(folder.lock)

    def __enter__(self) -> "RunLock":
        try:
            self.folder.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
            self.folder.held = self.folder.lock.stat().st_ino
        except Timeout:
            raise UserError(f"{self.folder.path}: another process is training in this run directory") from None
        except OSError as error:
            raise write_error(self.folder.path, error) from error
        return self

    def __exit__(self, kind: object, value: BaseException | None, trace: object) -> None:
        lock, self.folder.held = self.folder.lock, None
        with contextlib.suppress(OSError):  # the folder may be gone, which the error under way then says
            if value and list(self.folder.path.iterdir()) == [lock]:  # it never became a run
                lock.unlink()
                self.folder.path.rmdir()
        self._lock.release()


def _lines(path: Path) -> list[str]:
    """The lines of a text; the last is empty, unless it was cut short."""
    try:
        return read_text(path).split("\n")
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from None


def _dict(path: Path, most: int = MOST_JSON) -> dict[str, Any]:
    content = read_json(path, most)
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected names and values")
    return content


def _with_stats_apart(row: dict[str, Any]) -> dict[str, Any]:
    """A row as it is written now; rows of 0.1.0 had terms and statistics in one namespace."""
    if "terms" in row:
        return row
    stats = {name: value for name, value in row.items() if name in OLD_STATS}
    place = {name: value for name, value in row.items() if name in PLACE}
    return place | {"terms": {n: v for n, v in row.items() if n not in place and n not in stats}, "stats": stats}

"""What is disturbed: commands as small as they come, each in a folder with all it needs.

A scenario can be repeated with the same command: what was interrupted is resumed, what was written is written again.
"""

import csv
import hashlib
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

# The modules of other tests, for when this is no test; pytest has them on its path already.
sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "system")]
from warm_cli import train_args
from warm_cli import unihssl as command

import unihssl
from catalog_trees import lay_out
from colour_domains import CLASSES, colour_images, write_domain
from unihssl.data import catalog
from unihssl.errors import UserError

VECTORS = {"backbone": "mlp", "method": "unihssl", "pretrain_epochs": 1, "epochs": 2, "batch_size": 8, "log_every": 2}
SHORT = {"epochs": 1, "pretrain_epochs": 1, "max_steps": 2, "checkpoint_seconds": 0}


@dataclass(frozen=True)
class Scenario:
    """A command line, or a function that stands for one."""

    args: Sequence[str] = ()
    main: Callable[[], None] | None = None
    cache: str = ""  # a folder that a fault may leave unfilled
    grows: str = ""  # a file that is written in several steps
    own: str = ""  # a pattern of its points, where the others are those of another scenario


def vectors(seed: int, shift: float) -> dict[str, np.ndarray]:
    y = np.repeat(["a", "b", "c"], 8)
    x = np.random.default_rng(seed).normal(size=(24, 5)) + 3 * np.eye(5)[np.repeat([0, 1, 2], 8)] + shift
    return {"x": x.astype(np.float32), "y": y}


def prepare(root: Path) -> None:
    """Data, a finished run, and files to label or replace."""
    root.mkdir(parents=True)
    np.savez(root / "a.npz", **vectors(0, 0.0))
    np.savez(root / "b.npz", **vectors(1, 0.5))
    write_domain(root / "images_a", *colour_images(4, 0, seed=0))
    write_domain(root / "images_b", *colour_images(4, 60, seed=1))
    caltech = catalog.get("office-caltech-10")
    dslr = replace(caltech.domain("dslr"), counts=dict.fromkeys(caltech.classes, 1))
    small = replace(caltech, domains=(dslr,))
    lay_out(root / "archive" / "office_caltech10", small)
    with zipfile.ZipFile(root / "archive" / "office_caltech10.zip", "w") as packed:
        for path in sorted((root / "archive" / "office_caltech10").rglob("*.jpg")):
            packed.write(path, path.relative_to(root / "archive"))
    shutil.rmtree(root / "archive" / "office_caltech10")
    call = [*train_args("images_a", "images_b", "run", **SHORT), "--cache", "none"]
    done = command(*call, folder=root)
    assert done.code == 0, done.stderr
    labels = [(root / "images_b" / name / f"{4 * i:02d}.png", name) for i, name in enumerate(CLASSES)]
    write_labels(root / "todo.csv", [(path, "") for path, _ in labels])
    assert command("audit", "run", "--n", "9", "--out", "audit.csv", folder=root).code == 0
    with (root / "audit.csv").open(newline="") as file:
        write_labels(root / "audit.csv", [(r["path"], Path(r["path"]).parent.name) for r in csv.DictReader(file)])
    other = unihssl.load(root / "run")
    other.classes_ = other.classes_[::-1]
    other.save(root / "saved")
    (root / "predictions.csv").write_text("path,class\nold,a\n")
    (root / "features.npz").unlink(missing_ok=True)


def write_labels(path: Path, rows: Sequence[tuple[object, str]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label"), *rows])


def grid() -> None:
    """Runs of a grid in this process, which spares the start of others."""
    from unihssl import cli
    from unihssl.experiments import launchers

    launchers.make_launcher = lambda *_: Here()  # type: ignore[assignment]
    cli.main()


class Here:
    workers = 1

    def launch(self, function: Callable[[Any, int], Any], tasks: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        for task in tasks:
            try:
                outcome = function(task, 1)
            except Exception as error:
                outcome = error
            yield task, outcome


def labels() -> None:
    """The answers that the labeling page takes, one after another."""
    from unihssl.labeling.sheet import LabelSheet, only_labeler

    path = Path("todo.csv")
    with as_command(), only_labeler(path):
        sheet = LabelSheet(path, CLASSES)
        while sheet.current is not None:
            sheet.answer(sheet.current, CLASSES[sheet.current % 3])


def cache() -> None:
    """Decoded images, from the cache or not: what they hold is printed."""
    from unihssl.config import Settings
    from unihssl.data.domain import unlabeled_domain
    from unihssl.data.store import fill_store

    with as_command():
        store = fill_store(unlabeled_domain("images_b", CLASSES, Settings()), (16, 16), cache=Path("cache"))[1]
        print(hashlib.sha256(store.samples.numpy().tobytes()).hexdigest())


def save() -> None:
    """A model is saved over another one."""
    with as_command():
        unihssl.load("run").save("saved")


@contextmanager
def as_command() -> Iterator[None]:
    """Errors end as those of the command line do."""
    try:
        yield
    except (UserError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def _set(**knobs: object) -> list[str]:
    return [part for name, value in knobs.items() for part in ("--set", f"{name}={value}")]


TRAIN = ["train", "--labeled", "a.npz", "--unlabeled", "b.npz", "--out", "new", "--resume", "--no-report", "--json"]
QUICK = _set(**{"tensorboard": False, "checkpoint_seconds": 0})
GRID = ["benchmark", "digits", "--pairs", "mnist/uci", "--methods", "supervised,mcc", "--seeds", "1", "--out", "grid"]
SMALL = ["--domains", "dslr", "--image-size", "16", "--cache", "cache"]
TINY = {"backbone": "small_cnn", "max_steps": 1, "tensorboard": False}

SCENARIOS = {
    "run": Scenario([*TRAIN, *_set(**VECTORS), *QUICK]),
    "events": Scenario([*TRAIN, *_set(**VECTORS | {"epochs": 1}), "--set", "checkpoint_seconds=0"], own="tensorboard"),
    "cache": Scenario(main=cache, cache="cache"),
    "predict": Scenario(["predict", "run", "images_a", "--out", "predictions.csv"]),
    "prepare": Scenario(
        ["data", "prepare", "office-caltech-10", "--root", "archive/office_caltech10.zip", *SMALL], cache="cache"
    ),
    "report": Scenario(["report", "run"]),
    "export": Scenario(["export", "run", "model.onnx"]),
    "labels": Scenario(main=labels, grows="todo.csv"),
    "audit": Scenario(["audit", "run", "--labels", "audit.csv"]),
    "draw": Scenario(["suggest", "run", "--n", "3", "--out", "suggested/todo.csv"]),
    "features": Scenario(
        ["features", "images_a", "features.npz", "--backbone", "small_cnn", "--weights", "none"],
    ),
    "save": Scenario(main=save),
    "grid": Scenario([*GRID, *_set(**TINY)], grid, own=r"run\.json|table|lock|mkdir"),
}

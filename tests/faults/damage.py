"""Files damaged at random bytes, or cut: each is refused with one line or rebuilt, none is read as if it were whole."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scenarios import write_labels

import unihssl
from unihssl.config import Settings
from unihssl.data.domain import Domain, unlabeled_domain
from unihssl.data.label_file import labeled_rows, read_label_file
from unihssl.data.store import fill_store
from unihssl.errors import UserError
from unihssl.run_folder import RunFolder

Random = np.random.Generator
CLASSES = ("blue", "green", "red")
SIZE = (16, 16)


def damaged(content: bytes, random: Random) -> bytes:
    """Some bytes changed, or the end cut off."""
    if random.random() < 0.3:
        return content[: int(random.integers(len(content)))]
    changed = bytearray(content)
    for at in random.integers(len(changed), size=int(random.integers(1, 4))):
        changed[at] ^= int(random.integers(1, 256))
    return bytes(changed)


def damage_one(folder: Path, names: str, random: Random) -> None:
    """Damage one of the files of a folder that match."""
    files = sorted(folder.glob(names))
    path = files[int(random.integers(len(files)))]
    path.write_bytes(damaged(path.read_bytes(), random))


class Damage:
    """Whole files beside `template`, made once, and for each kind how they are read again."""

    def __init__(self, template: Path) -> None:
        self.whole, self.copy = template.with_name("whole"), template.with_name("damaged")
        shutil.copytree(template / "run", self.whole / "run")
        self.model = unihssl.load(self.whole / "run")
        self.probabilities = self.model.predict_proba(np.zeros((3, *SIZE, 3), np.uint8))
        self.domain: Domain = unlabeled_domain(str(template / "images_b"), CLASSES, Settings())
        self.pixels = fill_store(self.domain, SIZE, cache=self.whole / "begun" / "cache")[1].samples.clone()
        run = RunFolder(self.whole / "begun")
        self.state = {"fingerprint": "x", "weights": torch.rand(500, generator=torch.Generator().manual_seed(0))}
        run.write_checkpoint(self.state)
        self.rows = [{"global_step": step, "stage": "adapt", "terms": {}, "loss": step / 7} for step in range(5)]
        for row in self.rows:
            run.append_metrics(row)
        images = [template / "images_b" / name for name in self.domain.names]
        write_labels(self.whole / "labels.csv", [(image, image.parent.name) for image in images])
        self.labels = self._labels(self.whole / "labels.csv")

    def check(self, kind: str, random: Random) -> str:
        """`refused`, `same` where the damage changed nothing that is read, or what is wrong."""
        shutil.rmtree(self.copy, ignore_errors=True)
        try:
            return KINDS[kind](self, random)
        except UserError as error:
            return "refused" if "\n" not in str(error) else f"more than one line: {error}"

    def _copied(self, name: str) -> Path:
        return shutil.copytree(self.whole, self.copy) / name

    def checkpoint(self, random: Random) -> str:
        run = RunFolder(self._copied("begun"))
        damage_one(run.path, "checkpoint.pt", random)
        return _same(torch.equal(run.read_checkpoint()["weights"], self.state["weights"]))

    def log(self, random: Random) -> str:
        run = RunFolder(self._copied("begun"))
        damage_one(run.path, "metrics.jsonl", random)
        run.keep_metrics(len(self.rows), rows=len(self.rows))
        return _same(run.read_metrics() == self.rows)

    def store(self, random: Random) -> str:
        cache = self._copied("begun") / "cache"
        damage_one(cache, "*/*/*" if random.random() < 0.7 else "index/*", random)
        found = fill_store(self.domain, SIZE, cache=cache)[1].samples
        return _same(torch.equal(found, self.pixels))

    def saved_model(self, random: Random) -> str:
        run = self._copied("run")
        damage_one(run, str(random.choice(["model.safetensors", "model.json", "features.safetensors"])), random)
        model = unihssl.load(run)
        same = np.array_equal(model.predict_proba(np.zeros((3, *SIZE, 3), np.uint8)), self.probabilities)
        return _same(same and model.classes_.tolist() == self.model.classes_.tolist())

    def table(self, random: Random) -> str:
        """A CSV has no checksum, as people write it: a row that was changed is refused, one that is gone is gone."""
        path = self._copied("labels.csv")
        damage_one(path.parent, path.name, random)
        return _same(self._labels(path) <= self.labels)

    def _labels(self, path: Path) -> set[tuple[int, int]]:
        rows, labels = labeled_rows(read_label_file(path, CLASSES), self.domain)
        return set(zip(rows.tolist(), labels.tolist(), strict=True))


def _same(same: bool) -> str:
    return "same" if same else "damage was read as if it were whole"


KINDS: dict[str, Callable[[Damage, Random], Any]] = {
    "checkpoint": Damage.checkpoint,
    "log": Damage.log,
    "cached images": Damage.store,
    "model": Damage.saved_model,
    "labels": Damage.table,
}

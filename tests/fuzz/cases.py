"""Bad input of every kind that is opened. A case writes files into a folder and reads them as the product does."""

import contextlib
import copy
import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import seeds
from arguments import arguments

from unihssl.cli import main
from unihssl.config import Settings, parse
from unihssl.data.catalog.archives import unpack
from unihssl.data.decode import decode_in_memory
from unihssl.data.images import UNREADABLE, upright_size
from unihssl.data.readers import read
from unihssl.data.rendering import Rendering
from unihssl.evaluation.load import load_model
from unihssl.experiments.report import as_text
from unihssl.experiments.results import read_all
from unihssl.plain_files import read_yaml
from unihssl.report.page import write_report
from unihssl.run_folder import RunFolder

Random = np.random.Generator
Case = Callable[[Random, Path], None]
IMAGES = seeds.images()
OTHERS, DICOM = seeds.other_images(), seeds.dicom()
WHOLE = {"npz": seeds.arrays(), **{kind: seeds.archive(kind) for kind in ("zip", "tar", "tar.gz")}}
STRANGE: list[Any] = [None, -1, 0, 2**31, 2**70, 1e300, float("nan"), True, "", "x", "\x1b[2J", "../../etc", [], {}]
STRANGE += [[[[]]], {"a": {"a": 1}}, "9" * 400, "é\u202e", ["a"] * 500]
TEXTS = ["", ",", '"', "\n", "\0", "&a ", "*a", "!!int", "[", "{", "]", "- ", ": ", "=1+1", "\x1b[31m", "2001-99-99"]
WORDS = ["--out", "--json", "--set", "seed=x", "--labeled", "a|b", "-", "--", "/dev/null", "a" * 5000, "\x1b[2J", "-1"]
WORDS += ["--config", "missing.yaml", "--device", "tpu", "--unlabeled", "é", "--n", "1e99", "--help", "=", "--by", ""]
COMMANDS = [("predict", "run"), ("evaluate", "run"), ("table", "run"), ("methods",), ("data",), ("report", "run")]
COMMANDS += [("suggest", "run"), ("audit", "run"), ("export", "run"), ("plot",), ("train",), ("select", "run"), ("x",)]


def mutated(content: bytes, random: Random) -> bytes:
    """Some bytes changed, cut, doubled, or put in."""
    changed = bytearray(content)
    for _ in range(int(random.integers(1, 8))):
        at, length = int(random.integers(len(changed) + 1)), int(random.integers(1, 40))
        how = random.integers(5)
        if how == 0 and at < len(changed):
            changed[at] ^= 1 << int(random.integers(8))
        elif how == 1 and at < len(changed):
            changed[at] = int(random.choice([0, 1, 127, 128, 255]))
        elif how == 2:
            del changed[at : at + length]
        elif how == 3:
            changed[at:at] = random.bytes(length)
        else:
            changed[at:at] = changed[at : at + length]
    return bytes(changed[: int(random.integers(len(changed) + 1))] if random.random() < 0.1 else changed)


def mutated_text(text: str, random: Random) -> str:
    for _ in range(int(random.integers(1, 6))):
        at = int(random.integers(len(text) + 1))
        text = text[:at] + str(random.choice(TEXTS)) * int(random.integers(1, 4)) + text[at + int(random.integers(4)) :]
    return text


def mutated_json(content: Any, random: Random) -> Any:
    """One value somewhere in it replaced, or its entry removed."""
    content = copy.deepcopy(content)
    place = content
    while True:
        keys: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return content
        key = keys[int(random.integers(len(keys)))]
        if isinstance(place[key], dict | list) and place[key] and random.random() < 0.6:
            place = place[key]
            continue
        if random.random() < 0.2:
            del place[key]
        else:
            place[key] = STRANGE[int(random.integers(len(STRANGE)))]
        return content


def image(random: Random, folder: Path) -> None:
    _decode(mutated(IMAGES[str(random.choice(list(IMAGES)))], random), random, folder)


def other_image(random: Random, folder: Path) -> None:
    """Of a format that is not read; or random bytes that begin as an image does."""
    content = OTHERS[str(random.choice(list(OTHERS)))]
    head = IMAGES[str(random.choice(list(IMAGES)))][: int(random.integers(4, 40))]
    noise = head + random.bytes(int(random.integers(400)))
    _decode(mutated(content, random) if random.random() < 0.5 else noise, random, folder)


def dicom(random: Random, folder: Path) -> None:
    _decode(mutated(DICOM[str(random.choice(list(DICOM)))], random), random, folder)


def _decode(content: bytes, random: Random, folder: Path) -> None:
    file = folder / "a.png"
    file.write_bytes(content)
    decode_in_memory([file], Rendering((8, 8), int(random.choice([1, 3]))))
    with contextlib.suppress(*UNREADABLE):
        upright_size(file)


def table(random: Random, folder: Path) -> None:
    for name in "123":
        (folder / f"{name}.png").write_bytes(IMAGES["png"])
    encoding = "utf-16" if random.random() < 0.1 else "utf-8"
    (folder / "a.csv").write_bytes(mutated_text(seeds.TABLE, random).encode(encoding))
    read(folder / "a.csv", Settings(group_by=str(random.choice(["", "patient"]))), "labeled")


def settings(random: Random, folder: Path) -> None:
    (folder / "a.yaml").write_text(mutated_text(seeds.CONFIG, random))
    parse(read_yaml(folder / "a.yaml"), (Settings,))


def array(random: Random, folder: Path) -> None:
    (folder / "a.npz").write_bytes(mutated(WHOLE["npz"], random))
    read(folder / "a.npz", Settings(), "labeled")


def packed(random: Random, folder: Path) -> None:
    kind = str(random.choice(["zip", "tar", "tar.gz"]))
    (folder / f"a.{kind}").write_bytes(mutated(WHOLE[kind], random))
    unpack(folder / f"a.{kind}")


def run(random: Random, folder: Path) -> None:
    """A run in which one file is damaged: read by all that reads runs."""
    shutil.copytree(seeds.RUN, folder / "run")
    name = str(random.choice(["model.json", "model.json", "split.json", "config.yaml", "model.safetensors"]))
    file = folder / "run" / name
    if name.endswith(".json") and random.random() < 0.8:
        file.write_text(json.dumps(mutated_json(seeds.run_file(name), random)))
    else:
        file.write_bytes(mutated(file.read_bytes(), random))
    RunFolder(folder / "run").read_split()
    load_model(folder / "run").predict(np.zeros((2, 16, 16, 3), np.uint8))


def answers(random: Random, folder: Path) -> None:
    """A run whose audit, results or environment are damaged: what predictions, reports and tables are made from."""
    shutil.copytree(seeds.NEWER_RUN, folder / "run")
    images, model = np.zeros((4, 16, 16, 3), np.uint8), load_model(folder / "run")
    (folder / "run" / "audit.json").write_text(json.dumps(model.audit(images, [model.classes_[0]] * 4)))
    file = folder / "run" / str(random.choice(["audit.json", "result.json", "environment.json"]))
    file.write_text(json.dumps(mutated_json(json.loads(file.read_text()), random)))
    write_report(folder / "run", folder / "report.html", images=False)
    as_text(read_all([folder / "run"]), "markdown")
    load_model(folder / "run").predictions(images).to_csv(folder / "answers.csv")


def command(random: Random, folder: Path) -> None:
    """A command line; nothing may end it but an exit, and only 0, 1 or 2."""
    shutil.copytree(seeds.RUN, folder / "run")
    (folder / "a.csv").write_text(mutated_text(seeds.TABLE, random))
    words = [str(random.choice([*WORDS, "a.csv", "run"])) for _ in range(int(random.integers(5)))]
    line = ["unihssl", *COMMANDS[int(random.integers(len(COMMANDS)))], *words]
    out, errors = io.StringIO(), io.StringIO()
    with patch.object(sys, "argv", line), contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            main()
        except SystemExit as end:
            assert end.code in (0, 1, 2, None), f"{line}: exit code {end.code}"
    assert "Traceback" not in errors.getvalue(), line
    assert "\x1b[2J" not in out.getvalue() + errors.getvalue(), f"{line}: an escape was printed"


KINDS: dict[str, tuple[Case, float]] = {  # with the share of the cases; a new one comes last, as cases are numbered
    "images": (image, 0.26),
    "tables": (table, 0.08),
    "settings": (settings, 0.08),
    "arrays": (array, 0.1),
    "archives": (packed, 0.08),
    "runs": (run, 0.12),
    "commands": (command, 0.04),
    "other images": (other_image, 0.06),
    "dicom": (dicom, 0.06),
    "arguments": (arguments, 0.1),
    "answers": (answers, 0.02),
}

"""Every command of docs/start.md works as printed, on small folders, with settings that make it quick."""

import contextlib
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from warm_cli import unihssl

from colour_domains import write_domain

PAGE = (Path(__file__).parents[2] / "docs" / "start.md").read_text(encoding="utf-8")
QUICK = {"backbone": "small_cnn", "epochs": 1, "max_steps": 2, "batch_size": 8, "tensorboard": False}
COMMANDS = re.findall(r"^    (unihssl .+)$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def place(tmp_path_factory, image_arrays) -> Path:
    """A folder with the page's three: A in class folders, B and the new images without."""
    folder = tmp_path_factory.mktemp("start")
    (x, y), (u, _) = image_arrays
    write_domain(folder / "scans_a", x, np.where(y == "red", "malignant", "benign"))
    write_domain(folder / "scans_b", u, np.full(len(u), ""))
    write_domain(folder / "new_scans", u[:3], np.full(3, ""))
    return folder


def quick(command: str) -> list[str]:
    """The arguments of a command, and the settings that make it quick if it trains."""
    arguments = shlex.split(command)[1:]
    settings = {"train": QUICK, "compare": QUICK, "demo": {"max_steps": 2}}.get(arguments[0], {})
    return arguments + [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]


def test_the_commands_of_the_page(place):
    assert [shlex.split(command)[1] for command in COMMANDS] == [
        *("demo", "data", "train", "evaluate", "compare", "report", "predict")
    ]
    with contextlib.chdir(place):
        done = [unihssl(*quick(command)) for command in COMMANDS]
    assert [(command, d.stderr) for command, d in zip(COMMANDS, done, strict=True) if d.code] == []
    for written in ("runs/first/report.html", "comparison.html"):
        assert (place / written).read_text(encoding="utf-8").startswith("<!doctype html>")
    rows = (place / "preds.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 4 and "benign" in rows[0] and "novelty" in rows[0]


def test_the_python_of_the_page(place):
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    with contextlib.chdir(place):
        exec(code.replace('out="runs/python"', f'out="runs/python", **{QUICK}'), {})
        assert Path("report.html").stat().st_size > 10_000

"""`unihssl label` as a user calls it: a process that serves, is stopped, and goes on."""

import csv
import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from warm_cli import train, unihssl


def write(path: Path, images: list) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label"), *((image, "") for image in images)])
    return path


def request(url: str, body: dict[str, Any] | None = None) -> Any:
    given = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(url, given, timeout=300) as answer:
        content = answer.read()
    return content if content.startswith(b"\x89PNG") else json.loads(content)


@contextmanager
def labeling(*args: object) -> Iterator[tuple[subprocess.Popen, str]]:
    """The running command and its address."""
    command = [sys.executable, "-m", "unihssl", "label", *map(str, args), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        yield process, re.search(r"http://127\.0\.0\.1:\d+/\S+/", line).group()
    finally:
        process.kill()
        process.communicate()


def test_label_stop_and_continue(image_folders, tmp_path):
    images = sorted(image_folders[1].rglob("*.png"))[:3]
    todo = write(tmp_path / "todo.csv", images)
    with labeling(todo, "--classes", "blue, green,red") as (process, url):
        assert "is being labeled already" in unihssl("label", todo, "--classes", "blue,red", "--no-browser").error
        assert request(f"{url}answer", {"row": 0, "label": "green"})["row"] == 1
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    again = f"unihssl label {todo} --classes 'blue, green,red'"
    assert (process.returncode, out, err) == (0, f"1 of 3 images labeled; to continue: {again}\n", "")
    with labeling(todo, "--classes", "blue,green,red") as (_, url):
        assert request(f"{url}state")["row"] == 1
    assert list(csv.reader(todo.open())) == [["path", "label"], [str(images[0]), "green"], [str(images[1]), ""],
                                             [str(images[2]), ""]]  # fmt: skip


def test_bad_calls_are_one_line(image_folders, tmp_path):
    todo = write(tmp_path / "todo.csv", sorted(image_folders[1].rglob("*.png"))[:2])
    for args, message in (
        ((tmp_path / "no.csv", "--classes", "a,b"), "no.csv: no such file; draw images to label with: unihssl suggest"),
        ((todo,), "pass either --classes a,b,c or --run RUN"),
        ((todo, "--classes", "a,b", "--run", tmp_path), "pass either --classes a,b,c or --run RUN"),
        ((todo, "--classes", "a"), "two classes or more"),
        ((todo, "--run", tmp_path / "no-run"), "is " + str(tmp_path / "no-run") + " a run directory?"),
        ((write(tmp_path / "gone.csv", ["1.png"]), "--classes", "a,b"), "none of its 1 images is there"),
    ):
        assert message in unihssl("label", *args, "--no-browser").error


def test_a_run_gives_classes_guesses_and_the_images_of_its_array(image_arrays, tmp_path):
    for name, (x, y) in zip(("a", "b"), image_arrays, strict=True):
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    run = tmp_path / "run"
    assert train((tmp_path / "a.npz", tmp_path / "b.npz"), run).code == 0
    assert unihssl("suggest", run, "--n", 2, "--out", tmp_path / "todo.csv").code == 0
    with labeling(tmp_path / "todo.csv") as (process, url):  # the file says which run it is of
        state = request(f"{url}state")
        assert state["classes"] == ["blue", "green", "red"] and state["has_guesses"]
        assert len(request(f"{url}image/1")) > 60
        guess = request(f"{url}guess/1")
        assert guess["class"] in state["classes"] and 1 / 3 <= guess["confidence"] <= 1
        for row in range(2):
            request(f"{url}answer", {"row": row, "label": "red"})
        process.send_signal(signal.SIGINT)
        done, measure, learn = process.communicate(timeout=60)[0].splitlines()
    assert done == "2 of 2 images labeled" and measure.endswith(f"unihssl audit {run} --labels {tmp_path}/todo.csv")
    assert learn.endswith(f"--config {run}/config.yaml --target-labels {tmp_path}/todo.csv --out NEW")

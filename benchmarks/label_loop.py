"""The loop of docs/label-loop.md, run for real: train, audit, label what was suggested, train again, audit again.

    python label_loop.py WORKDIR --json ../results/target-labels/loop.json

MNIST labeled, UCI unlabeled, as folders of PNG files. The commands are those of the page; labels are filled in from the
true classes, where a person would look at the images.
"""

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from common import report
from PIL import Image

from unihssl.data.catalog.digits import embedded_digits

LABELS = 50


def write_folders(root: Path) -> dict[str, str]:
    """`a/CLASS/*.png` with labels, `b/*.png` without; the true class of each file of b."""
    truth = {}
    for folder, name in (("a", "mnist"), ("b", "uci")):
        for i, (pixels, label) in enumerate(zip(*embedded_digits(name), strict=True)):
            path = root / folder / (str(label) if folder == "a" else "") / f"{i:04d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
            truth[str(path)] = str(label)
    return truth


def fill_in(file: Path, truth: dict[str, str]) -> None:
    """What a person does with `unihssl label`."""
    rows = list(csv.DictReader(file.open(newline="")))
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(row | {"label": truth[row["path"]]} for row in rows)


def command(root: Path, *parts: object) -> Any:
    """The answer of a command as JSON."""
    print("$ unihssl", *parts, flush=True)
    call = [sys.executable, "-m", "unihssl", *map(str, parts), "--json"]
    return json.loads(subprocess.run(call, cwd=root, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    root = arguments.root.absolute()
    truth = write_folders(root)
    recipe = ["--backbone", "small_cnn", "--image-size", 16, "--no-flip", "--no-report"]
    rows = []
    for run, more in (("first", []), ("second", ["--target-labels", "todo.csv"])):
        command(root, "train", "--labeled", "a", "--unlabeled", "b", "--out", run, *recipe, *more)
        command(root, "audit", run, "--n", LABELS, "--seed", len(rows), "--out", f"audit-{run}.csv")
        fill_in(root / f"audit-{run}.csv", truth)
        answer = command(root, "audit", run, "--labels", f"audit-{run}.csv")
        predicted = command(root, "predict", run, "b")["predictions"]
        right = sum(str(row["class"]) == truth[str(root / row["path"])] for row in predicted) / len(predicted)
        audited = {key: round(100 * answer["accuracy"][key], 1) for key in ("value", "low", "high")}
        rows.append({"run": run, **audited, "true accuracy": round(100 * right, 1)})
        if run == "first":
            command(root, "suggest", run, "--n", LABELS, "--exclude", "audit-first.csv", "--out", "todo.csv")
            fill_in(root / "todo.csv", truth)
    report("label loop", rows, arguments)

"""Does a step cost more when there is more data? Time for a step of Uni-HSSL against the number of unlabeled samples
(1e3 to 1e6 rows of pseudo-labels) and of classes (2 to 1,000), everything else fixed.

    python benchmarks/scaling.py --json scaling.json

Samples are feature vectors on a small network by default, so that whatever grows with N or C is not hidden behind a
large network; --backbone resnet50 shows the share of it in a real step.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import milliseconds, report

from unihssl.data.batches import PairedData, TrainingDomain
from unihssl.data.store import Store
from unihssl.data.views import Views
from unihssl.methods import get
from unihssl.methods.base import Task
from unihssl.methods.recipe import resolve
from unihssl.models.backbones import EncoderFactory
from unihssl.models.classifier import set_autocast
from unihssl.run_folder import RunFolder
from unihssl.training.fabric import autocast_dtype, make_fabric
from unihssl.training.loop import Trainer
from unihssl.training.optimizer import make_optimizer
from unihssl.training.step import Step

WIDTH = 64


def step_time(unlabeled: int, classes: int, arguments: argparse.Namespace) -> float:
    """Milliseconds for one step of the trainer, epoch boundaries left out."""
    vectors = arguments.backbone == "mlp"
    knobs = {"method": arguments.method, "backbone": arguments.backbone, "weights": "none", "batch_size": 32}
    settings, params = resolve(knobs | {"tensorboard": False, "epochs": 10**6})
    fabric = make_fabric(settings)
    encoders = EncoderFactory(arguments.backbone, "none", WIDTH if vectors else 0)
    shape = encoders.architecture
    labeled = 4096
    stored = torch.randn(4096, WIDTH) if vectors else torch.randint(256, (4096, 256, 256, 3), dtype=torch.uint8)
    store = Store(stored.to(fabric.device))
    views = Views(shape.side, shape.mean, shape.std)
    # Rows beyond the store show its samples again: their number counts here, not their pixels.
    rows = np.arange(unlabeled) % 4096
    domains = [
        TrainingDomain(store, np.arange(labeled), views, 32, 1, torch.arange(labeled) % classes),
        TrainingDomain(store, rows, views, 32, 2),
    ]
    data = PairedData(*domains, seed=0)
    method = get(arguments.method)(encoders, params, Task(classes, labeled, unlabeled), settings)
    if fabric.device.type == "cuda":
        method.to(memory_format=torch.channels_last)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(fabric, method, data, settings, RunFolder(folder), "benchmark")
        index = len(trainer.stages) - 1 if arguments.method == "unihssl" else 0
        stage = trainer.stages[index]
        set_autocast(method, autocast_dtype(settings, fabric.device))
        module = fabric.setup_module(method)
        module.train()
        optimizer = fabric.setup_optimizers(make_optimizer(method, stage.settings))
        stream = torch.cuda.Stream() if fabric.device.type == "cuda" else None
        with torch.cuda.stream(stream):
            step = Step(fabric, module, method, optimizer, data, stage.step, "step" if stream else "nothing", print)
            position = iter(range(1, 10**9))

            def one() -> None:
                number = next(position)
                data.reseed(index, number)
                data.load(index, number, 0.5)
                step()

            return milliseconds(one, arguments.steps, warm_up=10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="unihssl")
    parser.add_argument("--backbone", default="mlp")
    parser.add_argument("--unlabeled", default="1000,10000,100000,1000000")
    parser.add_argument("--classes", default="2,10,100,1000")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--json", type=Path, default=None, help="write the numbers here")
    arguments = parser.parse_args()
    by_rows: list[dict[str, Any]] = []
    for count in map(int, arguments.unlabeled.split(",")):
        took = step_time(count, 10, arguments)
        by_rows.append({"unlabeled samples": count, "classes": 10, "ms a step": took})
        by_rows[-1]["against the first"] = took / by_rows[0]["ms a step"]
    name = f"{arguments.method} {arguments.backbone}"
    report(f"scaling with samples, {name}", by_rows, arguments)
    by_classes: list[dict[str, Any]] = []
    for count in map(int, arguments.classes.split(",")):
        took = step_time(10_000, count, arguments)
        by_classes.append({"unlabeled samples": 10_000, "classes": count, "ms a step": took})
        by_classes[-1]["against the first"] = took / by_classes[0]["ms a step"]
    report(f"scaling with classes, {name}", by_classes, arguments)


if __name__ == "__main__":
    main()

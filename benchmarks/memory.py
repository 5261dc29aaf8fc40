"""Peak memory of a run against the number of unlabeled images, for each place they can live.

Each row is a process of its own that trains some steps of Uni-HSSL on a store of N images, without the first look at
all of them. With `--sparse` the store's file is a hole, so that even 200,000 images of 256 pixels (37 GiB) take no room
on the disk: good enough for memory, not for speed. `--limit` forbids a process more than so many GiB
of memory of its own (RLIMIT_DATA), as on a small machine; pages of a mapped file are not its own, the kernel takes
them back when it needs them.

    python benchmarks/memory.py --placements disk --images 1000,200000 --sparse --limit 4 --json memory.json
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import report


def status() -> dict[str, float]:
    """This process's memory in GiB: its own (anonymous), and of mapped files."""
    lines = [line.split() for line in Path("/proc/self/status").read_text().splitlines()]
    return {line[0][:-1]: int(line[1]) / 2**20 for line in lines if line[0] in ("RssAnon:", "RssFile:")}


class Peak(threading.Thread):
    """Looks at the process's memory all the time and keeps the most it saw."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most: dict[str, float] = {}

    def run(self) -> None:
        while True:
            for name, size in status().items():
                self.most[name] = max(size, self.most.get(name, 0.0))
            time.sleep(0.01)


def measure(placement: str, count: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train some steps with `count` unlabeled images placed there; runs in a process of its own."""
    if arguments.limit:
        resource.setrlimit(resource.RLIMIT_DATA, (int(arguments.limit * 2**30),) * 2)
    peak = Peak()
    peak.start()
    import numpy as np
    import torch
    from common import random_images

    from unihssl import methods
    from unihssl.data.domain import Domain
    from unihssl.data.pair import DomainPair, Part
    from unihssl.data.sample_file import SampleFile, open_samples
    from unihssl.data.split import Split
    from unihssl.data.store import Store, as_tensor
    from unihssl.data.views import Views
    from unihssl.methods.base import Task
    from unihssl.methods.recipe import resolve
    from unihssl.models.backbones import EncoderFactory
    from unihssl.run_folder import RunFolder
    from unihssl.training.display import Display
    from unihssl.training.fabric import make_fabric
    from unihssl.training.loop import Trainer

    torch.set_num_threads(2)
    side, classes = arguments.side, tuple(map(str, range(10)))
    knobs = {
        "backbone": arguments.backbone,
        "weights": "none",
        "placement": placement,
        "tensorboard": False,
        "batch_size": 32,
    }
    settings, params = resolve(knobs | {"max_steps": arguments.steps, "log_every": 10, "initial_view": "test"})
    fabric = make_fabric(settings)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder, Display() as display:
        path, shape = Path(folder) / "samples.npy", (count, side, side, 3)
        if arguments.sparse:
            np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)  # zeros that take no room
        else:
            with SampleFile(path, shape) as file:
                for row in range(count):
                    file.put(row, np.full(shape[1:], row % 251, dtype=np.uint8))
                file.finish(without=())
        few = 320
        labeled = Store(torch.from_numpy(random_images(few, side, 0)))
        unlabeled = Store(as_tensor(open_samples(path, shape)), on_disk=True)

        def part(store: Store) -> Part:
            names = tuple(map(str, range(len(store))))
            domain = Domain("synthetic", names, names, np.arange(len(store)) % 10, classes)
            return Part(domain, store, Split(np.arange(len(store)), np.arange(0)))

        pair = DomainPair(part(labeled), part(unlabeled), (side, side))
        encoders = EncoderFactory(settings.backbone, "none")
        look = encoders.architecture
        data, said = pair.training_data(Views(look.side, look.mean, look.std), settings, fabric.device, (0, 1))
        task = Task(10, few, count)
        method = methods.get("unihssl")(encoders, params, task, settings)
        trainer = Trainer(fabric, method, data, settings, RunFolder(folder), "benchmark")
        trainer.stages[1] = replace(trainer.stages[1], begin=None)  # which would look at every image once
        trainer.fit(pair.truth, display)
        speed = RunFolder(folder).read_metrics()[-1]["images_per_second"]
    on_gpu = fabric.device.type == "cuda"
    return {
        "placement": placement,
        "images": count,
        "store GiB": count * side * side * 3 / 2**30,
        "peak own GiB": peak.most["RssAnon"],
        "peak mapped GiB": peak.most["RssFile"],
        "peak GPU GiB": torch.cuda.max_memory_allocated() / 2**30 if on_gpu else None,
        "samples/s": speed,
        "said": said,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--placements", default="gpu,host,disk")
    parser.add_argument("--images", default="1000,10000,50000")
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--limit", type=float, default=0, help="GiB a process may have of its own; 0: no limit")
    parser.add_argument("--sparse", action="store_true", help="a store that takes no room on the disk")
    parser.add_argument("--folder", default=None, help="where to put the sparse store")
    parser.add_argument("--json", type=Path, default=None, help="write the numbers here")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        placement, count = arguments.one.split(",")
        print(json.dumps(measure(placement, int(count), arguments)))
        return
    rows: list[dict[str, Any]] = []
    for placement in arguments.placements.split(","):
        for count in arguments.images.split(","):
            command = [sys.executable, *sys.argv, "--one", f"{placement},{count}"]
            done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
            last = (done.stdout.strip().splitlines() or [""])[-1]
            failed = {
                "placement": placement,
                "images": int(count),
                "said": (done.stderr.strip().splitlines() or ["?"])[-1],
            }
            rows.append(json.loads(last) if done.returncode == 0 else failed)
    title = f"memory, {arguments.backbone}" + (f", {arguments.limit:g} GiB allowed" if arguments.limit else "")
    report(title, rows, arguments)


if __name__ == "__main__":
    main()

"""Training speed of every method against the limit of its own network, measured in the same process.

The limit is the bare step: forward, backward and optimiser of exactly the network passes the method's main stage makes,
on random inputs that are already there; no data, views, losses or memories. It runs as it is (eager) and as a CUDA
graph. Our loop is the real one: `unihssl.pipeline.train`, whose own log says how long its steps took: as it runs by
default, a step captured whole as a graph; with graphs of the network's passes alone (`graph=network`); with none
(`graph=off`).

    python benchmarks/throughput.py --backbone resnet50 --methods unihssl,fixmatch --json throughput.json
"""

import argparse
import itertools
import json
import multiprocessing
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import captured, milliseconds, random_images, report
from usual_loop import make_jpeg_domain, usual_loop

from unihssl import methods
from unihssl.data.batches import PairedData, TrainingDomain
from unihssl.data.store import Store
from unihssl.data.views import Views
from unihssl.methods.base import Method, Stage, Task
from unihssl.methods.recipe import resolve
from unihssl.models.backbones import EncoderFactory
from unihssl.models.classifier import Classifier, set_autocast
from unihssl.pipeline.train import train
from unihssl.run_folder import RunFolder
from unihssl.training.display import Display
from unihssl.training.fabric import autocast_dtype, make_fabric
from unihssl.training.optimizer import make_optimizer

Sources = tuple[Any, Any]
SETTLED, LOG_EVERY = 100, 50  # steps that do not count, and from one reading of the clock to the next
MAIN = {"unihssl": "adapt", "biadapt": "return"}  # stage 2; the others have one stage of their own name


def knobs_for(row: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Of a method, or of method:preset."""
    method, _, preset = row.partition(":")
    given = {
        "method": method,
        "preset": preset,
        "backbone": arguments.backbone,
        "weights": "none",
        "batch_size": arguments.batch,
    }
    return given | {"image_size": arguments.side, "tensorboard": False, "precision": arguments.precision}


def main_stage(method: str) -> str:
    return MAIN.get(method, method.removesuffix("+sup"))


def synthetic(arguments: argparse.Namespace) -> Sources:
    x, u = (random_images(arguments.images, arguments.side, seed) for seed in (1, 2))
    labels = np.arange(arguments.images) % arguments.classes
    return (x, labels), (u, labels)


def loop_speed(
    row: str, arguments: argparse.Namespace, sources: Sources | None = None, **knobs: Any
) -> tuple[float, float]:
    """Milliseconds for a step of the main stage, and samples fetched a step, by the run's own log."""
    labeled, unlabeled = sources or synthetic(arguments)
    method = row.partition(":")[0]
    stage = main_stage(method)
    extra = {"max_steps": arguments.steps, "log_every": LOG_EVERY, "pretrain_epochs": 1, "test_fraction": 0.01}
    known = {**knobs_for(row, arguments), **extra, **knobs}
    if not hasattr(resolve({"method": method})[1], "pretrain_epochs"):
        del known["pretrain_epochs"]
    with tempfile.TemporaryDirectory() as folder, Display() as display:
        train(Path(folder) / "run", labeled, unlabeled, known, resume=False, display=display)
        rows = [row for row in RunFolder(Path(folder) / "run").read_metrics() if row["stage"] == stage]
    samples = (1 if method == "supervised" else 2) * arguments.batch
    steady = [
        (now["step"] - before["step"], now) for before, now in itertools.pairwise(rows) if before["step"] >= SETTLED
    ]
    seconds = sum(steps * samples / row["images_per_second"] for steps, row in steady)
    return 1e3 * seconds / sum(steps for steps, _ in steady), samples


class Bench:
    """A method set up on random data, to look at the parts of its main stage."""

    def __init__(self, name: str, arguments: argparse.Namespace) -> None:
        torch.manual_seed(0)
        settings, params = resolve(knobs_for(name, arguments))
        self.fabric = make_fabric(settings)
        encoders = EncoderFactory(settings.backbone, "none")
        shape, device = encoders.architecture, self.fabric.device
        count = 4 * arguments.batch
        views = Views(shape.side, shape.mean, shape.std, settings.weak_view, strong_view=settings.strong_view)
        labels = torch.arange(count) % arguments.classes
        stores = [Store(torch.from_numpy(random_images(count, arguments.side, i)).to(device)) for i in (1, 2)]
        sizes = (settings.batch_size, settings.unlabeled_batch or settings.batch_size)
        domains = [
            TrainingDomain(store, np.arange(count), views, size, i, None if i else labels)
            for i, (store, size) in enumerate(zip(stores, sizes, strict=True))
        ]
        self.data = PairedData(*domains, seed=0)
        method: Method = methods.get(settings.method)(encoders, params, Task(arguments.classes, count, count), settings)
        self.method = method.to(device, memory_format=torch.channels_last).train()
        self.autocast = autocast_dtype(settings, device)
        set_autocast(self.method, self.autocast)
        main = main_stage(settings.method)
        self.index, self.stage = next((i, s) for i, s in enumerate(method.stages()) if s.name == main)
        self.calls, self.views = self._watch(self.stage)

    def _watch(self, stage: Stage) -> tuple[list[tuple[torch.nn.Module, torch.Tensor, bool]], list[tuple[str, str]]]:
        """One step, to see which network passes it makes and which views it asks for."""
        calls: list[tuple[torch.nn.Module, torch.Tensor, bool]] = []
        hooks = [
            part.encoder.register_forward_pre_hook(
                lambda module, args: calls.append((module, torch.randn_like(args[0]), torch.is_grad_enabled()))
            )
            for part in self.method.modules()
            if isinstance(part, Classifier)
        ]
        self.data.reseed(self.index, 0)
        self.data.load(self.index, 0, 0.5)
        batch = self.data.batch()
        self.method(stage.step, batch)
        for hook in hooks:
            hook.remove()
        domains = [d for d in ("labeled", "unlabeled") if d in vars(batch)]
        return calls, [(d, v) for d in domains for v in ("weak", "crop", "strong") if v in vars(getattr(batch, d))]

    def bare_step(self) -> Callable[[], None]:
        """Forward, backward and optimiser of the network passes alone."""
        optimizer = make_optimizer(self.stage.trains or self.method, self.stage.settings)

        def step() -> None:
            outputs = []
            for encoder, x, gradient in self.calls:
                with self._autocast(), torch.set_grad_enabled(gradient):
                    out = encoder(x)
                outputs += [out.float().mean()] if gradient else []
            torch.stack(outputs).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.fabric.device.type, torch.bfloat16, enabled=self.autocast is not None)

    def views_only(self) -> None:
        batch = self.data.batch()
        for domain, view in self.views:
            getattr(getattr(batch, domain), view)


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The bare eager step is timed before and after each of our loops beside it: the host's speed drifts."""
    bench = Bench(name, arguments)
    on_gpu = bench.fabric.device.type == "cuda"
    bare = bench.bare_step()
    eager = [milliseconds(bare)]
    row: dict[str, Any] = {"method": name, "through the network": sum(len(x) for _, x, _ in bench.calls)}
    slower = ["network"] if arguments.graph_only else ["off", "network"]
    for graph in slower if on_gpu else ["off"]:
        row[f"loop {graph} ms"], samples = loop_speed(name, arguments, graph=graph)
        eager.append(milliseconds(bare))
    if on_gpu:
        row["bare graph ms"] = milliseconds(captured(bare))
        row["views ms"] = milliseconds(captured(bench.views_only, bench.data.random.generators))
        del bench, bare
        torch.cuda.empty_cache()
        row["loop ms"], samples = loop_speed(name, arguments)
        row["rest ms"] = row["loop ms"] - row["bare graph ms"] - row["views ms"]
        row["loop: share of bare graph"] = row["bare graph ms"] / row["loop ms"]
    row["bare eager ms"] = statistics.mean(eager)
    for loop in ("loop off", "loop network", "loop"):
        if f"{loop} ms" in row:
            row[f"{loop}: share of bare eager"] = row["bare eager ms"] / row[f"{loop} ms"]
    row["samples/s"] = 1e3 * samples / row["loop ms" if on_gpu else "loop off ms"]
    return row


def packed_worker(arguments: argparse.Namespace, together: Any, out: Any) -> None:
    together.wait()
    out.put(loop_speed("unihssl:paper", arguments))


def packed(count: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """`count` runs at once on one card: samples per second of all together."""
    context = multiprocessing.get_context("spawn")
    together, out = context.Barrier(count), context.Queue()
    workers = [context.Process(target=packed_worker, args=(arguments, together, out)) for _ in range(count)]
    for worker in workers:
        worker.start()
    speeds = [1e3 * samples / ms for ms, samples in (out.get() for _ in workers)]
    for worker in workers:
        worker.join()
    return {"runs at once": count, "samples/s together": sum(speeds), "slowest": min(speeds), "fastest": max(speeds)}


def against_the_usual(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """The same JPEG folders, network and batch: the loop people usually write, and ours."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        per_class = arguments.images // arguments.classes
        folders = [
            make_jpeg_domain(Path(scratch) / name, arguments.classes, per_class, 400, seed)
            for seed, name in enumerate(("labeled", "unlabeled"))
        ]
        device = make_fabric(resolve({})[0]).device
        for workers in (4, 8):
            network = EncoderFactory(arguments.backbone, "none")()[0]
            speed = usual_loop(*folders, network, arguments.classes, 80, 20, workers, device)
            rows.append({"loop": f"usual, {workers} workers a domain", "samples/s": speed.fetched_per_second})
        ms, samples = loop_speed("unihssl:paper", arguments, (folders[0], folders[1]), cache=f"{scratch}/cache")
        rows.append({"loop": "ours", "samples/s": 1e3 * samples / ms})
    for row in rows:
        row["ours against it"] = rows[-1]["samples/s"] / row["samples/s"]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--methods", default="all")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--side", type=int, default=256, help="of the stored images")
    parser.add_argument("--images", type=int, default=2000, help="in each domain")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--steps", type=int, default=300, help="of each stage of our loop")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--graph-only", action="store_true", help="leave the loop with graph=off out")
    parser.add_argument("--tune", action="store_true", help="let cuDNN try its algorithms and take the fastest")
    parser.add_argument("--pack", default="", help="how many runs to put on one card at once, such as 1,2,3")
    parser.add_argument("--usual", action="store_true", help="compare with the usual training loop on JPEG folders")
    parser.add_argument("--json", type=Path, default=None, help="write the numbers here")
    arguments = parser.parse_args()
    if arguments.steps < SETTLED + LOG_EVERY:
        parser.error(f"--steps must be at least {SETTLED + LOG_EVERY}: the first {SETTLED} do not count")
    torch.backends.cudnn.benchmark = arguments.tune
    names = (
        [*methods.available(), "unihssl:paper"]
        if arguments.methods == "all"
        else [n for n in arguments.methods.split(",") if n]
    )
    rows = []
    for name in names:
        rows.append(measure(name, arguments))
        print(json.dumps(rows[-1]), flush=True)
    if rows:
        report(f"throughput {arguments.backbone}", rows, arguments)
    if arguments.usual:
        report(f"against the usual training loop, {arguments.backbone}", against_the_usual(arguments), arguments)
    together = [packed(int(count), arguments) for count in arguments.pack.split(",") if count]
    if together:
        report(f"packed {arguments.backbone}", together, arguments)


if __name__ == "__main__":
    main()

"""What the processes of test_processes.py run.

With `train-all ROOT`: every case of ROOT/cases.json in turn, BatchNorm layers by themselves, and at last a run that is
refused. With `share ROOT DEVICE`: the cases again, all processes on this one device. With other arguments: the command
line, disturbed as the variable DISTURB says.

On the CPU everything is trained in double precision: two processes add up in another order than one.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
from timm.layers import BatchNormAct2d
from torch import nn

from precision import double_precision

LAYERS = {
    "1d": lambda: nn.BatchNorm1d(3),
    "2d": lambda: nn.BatchNorm2d(3),
    "single": lambda: nn.BatchNorm2d(3).float(),
    "kept": lambda: nn.BatchNorm2d(3, momentum=0.0),
    "cumulative": lambda: nn.BatchNorm2d(3, momentum=None),
    "plain": lambda: nn.BatchNorm2d(3, affine=False),
    "timm": lambda: BatchNormAct2d(3),
}


def through_layer(name: str, synchronise, part: slice) -> dict[str, torch.Tensor]:
    """Two training passes and one in evaluation mode over rows of a fixed batch; outputs, gradients and statistics."""
    torch.manual_seed(0)
    layer = LAYERS[name]()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    network = nn.Sequential(layer)
    synchronise(network)
    shape = (8, 3) if name == "1d" else (8, 3, 4, 5)
    x = torch.randn(shape, dtype=torch.float32 if name == "single" else torch.float64) * 3 + 7
    own = x[part].clone().requires_grad_()
    for _ in range(2):
        out = network(own)
        (out**2 * x[part]).sum().backward()
    network.eval()
    seen = {"out": out, "eval": network(own), "input": own.grad}
    found = seen | {f"grad {n}": p.grad for n, p in network.named_parameters()} | network.state_dict()
    return {n: t.detach() for n, t in found.items()}


def train_cases(root: Path):
    """Every process leaves its state; the last model."""
    from unihssl.pipeline.train import train
    from unihssl.training import loop
    from unihssl.training.display import Display

    torch.set_num_threads(1)
    finish = loop.Trainer.fit

    def fit(self, *arguments):
        finish(self, *arguments)
        torch.save(self.method.state_dict(), root / f"{self.folder.path.name}.{self.fabric.global_rank}.pt")

    loop.Trainer.fit = fit
    capture = torch.cuda.make_graphed_callables
    for name, knobs in json.loads((root / "cases.json").read_text()).items():
        torch.cuda.make_graphed_callables = noted(capture, root / "captured", name)
        with Display() as display:
            model = train(root / name, *data_of(root), {"devices": 2, **knobs}, resume=False, display=display)
    return model


def noted(function, file: Path, name: str):
    """The function, leaving a trace of every call that succeeds."""

    def call(*arguments, **named):
        found = function(*arguments, **named)
        with file.open("a") as log:
            log.write(f"{name}\n")
        return found

    return call


def data_of(root: Path) -> tuple[str, str]:
    return str(root / "labeled.npz"), str(root / "unlabeled.npz")


def share(device: torch.device) -> None:
    """Let two processes use one device, which NCCL would refuse."""
    from unihssl.training import fabric as module

    fabric = module.Fabric

    def on_one(strategy, **others):
        strategy.parallel_devices, strategy._process_group_backend = [device, device], "gloo"
        return fabric(strategy=strategy, **{n: v for n, v in others.items() if n not in ("accelerator", "devices")})

    module.Fabric, module._refuse_too_many = on_one, lambda *_: None


def train_all(root: Path) -> None:
    from unihssl.cli import main
    from unihssl.training.distributed import synchronise_batch_norm as synchronise

    model, data = train_cases(root), data_of(root)
    rank = torch.distributed.get_rank()
    on_host = torch.device("cpu")
    layers = {n: through_layer(n, lambda m: synchronise(m, on_host), slice(rank, None, 2)) for n in LAYERS}
    torch.save(layers, root / f"layers.{rank}.pt")
    if rank == 0:  # alone: nobody answers
        np.save(root / "probabilities.npy", model.predict_proba(np.load(data[1])["x"]))
    settings = ["--set=devices=2", "--set=device=cpu", "--set=batch_size=7", "--set=backbone=small_cnn"]
    sys.argv[1:] = ["train", "--labeled", data[0], "--unlabeled", data[1], "--out", str(root / "refused"), *settings]
    main()


def disturb(rank: int, step: int, number: int, other: str, folder: str) -> None:
    """At this step this process gets the signal; the others hang in there, if so wished. All leave traces."""
    from unihssl.data import cache
    from unihssl.training.log import Recorder

    here = Path(folder)
    decode, add = cache.decode_files, Recorder.add

    def slow(*arguments):
        with (here / "decoded").open("a") as log:
            log.write(f"{os.getpid()}\n")
        time.sleep(0.5)
        return decode(*arguments)

    def added(self, images, done):
        add(self, images, done)
        self.count = getattr(self, "count", 0) + 1
        (here / f"pid{self.fabric.global_rank}").write_text(str(os.getpid()))
        if self.count == step and self.fabric.global_rank == rank:
            (here / "when").write_text(str(time.time()))
            os.kill(os.getpid(), number)
        elif self.count == step and other == "hangs":
            time.sleep(600)

    cache.decode_files, Recorder.add = slow, added


if __name__ == "__main__":
    if sys.argv[1] == "train-all":
        with double_precision():
            train_all(Path(sys.argv[2]))
    elif sys.argv[1] == "share":
        torch.backends.cudnn.allow_tf32 = False
        share(torch.device(sys.argv[3]))
        train_cases(Path(sys.argv[2]))
    else:
        from unihssl.cli import main

        disturb(**json.loads(os.environ["DISTURB"]))
        with double_precision():
            main()

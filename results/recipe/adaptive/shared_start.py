"""Compares settings of Uni-HSSL's second stage, as compare.py does: runs whose pre-training is the same share it.

    python shared_start.py OUT.jsonl WORKERS 0 SECONDS TASKS.json

Tasks are those of compare.py; none may set what pre-training depends on and `file_of` leaves out. A data set that the
catalog lacks is a folder of STAGE with a folder for each domain.
"""

import hashlib
import os
import sys
from dataclasses import replace
from pathlib import Path

from unihssl.data import catalog
from unihssl.experiments.protocol import Protocol
from unihssl.methods.unihssl import UniHSSL

sys.path.insert(0, str(Path(__file__).parent))
import compare

PRETRAINED = compare.STAGE / "pretrained"
BY_PRETRAINING = ["labeled_view", "pretrain_epochs", "bottleneck"]


def share_pretraining(task):
    """Take the pre-trained network of an earlier run with the same pre-training, or keep this one's."""
    import torch

    stages = UniHSSL.__dict__.get("own_stages", UniHSSL.stages)
    begin = UniHSSL.__dict__.get("own_begin", UniHSSL.begin_adapt)
    UniHSSL.own_stages, UniHSSL.own_begin = stages, begin

    def file_of(method):
        s, p = method.settings, method.params
        what = [task["dataset"], task["pair"], s.seed, s.lr, s.head_lr, s.max_steps, s.sampling, s.image_size, s.split]
        what += [(vars(s) | vars(p))[name] for name in BY_PRETRAINING]  # `labeled_view` was one of p's until 0a14d6cb
        return PRETRAINED / (hashlib.sha1(repr(what).encode()).hexdigest()[:16] + ".pt")

    def stages_shared(method):
        first, second = stages(method)
        if file_of(method).exists():
            first = replace(first, settings=replace(first.settings, epochs=0, steps=0))
        return [first, second]

    def begin_shared(method, data):
        file = file_of(method)
        if file.exists():
            method.network.load_state_dict(torch.load(file, weights_only=True))
        else:
            PRETRAINED.mkdir(exist_ok=True)
            part = file.with_suffix(f".{os.getpid()}")
            torch.save(method.network.state_dict(), part)
            part.rename(file)
        begin(method, data)

    UniHSSL.stages, UniHSSL.begin_adapt = stages_shared, begin_shared


train = compare.train


def train_shared(task):
    if task.get("row", "unihssl") == "unihssl":
        share_pretraining(task)
    if task["dataset"] in catalog.DATASETS:
        return train(task)
    names = task["pair"].split("/")
    load = catalog.load
    catalog.load = lambda *_: [str(compare.STAGE / task["dataset"] / name) for name in names]
    knobs = Protocol.knobs
    Protocol.knobs = lambda self, row: {k: v for k, v in knobs(self, row).items() if k != "split"}
    try:
        return train(task | {"dataset": "pacs"})
    finally:
        catalog.load, Protocol.knobs = load, knobs


compare.train = train_shared
if __name__ == "__main__":
    compare.main()

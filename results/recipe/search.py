"""How sections 3 and 5 of docs/recipe.md were measured: recipes by what they say of unlabeled training samples.

    python search.py OUT robust,robust+weak P/A,P/C --pacs DIR --office DIR --weights resnet50.safetensors

Recipes whose pre-training is set alike share it (OUT-pretrained), which no command of the package does. Nothing of a
test sample is printed. The runs of section 5 had `variants.patch` applied and were told which by VARIANT.
"""

import argparse
import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import unihssl.api
from unihssl.data import catalog
from unihssl.data.batches import PairedData
from unihssl.experiments.grid import Role, run_grid
from unihssl.experiments.launchers import make_launcher
from unihssl.experiments.protocol import Protocol
from unihssl.methods.base import Stage
from unihssl.methods.unihssl import UniHSSL

D = {"preset": "paper", "initial_statistics": "unlabeled", "first_half": "fold", "lambda_confusion": 1.0} | {
    "ramp_up": 1.0,
    "head_lr": 10.0,
    "unlabeled_view": "strong",
    "beta": 0.5,
}
RECIPES: dict[str, dict[str, Any]] = {"D": D, "robust": {"preset": "robust"}}
CHANGES: dict[str, dict[str, Any]] = {
    "half_ramp": {"ramp_up": 0.5},
    "inverse": {"schedule": "inverse"},
    "hard": {"pseudo_kind": "hard"},
    "crops": {"weak_view": "resized_crop", "area_labeled": 0.08, "area_unlabeled": 0.5},
    "lr": {"lr": 1e-3},
    "bottleneck": {"bottleneck": 1024},
    "weak": {"unlabeled_view": "weak"},
}
PACS = ("P/A", "P/C")
KEPT = "UNIHSSL_SEARCH_KEPT"  # where pre-trained networks lie, for the processes that train

stages, begin_adapt = UniHSSL.stages, UniHSSL.begin_adapt
unihssl.api.LOOKED_AT = 10**6  # all unlabeled training samples, not some 500


def pretrained(method: UniHSSL) -> Path:
    s, p, task = method.settings, method.params, method.task
    what = [task.num_labeled, task.num_unlabeled, s.seed, s.lr, s.head_lr, s.weak_view, s.area_labeled, s.max_steps]
    what += [s.weight_decay, p.bottleneck, p.pretrain_steps, p.pretrain_epochs]
    return Path(os.environ[KEPT]) / (hashlib.sha1(repr(what).encode()).hexdigest()[:16] + ".pt")


def short_stages(method: UniHSSL) -> list[Stage]:
    first, second = stages(method)
    if pretrained(method).exists():
        first = replace(first, settings=replace(first.settings, epochs=0, steps=1))
    return [first, second]


def begin_from_kept(method: UniHSSL, data: PairedData) -> None:
    file = pretrained(method)
    if file.exists():
        method.network.load_state_dict(torch.load(file, map_location="cpu"))
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.save(method.network.state_dict(), file.with_suffix(f".{os.getpid()}"))
        file.with_suffix(f".{os.getpid()}").rename(file)
    begin_adapt(method, data)


UniHSSL.stages, UniHSSL.begin_adapt = short_stages, begin_from_kept  # in this process and those it starts


def recipe(name: str) -> dict[str, Any]:
    base, *changes = name.split("+")
    return RECIPES[base] | {knob: value for change in changes for knob, value in CHANGES[change].items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("recipes")
    parser.add_argument("pairs")
    parser.add_argument("--pacs", type=Path)
    parser.add_argument("--office", type=Path)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    a = parser.parse_args()
    os.environ[KEPT] = str(a.out.with_name(a.out.name + "-pretrained").absolute())
    for dataset, root in (("pacs", a.pacs), ("office-caltech-10", a.office)):
        pairs = [pair for pair in a.pairs.split(",") if (pair in PACS) == (dataset == "pacs")]
        if not pairs:
            continue
        protocol = Protocol(catalog.get(dataset), root, "fast", {"weights": a.weights})
        runs = [
            protocol.run(pair, "unihssl", a.seed, Role("search", name), **recipe(name))
            for name in a.recipes.split(",")
            for pair in pairs
        ]
        for run in run_grid(runs, protocol.loader, a.out, make_launcher("local", a.workers)):
            if run.result is None:
                print(run.roles[0].variant, run.pair, run.failure)
                continue
            rows = map(json.loads, (run.folder(a.out) / "metrics.jsonl").read_text().splitlines())
            right = [100 * row["oracle_pseudo_accuracy"] for row in rows if "oracle_pseudo_accuracy" in row]
            found = run.result["unlabeled_training"]
            print(os.environ.get("VARIANT", ""), run.roles[0].variant, run.pair, end=" ")
            print(f"train {100 * found['accuracy']:.1f} n {found['n']} pseudo {right[0]:.1f}->{right[-1]:.1f}")


if __name__ == "__main__":
    main()

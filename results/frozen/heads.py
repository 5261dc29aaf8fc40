"""Heads on frozen features, many pairs and seeds: `heads.py DATA FEATURES WEIGHTS PAIRS METHODS SEEDS OUT.jsonl [VIEWS]`.

DATA/domain holds the images, FEATURES/domain.npz what `unihssl features` wrote for them (--set precision=bf16). The
test view's features are taken from there, and the heads are scored on them: what the whole model computes, without
passing all images through the backbone for each of the runs.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import torch

import unihssl
from unihssl.data.store import Store
from unihssl.evaluation.model import Model
from unihssl.training.frozen import FrozenBackbone

data, files, weights, pairs, methods, seeds, out = sys.argv[1:8]
views = int(sys.argv[8]) if len(sys.argv) > 8 else 0
torch.set_num_threads(1)
here: dict[str, torch.Tensor] = {}  # of this run, by role
compute, predict = FrozenBackbone._computed, Model.predict_store
FrozenBackbone._computed = lambda self, role, store, v, name: (
    here[role] if name.kind == "test" else compute(self, role, store, v, name)
)
FrozenBackbone.attach = lambda self, network: None  # the head is scored on features


def predict_store(self, store, rows=None, batch=256):
    (features,) = (x for x in here.values() if len(x) == len(store))
    return predict(self, Store(features), rows, batch)


Model.predict_store = predict_store
warnings.simplefilter("ignore")
for seed in map(int, seeds.split(",")):
    for pair in pairs.split(","):
        labeled, unlabeled = pair.split("/")
        for role, name in (("labeled", labeled), ("unlabeled", unlabeled)):
            here[role] = torch.from_numpy(np.load(Path(files, f"{name}.npz"))["x"])
        for method in methods.split(","):
            office = labeled in ("amazon", "caltech10", "dslr", "webcam")
            knobs = {"train": "head", "feature_views": views, "precision": "bf16", "weights": weights}
            knobs |= {"epochs": 20, "max_steps": 300 if office else 500, "tensorboard": False}
            knobs |= {"sup_epochs": 20, "router_epochs": 3} if method.endswith("+sup") else {}
            knobs |= {"pretrain_epochs": 10} if method == "unihssl" else {}
            sources = (str(Path(data, name)) for name in (labeled, unlabeled))
            found = unihssl.fit(*sources, method=method, seed=seed, **knobs).result
            row = {"pair": pair, "method": method, "seed": seed, "views": views}
            row |= {part: found[part]["accuracy"] for part in ("pooled", "labeled", "unlabeled")}
            with Path(out).open("a") as file:
                file.write(json.dumps(row | {"unlabeled_macro_f1": found["unlabeled"]["macro_f1"]}) + "\n")

"""frozen_search.py OUT.jsonl PAIRS NAMES SHIFTS SEEDS: recipes on features of a frozen ResNet-50, search part.

FEATURES/domain.npz is what `unihssl features` wrote (--set precision=bf16), DATA/pacs/domain and so on the images.
"""
import json, sys, warnings
from itertools import product
from pathlib import Path
import numpy as np, torch
from sklearn.metrics import f1_score
import unihssl
from unihssl.data.store import Store
from unihssl.evaluation import check_run
from unihssl.evaluation.model import Model
from unihssl.pipeline import measure
from unihssl.training.frozen import FrozenBackbone
V = {"default": {}, "balanced": {"unlabeled_sampling": "balanced"}, "both balanced": {"unlabeled_sampling": "balanced", "sampling": "balanced"}, "labeled balanced": {"sampling": "balanced"}}
ROOT = {n: "pacs" for n in ("photo", "art_painting", "cartoon")} | {n: "aerial" for n in ("aid", "rsscn7")} | {n: "oc" for n in ("amazon", "dslr", "webcam", "caltech10")}
out, pairs, names, shifts, seeds = sys.argv[1:6]
torch.set_num_threads(1); warnings.simplefilter("ignore")
here, seen = {}, {}
compute, predict, first = FrozenBackbone._computed, Model.predict_store, check_run.check_unlabeled
FrozenBackbone._computed = lambda self, role, store, v, name: here[role] if name.kind == "test" else compute(self, role, store, v, name)
FrozenBackbone.attach = lambda self, network: None
def predict_store(self, store, rows=None, batch=256, **more):
    (features,) = (x for x in here.values() if len(x) == len(store))
    return predict(self, Store(features), rows, batch, **more)
Model.predict_store = predict_store
def check(model, pair, *rest, **named):
    rows = pair.unlabeled.split.train
    p = model.probabilities(model.predict_store(pair.unlabeled.store, rows)).argmax(1); y = pair.unlabeled.domain.labels[rows]
    seen.update(accuracy=round(100*float(np.mean(p == y)),1), macro_f1=round(100*float(f1_score(y, p, average="macro")),1))
    return first(model, pair, *rest, **named)
measure.check_unlabeled = check
for seed, shift, pair, name in product(map(int, seeds.split(",")), map(int, shifts.split(",")), pairs.split(","), names.split(",")):
    a, b = pair.split("/")
    for role, n in (("labeled", a), ("unlabeled", b)): here[role] = torch.from_numpy(np.load(f"FEATURES/{n}.npz")["x"])
    if len(here["labeled"]) == len(here["unlabeled"]): here["unlabeled"] = here["unlabeled"][:]  # told apart below
    knobs = dict(train="head", feature_views=0, precision="bf16", weights="resnet50.safetensors", epochs=20, max_steps=300 if ROOT[a]=="oc" else 500, pretrain_epochs=10, tensorboard=False, split="search", threads=1, seed=seed, verbose=False)
    if shift > 1: knobs["label_shift"] = shift
    r = unihssl.fit(*(f"DATA/{ROOT[n]}/{n}" for n in (a, b)), **knobs, **V[name]).result
    row = {"name": name, "dataset": "frozen", "pair": pair, "seed": seed, "set": {"label_shift": shift} if shift > 1 else {}} | seen | {k: round(100*r[k]["accuracy"],1) for k in ("pooled","labeled","unlabeled")}
    open(out, "a").write(json.dumps(row) + "\n")

"""Digits whose labeled classes are thinned, the unlabeled ones as they are or thinned alike; drawn in turn or by class.

    PYTHONPATH=../../../benchmarks python imbalance.py imbalance.jsonl

split=search; scores on all unlabeled training samples of the search part.
"""
import json, sys
from itertools import product
import numpy as np
from rare_classes import thinned
from sklearn.metrics import f1_score, recall_score
import unihssl
import unihssl.evaluation.check_run as check_run
import unihssl.pipeline.measure as measure
from unihssl.data.catalog.digits import embedded_digits
seen, first = {}, check_run.check_unlabeled

def check(model, pair, *rest, **named):
    rows = pair.unlabeled.split.train
    predicted = model.probabilities(model.predict_store(pair.unlabeled.store, rows)).argmax(1)
    true = pair.unlabeled.domain.labels[rows]
    seen.update(n=len(rows), accuracy=float((predicted == true).mean()), macro_f1=float(f1_score(true, predicted, average="macro")), class_mean=float(recall_score(true, predicted, average="macro")))
    return first(model, pair, *rest, **named)

measure.check_unlabeled = check
done = set()
try:
    for line in open(sys.argv[1]):
        r = json.loads(line); done.add((r["seed"], r["ratio"], r["unlabeled"], r["pair"], r["sampling"], r["method"]))
except FileNotFoundError: pass
method = sys.argv[2] if len(sys.argv) > 2 else "unihssl"
for seed, ratio, alike, pair, sampling in product(range(2), (20, 5), ("whole", "alike"), ("mnist/uci", "uci/mnist"), ("shuffle", "balanced")):
    if (seed, ratio, alike, pair, sampling, method) in done: continue
    (x, y), (u, v) = map(embedded_digits, pair.split("/"))
    if alike == "alike": u, v = thinned(u, v, ratio, seed + 100)
    made = unihssl.fit(thinned(x, y, ratio, seed), (u, v), method=method, verbose=False, backbone="small_cnn", flip=False, threads=1, seed=seed, sampling=sampling, split="search")
    row = dict(method=method, seed=seed, ratio=ratio, unlabeled=alike, pair=pair, sampling=sampling) | {k: round(100 * w, 1) if k != "n" else w for k, w in seen.items()}
    print(row, flush=True)
    with open(sys.argv[1], "a") as f: f.write(json.dumps(row) + "\n")

"""Digits trained from the same split and first weights with other draws of batches and views: which run keeps all classes?

    python candidates.py OUT.jsonl WORKERS TASKS.json

A task is {"pair", "seed", "set", "offset", "from"}: `offset` 0 are the seed's own draws; others draw anew from stage `from`
on (0 pre-training, 1 the second stage). `curve` and `table` have, at the start of each epoch of the second stage, macro F1
(%), Corr-C and the rarest class's share times C of what the network predicts for the unlabeled training samples, and of
their pseudo-labels; `final_f1` and `final_corr` the finished model's. STAGE is the folder with digits. What is in OUT is
not run again.
"""

import json
import multiprocessing as mp
import os
import sys
import time
import traceback
import warnings
from pathlib import Path

STAGE = Path(os.environ.get("STAGE", Path.home() / "stage"))
STEP = 7919  # between the seeds of two draws


def train(task):
    import numpy as np
    import torch
    from sklearn.metrics import f1_score

    import unihssl
    from unihssl.data import catalog
    from unihssl.evaluation import check_run
    from unihssl.evaluation.validators import corr_c
    from unihssl.experiments.protocol import Protocol
    from unihssl.methods.unihssl import UniHSSL
    from unihssl.pipeline import measure
    from unihssl.training.loop import Trainer

    run_stage = getattr(Trainer, "first", Trainer._run_stage)
    each_epoch = getattr(UniHSSL, "first", UniHSSL.each_epoch)
    check = getattr(check_run, "first", check_run.check_unlabeled)
    Trainer.first, UniHSSL.first, check_run.first = run_stage, each_epoch, check
    epochs, seen = [], {}

    def run_stage_anew(self, index, saved):
        if index == task["from"]:
            for data in (self.data, *self.data.domains):
                data.seed += STEP * task["offset"]
        return run_stage(self, index, saved)

    def each_epoch_seen(self, data, epoch):
        each_epoch(self, data, epoch)
        predicted = torch.zeros(len(data.unlabeled), self.num_classes)
        for samples, logits in self._sweep(data, "test"):
            predicted[samples.rows] = logits.softmax(1).unflatten(1, (2, -1)).amax(1).float()
        predicted /= predicted.sum(1, keepdim=True)
        pseudo = self.pseudo_labels.table.unflatten(1, (2, -1)).sum(1)
        epochs.append((predicted.numpy(), pseudo.numpy().copy()))
        seen["rows"] = data.unlabeled.rows.numpy().copy()

    def check_seen(model, pair, *rest, **named):
        rows, domain = pair.unlabeled.split.train, pair.unlabeled.domain
        p = model.probabilities(model.predict_store(pair.unlabeled.store, rows))
        seen.update(f1=f1_score(domain.labels[rows], p.argmax(1), average="macro"), corr=corr_c(p.astype(float)))
        seen["labels"] = np.asarray(domain.labels)
        return check(model, pair, *rest, **named)

    Trainer._run_stage, UniHSSL.each_epoch, measure.check_unlabeled = run_stage_anew, each_epoch_seen, check_seen
    asked = {"split": "search", "threads": 1} | task["set"]
    knobs = Protocol(catalog.get("digits"), STAGE / "digits", "recipe", asked).knobs("unihssl")
    domains = catalog.load("digits", task["pair"], STAGE / "digits")
    begin = time.time()
    result = unihssl.fit(*domains, seed=task["seed"], device="cpu", verbose=False, **knobs).result
    true = seen["labels"][seen["rows"]]

    def described(p):
        classes = p.argmax(1)
        least = np.bincount(classes, minlength=p.shape[1]).min() / len(p) * p.shape[1]
        f1 = f1_score(true, classes, average="macro")
        return [round(100 * f1, 1), round(corr_c(p.astype(float)), 4), round(float(least), 3)]

    return {
        "curve": [described(p) for p, _ in epochs],
        "table": [described(p) for _, p in epochs],
        "final_f1": round(100 * seen["f1"], 1),
        "final_corr": round(seen["corr"], 4),
        "pooled": round(100 * result["pooled"]["accuracy"], 1),
        "sec": round(time.time() - begin, 1),
    }


def work(tasks, out, lock):
    warnings.simplefilter("ignore")
    sys.stdout = sys.stderr = open(os.devnull, "w")
    import torch

    torch.set_num_threads(1)
    while (task := tasks.get()) is not None:
        try:
            row = train(task)
        except Exception:
            row = {"failed": traceback.format_exc()[-1500:]}
        with lock, open(out, "a") as file:
            file.write(json.dumps(task | row) + "\n")


if __name__ == "__main__":
    out, workers, spec = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    context = mp.get_context("spawn")
    tasks, lock = context.Queue(), context.Lock()
    done = [json.loads(line) for line in open(out)] if os.path.exists(out) else []
    for task in json.loads(Path(spec).read_text()):
        if not any(all(row.get(name) == value for name, value in task.items()) for row in done):
            tasks.put(task)
    for _ in range(workers):
        tasks.put(None)
    processes = [context.Process(target=work, args=(tasks, out, lock)) for _ in range(workers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()

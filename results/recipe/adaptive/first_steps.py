"""first_steps.py DIGITS PAIR SEED SHIFT: what becomes of each class of the unlabeled domain in the first steps.

Prints accuracy, recall and predicted share of every class (%): of the first pseudo-labels, under the unlabeled domain's own
BatchNorm statistics; of the same network in batches of which half are labeled; of the pseudo-labels after some steps.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import torch

import unihssl
from unihssl.data import catalog
from unihssl.experiments.protocol import Protocol
from unihssl.methods.batch_norm_stats import keep_running_statistics
from unihssl.methods.unihssl import UniHSSL

root, pair, seed, shift = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(1)
warnings.simplefilter("ignore")
begin, adapt = UniHSSL.begin_adapt, UniHSSL.adapt
domains = catalog.load("digits", pair, root)
labels, run = np.array(domains[1].labels), {}


def show(name, predicted):
    true = run["true"]
    recall = [f"{100 * np.mean(predicted[true == c] == c):3.0f}" for c in range(10)]
    share = [f"{100 * np.mean(predicted == c):3.0f}" for c in range(10)]
    print(f"{name:12} right {100 * np.mean(predicted == true):.1f} recall", *recall, "share", *share, flush=True)


def begin_and_show(self, data):
    begin(self, data)
    run.update(true=labels[data.unlabeled.rows.numpy()], steps=0)
    show("own", self.pseudo_classes().numpy())
    random, predicted = torch.Generator().manual_seed(0), np.zeros(len(run["true"]), int)
    labeled, unlabeled = (torch.cat([s.test for s in d.sweep(data.random)]) for d in (data.labeled, data.unlabeled))
    with torch.no_grad(), keep_running_statistics(self.network.train()):
        for rows in torch.randperm(len(unlabeled), generator=random).split(64):
            beside = labeled[torch.randint(len(labeled), (64,), generator=random)]
            predicted[rows.numpy()] = self.network(torch.cat([beside, unlabeled[rows]]))[64:, :10].argmax(1).numpy()
    show("both domains", predicted)


def adapt_and_show(self, batch):
    if run:  # not in the rehearsal
        run["steps"] += 1
        if run["steps"] in (25, 50, 100, 200, 300, 600, 1200):
            show(f"step {run['steps']}", self.pseudo_classes().numpy())
    return adapt(self, batch)


UniHSSL.begin_adapt, UniHSSL.adapt = begin_and_show, adapt_and_show
asked = {"split": "search", "threads": 1} | ({"label_shift": shift} if shift else {})
knobs = Protocol(catalog.get("digits"), root, "recipe", asked).knobs("unihssl")
unihssl.fit(*domains, seed=seed, device="cpu", verbose=False, **knobs)

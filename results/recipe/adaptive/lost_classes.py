"""Digits in several directions, thinned or not: why a class gets lost, and what finds it again.

    python lost_classes.py OUT.jsonl USPS.npz NAME[,NAME ...] PAIR[,PAIR ...] SHIFT[,SHIFT] SEED[,SEED]

split=search; scores on all unlabeled training samples of the search part; two workers of one thread. What is in the file
is not run again. USPS.npz holds x (N, 256) and y, of the published USPS files.
"""

import json
import sys
import warnings
from itertools import product
from multiprocessing import get_context
from pathlib import Path

CONFUSION, PRETRAIN = "lambda_confusion", "pretrain_epochs"
VARIANTS = {  # settings, and the power by which predictions are debiased by class
    "default": ({}, 0),
    "eps .9": ({"epsilon": 0.9}, 0),
    "eps .95": ({"epsilon": 0.95}, 0),
    "debias .5": ({}, 0.5),
    "debias 1": ({}, 1),
    "debias .5 eps .9": ({"epsilon": 0.9}, 0.5),
    "no pl": ({"lambda_pl": 0}, 0),
    "no parts": ({"lambda_pl": 0, "lambda_mixup": 0, "lambda_pa": 0}, 0),
    "separate": ({"batch_norm": "separate"}, 0),
    "weak": ({"unlabeled_view": "weak"}, 0),
    "pre2": ({PRETRAIN: 2}, 0),
    "pre2 eps .9": ({PRETRAIN: 2, "epsilon": 0.9}, 0),
    "pre2 debias .5": ({PRETRAIN: 2}, 0.5),
    "pre2 eps .9 debias .5": ({PRETRAIN: 2, "epsilon": 0.9}, 0.5),
    "no pl pre2": ({PRETRAIN: 2, "lambda_pl": 0}, 0),
    "conf 2": ({CONFUSION: 2.0}, 0),
    "conf 3": ({CONFUSION: 3.0}, 0),
    "conf 2 eps .9": ({CONFUSION: 2.0, "epsilon": 0.9}, 0),
    "conf 2 debias .5": ({CONFUSION: 2.0}, 0.5),
    "mcc+sup": ({"method": "mcc+sup"}, 0),
}


def work(task):
    warnings.simplefilter("ignore")
    import numpy as np
    from sklearn.metrics import f1_score

    import unihssl
    from unihssl.data.catalog.digits import _read_usps, embedded_digits
    from unihssl.evaluation import check_run
    from unihssl.losses import expand_labels
    from unihssl.methods.pseudo_labels import PseudoLabels
    from unihssl.pipeline import measure

    name, pair, seed, shift, usps = task
    settings, power = VARIANTS[name]
    seen = {}
    first = getattr(check_run, "first", check_run.check_unlabeled)
    update = getattr(PseudoLabels, "first", PseudoLabels.update)
    check_run.first, PseudoLabels.first = first, update

    def check(model, pair, *rest, **named):
        rows = pair.unlabeled.split.train
        predicted = model.probabilities(model.predict_store(pair.unlabeled.store, rows)).argmax(1)
        true = pair.unlabeled.domain.labels[rows]
        seen.update(accuracy=np.mean(predicted == true), macro_f1=f1_score(true, predicted, average="macro"))
        return first(model, pair, *rest, **named)

    def debiased(self, rows, prediction):
        """Predictions divided by a power of the mean pseudo-label, before the memory takes them in."""
        if power:
            share = self.classes(self.table).mean(0).clamp(min=1e-3)
            scaled = self.classes(prediction) * share**-power
            prediction = expand_labels(scaled / scaled.sum(1, keepdim=True), self.num_classes, domain=1)
        return update(self, rows, prediction)

    measure.check_unlabeled, PseudoLabels.update = check, debiased
    domains = (_read_usps([Path(usps)]) if n == "usps" else embedded_digits(n) for n in pair.split("/"))
    knobs = {
        "backbone": "small_cnn",
        "flip": False,
        "threads": 1,
        "seed": seed,
        "split": "search",
        "label_shift": shift,
    }
    unihssl.fit(*domains, verbose=False, **knobs | settings)
    scores = {key: round(100 * float(value), 1) for key, value in seen.items()}
    return {"name": name, "pair": pair, "seed": seed, "shift": shift} | scores


if __name__ == "__main__":
    out, usps, names, pairs = Path(sys.argv[1]), sys.argv[2], sys.argv[3].split(","), sys.argv[4].split(",")
    shifts, seeds = map(float, sys.argv[5].split(",")), map(int, sys.argv[6].split(","))
    done = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {(row["name"], row["pair"], row["seed"], row["shift"]) for row in done}
    tasks = [(n, p, s, h) for s, h, p, n in product(seeds, list(shifts), pairs, names) if (n, p, s, h) not in done]
    with get_context("spawn").Pool(2) as pool:
        for row in pool.imap_unordered(work, [(*task, usps) for task in tasks]):
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")

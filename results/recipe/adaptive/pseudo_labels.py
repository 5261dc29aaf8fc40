"""Digits, with the unlabeled training classes thinned or not: variants of the pseudo-label loss.

    python pseudo_labels.py OUT.jsonl SHIFT [VARIANT ...]      # SHIFT: 10 or 1

split=search; scores on all unlabeled training samples of the search part. What is in the file is not run again.
"""

import json
import sys
from itertools import product
from pathlib import Path

from sklearn.metrics import f1_score, recall_score

import unihssl
from unihssl.data.catalog.digits import embedded_digits
from unihssl.evaluation import check_run
from unihssl.losses import expand_labels
from unihssl.methods.pseudo_labels import PseudoLabels
from unihssl.pipeline import measure

VARIANTS = {
    "default": {},
    "mcc+sup": {"method": "mcc+sup"},
    "no pl": {"lambda_pl": 0},
    "no pa": {"lambda_pa": 0},
    "no mixup": {"lambda_mixup": 0},
    "no pl mix pa": {"lambda_pl": 0, "lambda_mixup": 0, "lambda_pa": 0},
    "weak": {"unlabeled_view": "weak"},
    "eps .9": {"epsilon": 0.9},
    "eps .95": {"epsilon": 0.95},
    "eps .9 b.8": {"epsilon": 0.9, "beta": 0.8},
    "debias .5": {},
}
seen, debias = {}, []
first, update = check_run.check_unlabeled, PseudoLabels.update


def check(model, pair, *rest, **named):
    rows = pair.unlabeled.split.train
    predicted = model.probabilities(model.predict_store(pair.unlabeled.store, rows)).argmax(1)
    true = pair.unlabeled.domain.labels[rows]
    f1, recall = (score(true, predicted, average="macro") for score in (f1_score, recall_score))
    seen.update(accuracy=(predicted == true).mean(), macro_f1=f1, class_mean=recall)
    return first(model, pair, *rest, **named)


def debiased(self, rows, prediction):
    """Predictions divided by a power of the mean pseudo-label, before the memory takes them in."""
    if debias:
        share = self.classes(self.table).mean(0).clamp(min=1e-3)
        scaled = self.classes(prediction) * share ** -debias[0]
        prediction = expand_labels(scaled / scaled.sum(1, keepdim=True), self.num_classes, domain=1)
    return update(self, rows, prediction)


measure.check_unlabeled, PseudoLabels.update = check, debiased
out, shift, names = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:] or VARIANTS
done = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
done = {(row["name"], row["pair"], row["seed"], row["shift"]) for row in done}
for seed, name, pair in product(range(2), names, ("mnist/uci", "uci/mnist")):
    if (name, pair, seed, shift) in done:
        continue
    debias[:] = [0.5] if name.startswith("debias") else []
    knobs = {
        "backbone": "small_cnn",
        "flip": False,
        "threads": 1,
        "seed": seed,
        "split": "search",
        "label_shift": shift,
    }
    unihssl.fit(*map(embedded_digits, pair.split("/")), verbose=False, **knobs | VARIANTS[name])
    row = {"name": name, "pair": pair, "seed": seed, "shift": shift}
    row |= {key: round(100 * float(value), 1) for key, value in seen.items()}
    with out.open("a") as file:
        file.write(json.dumps(row) + "\n")

"""Compares settings as shared_start.py does, and what other statistics or averaged weights would make of each model.

    python after_training.py OUT.jsonl WORKERS CPU_WORKERS SECONDS TASKS.json

Each row has in `after`, for the last and for averaged weights (decay 0.98): accuracy on the labeled test part, accuracy
and macro F1 on the unlabeled training samples, under the running BatchNorm statistics, those of test views of both
domains, of one domain, of each sample's own domain, and of the domain that the model itself predicts (hard or by
probability).
"""

import sys
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from unihssl.evaluation import check_run
from unihssl.methods.batch_norm_stats import statistics_of
from unihssl.methods.ema import EMA
from unihssl.methods.unihssl import UniHSSL

sys.path.insert(0, str(Path(__file__).parent))
import compare
import shared_start

BATCH, BATCHES = 64, 30
looked = {}  # of the run at hand


def follow_weights():
    """Average the weights beside training, which they do not touch."""
    setup, after_step, finish = UniHSSL.setup, UniHSSL.after_step, UniHSSL.finish

    def setup_too(method, make_encoder):
        setup(method, make_encoder)
        method.average = EMA(method.network, 0.98)

    def after_step_too(method):
        after_step(method)
        method.average.update(method.network)

    def finish_too(method, data):
        finish(method, data)
        looked["average"] = method.average.network

    UniHSSL.setup, UniHSSL.after_step, UniHSSL.finish = setup_too, after_step_too, finish_too


def shuffled(model, part, seed):
    """Batches of test views of a domain's training samples, without end."""
    random = torch.Generator().manual_seed(seed)
    rows = torch.from_numpy(part.split.train)
    while True:
        for chunk in rows[torch.randperm(len(rows), generator=random)].split(BATCH):
            if len(chunk) == min(BATCH, len(rows)):
                yield model.views.test(part.store.take(chunk.to(part.store.samples.device)).to(model.device))


def batches(model, pair, of):
    parts = [shuffled(model, part, seed) for seed, (role, part) in enumerate(pair.parts.items()) if role in of]
    return [torch.cat(batch) for batch in islice(zip(*parts, strict=True), BATCHES)]


def look(model, pair):
    """Name of the statistics -> [labeled test accuracy, unlabeled training accuracy, its macro F1]."""
    from sklearn.metrics import f1_score

    places = {"labeled": pair.labeled.split.test, "unlabeled": pair.unlabeled.split.train}

    def predicted():
        found = {role: model.predict_store(pair.parts[role].store, rows) for role, rows in places.items()}
        return {role: (model.probabilities(p), p.unlabeled_domain[:, None]) for role, p in found.items()}

    def scores(probabilities):
        classes = {role: p.argmax(1) for role, p in probabilities.items()}
        true = {role: pair.parts[role].domain.labels[rows] for role, rows in places.items()}
        accuracy = [float(np.mean(classes[role] == true[role])) for role in places]
        f1 = f1_score(true["unlabeled"], classes["unlabeled"], average="macro")
        return [round(100 * value, 1) for value in (*accuracy, f1)]

    own, found = model.network, {}
    for name, network in (("last", own), ("average", looked.pop("average").eval())):
        model.network = network
        under = {"running": predicted()}
        for of in (("labeled",), ("unlabeled",), ("labeled", "unlabeled")):
            with torch.no_grad(), statistics_of(network, batches(model, pair, of)):
                under["both" if len(of) == 2 else of[0]] = predicted()
        found |= {f"{name}, {kind}": scores({role: p for role, (p, _) in of.items()}) for kind, of in under.items()}
        found[f"{name}, own domain's"] = scores({role: under[role][role][0] for role in places})
        for how, share in (("hard", np.round), ("soft", np.asarray)):
            mixed = {}
            for role in places:
                weight = share(under["both"][role][1])
                mixed[role] = weight * under["unlabeled"][role][0] + (1 - weight) * under["labeled"][role][0]
            found[f"{name}, predicted domain's, {how}"] = scores(mixed)
    model.network = own
    return found


def train_and_look(task):
    looked.clear()  # a run that failed may have left something
    row = shared_start.train_shared(task)
    return row | {"after": looked.pop("after")}


def looking(check):
    def checked(model, pair, *rest, **named):
        if "after" not in looked:
            looked["after"] = look(model, pair)
        return check(model, pair, *rest, **named)

    return checked


compare.train = train_and_look
follow_weights()
check_run.check_unlabeled = looking(check_run.check_unlabeled)
if __name__ == "__main__":
    compare.main()

"""even_statistics.py DIGITS: first pseudo-labels under BatchNorm statistics of unlabeled classes drawn evenly.

Prints for every direction, label shift and seed: accuracy, mean recall and least recall (%) of the first pseudo-labels,
under the statistics of all unlabeled samples, of samples drawn evenly by their true classes, and by the classes that the
pseudo-labels give, drawn again once, twice and five times (`hard`), or weighted by their probabilities (`soft`).
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import torch

import unihssl
from unihssl.data import catalog
from unihssl.experiments.protocol import Protocol
from unihssl.methods.batch_norm_stats import statistics_of
from unihssl.methods.unihssl import UniHSSL

ROOT, run = Path(sys.argv[1]), {}


class Stop(Exception):
    """Pre-training is over."""


def evenly(weights, x, random):
    rows = torch.multinomial(weights, 2 * len(x) // 64 * 64, True, generator=random)
    return [x[part] for part in rows.split(64)]


def look(self, data):
    random = torch.Generator().manual_seed(0)
    x = torch.cat([samples.test for samples in data.unlabeled.sweep(data.random)])
    true = run["labels"][data.unlabeled.rows.numpy()]

    def predicted(batches):
        with statistics_of(self.network, batches), torch.no_grad():
            return torch.cat([self.network.evaluate(part)[1][:, :10] for part in x.split(500)]).softmax(1)

    def score(p):
        guess = p.argmax(1).numpy()
        recall = [100 * np.mean(guess[true == c] == c) for c in range(10)]
        return round(100 * np.mean(guess == true), 1), round(np.mean(recall), 1), round(min(recall), 1)

    own = predicted([x[rows] for rows in torch.randperm(len(x), generator=random).split(64)])
    found = {"own": score(own)}
    classes = torch.tensor(true)
    weights = {
        "hard": lambda p: (1 / torch.bincount(p.argmax(1), minlength=10).clamp(min=1))[p.argmax(1)],
        "soft": lambda p: (p / p.mean(0)).sum(1),
    }
    found["oracle"] = score(predicted(evenly((1 / torch.bincount(classes, minlength=10))[classes], x, random)))
    for name, of in weights.items():
        p = own
        for again in range(1, 6):
            p = predicted(evenly(of(p), x, random))
            found |= {f"{name}{again}": score(p)} if again in (1, 2, 5) else {}
    run["found"] = found
    raise Stop


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    UniHSSL.begin_adapt = look
    for pair in catalog.get("digits").all_pairs:
        for shift in (0, 10):
            for seed in (0, 1):
                domains = catalog.load("digits", pair, ROOT)
                run["labels"] = np.array(domains[1].labels)
                asked = {"split": "search", "threads": 1} | ({"label_shift": shift} if shift else {})
                knobs = Protocol(catalog.get("digits"), ROOT, "recipe", asked).knobs("unihssl")
                try:
                    unihssl.fit(*domains, seed=seed, device="cpu", verbose=False, **knobs)
                except Stop:
                    print(
                        pair, shift, seed, {name: tuple(map(float, s)) for name, s in run["found"].items()}, flush=True
                    )

"""What are a few labels of the unlabeled domain worth? Digits, both directions, by labels for each class.

    python target_labels.py --json ../results/target-labels/digits.json

Every method and direction is added to the file as soon as it is done.

Labels are drawn at random by class from the unlabeled training part; those of a larger budget include the smaller
one's. The test images are the same for all budgets.
"""

import argparse
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from common import report

import unihssl
from unihssl.cli.options import split_setting
from unihssl.data import catalog
from unihssl.data.catalog.digits import embedded_digits
from unihssl.data.domain import unlabeled_domain
from unihssl.data.split import split_domain
from unihssl.experiments.protocol import Protocol
from unihssl.methods.recipe import resolve

PAIRS = (("mnist", "uci"), ("uci", "mnist"))


def draw_labels(unlabeled: tuple[np.ndarray, np.ndarray], settings: Any, per_class: int) -> dict[int, int]:
    """Row -> label for `per_class` samples of each class of the unlabeled training part."""
    y = unlabeled[1]
    domain = unlabeled_domain(unlabeled, tuple(range(10)), settings)
    train = split_domain(domain, settings.test_fraction, settings.seed, settings.split).train
    order = np.random.default_rng(settings.seed).permutation(train)
    rows = np.concatenate([order[y[order] == c][:per_class] for c in range(10)])
    return {int(row): int(y[row]) for row in rows}


def run(pair: tuple[str, str], method: str, per_class: int, seed: int, asked: dict[str, str]) -> dict[str, Any]:
    """Test accuracies of one run, in percent."""
    labeled, unlabeled = map(embedded_digits, pair)
    protocol = Protocol(catalog.get("digits"), asked=asked)
    knobs = protocol.knobs(method) | {"seed": seed, "tensorboard": False}
    labels = draw_labels(unlabeled, resolve(knobs)[0], per_class) if per_class else None
    begin = time.monotonic()
    result = unihssl.fit(labeled, unlabeled, target_labels=labels, **knobs).result
    found = {part: round(100 * result[part]["accuracy"], 1) for part in ("pooled", "labeled", "unlabeled")}
    return {"labels a class": per_class, "seed": seed} | found | {"seconds": round(time.monotonic() - begin)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["unihssl", "supervised", "mcc+sup", "fixmatch"])
    parser.add_argument("--labels", type=int, nargs="+", default=[0, 1, 5, 20], help="labels for each class")
    parser.add_argument("--pairs", nargs="+", default=[], choices=["/".join(pair) for pair in PAIRS])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    asked = dict(map(split_setting, arguments.set))
    pairs = [pair for pair in PAIRS if not arguments.pairs or "/".join(pair) in arguments.pairs]
    for method, pair in product(arguments.methods, pairs):
        rows = [run(pair, method, n, seed, asked) for n, seed in product(arguments.labels, range(arguments.seeds))]
        report(" ".join([method, "/".join(pair), *arguments.set]), rows, arguments)

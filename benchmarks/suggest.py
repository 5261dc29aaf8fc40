"""Are suggested labels worth more than random ones? Digits, both directions, at the same number of labels.

    python suggest.py --ways random margin clusters --labels 50 --seeds 0 --set split=search   # to choose the default
    python suggest.py --set split=reserved --json ../results/target-labels/suggest.json        # to report it

Uni-HSSL trains without labels of the unlabeled domain; images of its training part are chosen; Uni-HSSL trains again,
from the start, with their true labels. No run of `split=search` sees the images that `split=reserved` tests on.
"""

import argparse
from collections.abc import Iterator
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
from unihssl.evaluation.model import Model
from unihssl.evaluation.suggest_run import suggest
from unihssl.experiments.protocol import Protocol
from unihssl.methods.recipe import resolve

PAIRS = ("mnist/uci", "uci/mnist")


def compare(pair: str, seed: int, asked: dict[str, str], ways: list[str], sizes: list[int]) -> Iterator[dict[str, Any]]:
    """Test accuracies without labels, and with each number of labels chosen in each way, in percent."""
    labeled, unlabeled = map(embedded_digits, pair.split("/"))
    knobs = Protocol(catalog.get("digits"), asked=asked).knobs("unihssl") | {"seed": seed, "tensorboard": False}
    settings = resolve(knobs)[0]
    domain = unlabeled_domain(unlabeled, tuple(range(10)), settings)
    train = split_domain(domain, settings.test_fraction, seed, settings.split).train
    first = unihssl.fit(labeled, unlabeled, **knobs)
    yield found(first, seed, "none", {})
    for n, way in product(sizes, ways):
        chosen = suggest(first, domain.keep(train), n, by=way, seed=seed)
        labels = dict(zip(chosen.names, chosen.labels.tolist(), strict=True))
        yield found(unihssl.fit(labeled, unlabeled, target_labels=labels, **knobs), seed, way, labels)


def found(model: Model, seed: int, way: str, labels: dict[str, int]) -> dict[str, Any]:
    parts = {part: round(100 * model.result[part]["accuracy"], 2) for part in ("unlabeled", "labeled")}
    counts = np.bincount(list(labels.values()), minlength=10).tolist() if labels else None
    return {"seed": seed, "labels": len(labels), "by": way} | parts | {"of each class": counts}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", nargs="+", default=PAIRS)
    parser.add_argument("--ways", nargs="+", default=["random", "clusters"])
    parser.add_argument("--labels", type=int, nargs="+", default=[50, 20])
    parser.add_argument("--seeds", type=int, nargs="+", default=range(5))
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    asked = dict(map(split_setting, arguments.set))
    for seed, pair in product(arguments.seeds, arguments.pairs):
        rows: list[dict[str, Any]] = []
        for row in compare(pair, seed, asked, arguments.ways, arguments.labels):
            rows.append(row)
            report(" ".join([pair, f"seed {seed}", *arguments.set]), rows, arguments)

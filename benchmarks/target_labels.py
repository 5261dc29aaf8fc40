"""What are a few labels of the unlabeled domain worth? A data set's pairs, by labels for each class.

    python target_labels.py --seeds 3 --json ../results/target-labels/digits.json
    python target_labels.py --dataset pacs --root PACS --pairs P/A P/C --set weights=resnet50.safetensors ...

Every run is added to the file as soon as it is done; what is in the file is not run again.

Labels are drawn at random by class from the unlabeled training part; those of a larger budget include the smaller
one's. The test images are the same for all budgets.
"""

import argparse
import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from common import report

import unihssl
from unihssl.cli.options import split_setting
from unihssl.config import Settings
from unihssl.data import catalog
from unihssl.data.catalog.digits import embedded_digits
from unihssl.data.domain import labeled_domain, unlabeled_domain
from unihssl.data.split import split_domain
from unihssl.experiments.protocol import Protocol
from unihssl.methods.recipe import resolve

PAIRS = {"digits": ["mnist/uci", "uci/mnist"], "pacs": ["P/A", "P/C"]}


def draw_labels(labeled: Any, unlabeled: Any, settings: Settings, per_class: int) -> dict[int, Any]:
    """Row -> label for `per_class` samples of each class of the unlabeled training part."""
    classes = labeled_domain(labeled, settings).classes
    domain = unlabeled_domain(unlabeled, classes, settings)
    train = split_domain(domain, settings.test_fraction, settings.seed, settings.split).train
    order = np.random.default_rng(settings.seed).permutation(train)
    rows = np.concatenate([order[domain.labels[order] == c][:per_class] for c in range(len(classes))])
    return {int(row): classes[domain.labels[row]] for row in rows}


def run(protocol: Protocol, pair: str, method: str, per_class: int, seed: int, runs: Path | None) -> dict[str, Any]:
    """Test accuracies of one run, in percent. Its folder is kept under `runs`, if given."""
    if protocol.dataset.name == "digits":
        labeled, unlabeled = map(embedded_digits, pair.split("/"))
    else:
        labeled, unlabeled = protocol.loader(pair)
    knobs = protocol.knobs(method) | {"seed": seed, "tensorboard": False}
    labels = draw_labels(labeled, unlabeled, resolve(knobs)[0], per_class) if per_class else None
    begin = time.monotonic()
    out = runs and runs / "-".join([method, pair.replace("/", "-"), str(per_class), str(seed)])
    result = unihssl.fit(labeled, unlabeled, out, target_labels=labels, verbose=False, **knobs).result
    found = {part: round(100 * result[part]["accuracy"], 2) for part in ("pooled", "labeled", "unlabeled")}
    found["macro F1, unlabeled"] = round(100 * result["unlabeled"]["macro_f1"], 1)
    return {"labels a class": per_class, "seed": seed} | found | {"seconds": round(time.monotonic() - begin)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="digits", choices=PAIRS)
    parser.add_argument("--root", type=Path, default=Path("data"), help="of a data set that is not embedded")
    parser.add_argument("--schedule", default="", help="as in unihssl benchmark")
    parser.add_argument("--methods", nargs="+", default=["unihssl", "supervised", "mcc+sup", "fixmatch"])
    parser.add_argument("--labels", type=int, nargs="+", default=[0, 1, 5, 20], help="labels for each class")
    parser.add_argument("--pairs", nargs="+", default=[])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--workers", type=int, default=1, help="runs at a time")
    parser.add_argument("--runs", type=Path, help="folder to keep the runs in")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    asked = dict(map(split_setting, arguments.set))
    protocol = Protocol(catalog.get(arguments.dataset), arguments.root, arguments.schedule, asked)
    finished = json.loads(arguments.json.read_text()) if arguments.json and arguments.json.exists() else {}
    rows: dict[str, dict[tuple[int, int], Any]] = {}
    with ProcessPoolExecutor(arguments.workers, multiprocessing.get_context("spawn")) as pool:
        running = {}
        pairs = arguments.pairs or PAIRS[arguments.dataset]
        for seed, method, pair, n in product(range(arguments.seeds), arguments.methods, pairs, arguments.labels):
            name = " ".join([method, pair, *arguments.set])
            if name not in rows:
                rows[name] = {(r["labels a class"], r["seed"]): r for r in finished.get(name, {"rows": []})["rows"]}
            if (n, seed) not in rows[name]:
                running[pool.submit(run, protocol, pair, method, n, seed, arguments.runs)] = name, n, seed
        for future in as_completed(running):
            name, n, seed = running[future]
            rows[name][n, seed] = future.result()
            report(name, [rows[name][key] for key in sorted(rows[name])], arguments)

"""As many settings for rivals as for Uni-HSSL: drawn at random, compared on the search parts, the best of them tested.

    python tune.py digits --root DIGITS --set threads=1 --pairs mnist/uci,uci/mnist,uci/usps --out ../runs/tune
    python tune.py pacs --root PACS --weights resnet50.safetensors --schedule fast --pairs P/A,P/C --test-pairs \\
        P/A,P/C,A/P,A/C,C/P,C/A --out ../runs/tune

Each method has its own settings (rivals those of Uni-HSSL's default, as in tables.py) and `--count` - 1 others around
them. They are ranked by how many unlabeled training samples they get right, mean of `--pairs`, seed 0. That takes true
labels, as the search for the default did, and no test sample. The best of each method is then tested on the fifth that
is reserved, on `--test-pairs`. Repeat a command to continue. `mcc` stands for MCC+Sup, whose other networks see no
unlabeled sample.
"""

import argparse
import random
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from tables import OURS, asked_for, grid_parser

from unihssl.data import catalog
from unihssl.experiments.launchers import make_launcher
from unihssl.experiments.protocol import Protocol
from unihssl.experiments.results import BENCHMARK, Role
from unihssl.experiments.runner import Run, run_grid
from unihssl.methods.recipe import BACKBONE_KNOBS, resolve

RATES = (1 / 3, 1.0, 3.0)  # times the method's own
RANGES: dict[str, dict[str, tuple[Any, ...]]] = {
    "mcc": {"mu": (0.3, 1.0, 3.0), "temperature": (1.5, 2.5, 4.0)},
    "fixmatch": {"lambda_u": (0.3, 1.0, 3.0), "threshold": (0.7, 0.8, 0.9, 0.95), "batch_norm": ("separate", "joint")},
    "unihssl": {"lambda_confusion": (0.5, 1.0, 2.0), "epsilon": (0.5, 0.7, 0.9), "ramp_up": (0.5, 1.0)},
}
TESTED = {"mcc": "mcc+sup"}


def settings_of(method: str, rate: float, count: int) -> list[dict[str, Any]]:
    """The method's own settings, and others: always the same ones, whatever their number."""
    draw, found = random.Random(method), [dict[str, Any]()]
    while len(found) < count:
        drawn = {"lr": float(f"{rate * draw.choice(RATES):.2g}")}
        drawn |= {name: draw.choice(values) for name, values in RANGES[method].items()}
        if drawn not in found:
            found.append(drawn)
    return found


def protocol_of(arguments: argparse.Namespace, method: str, split: str, settings: dict[str, Any]) -> Protocol:
    """Of a method with these settings on top of those it is compared with."""
    dataset, asked = catalog.get(arguments.dataset), asked_for(arguments, split)
    plain = Protocol(dataset, arguments.root, arguments.schedule, asked)
    is_small = plain.knobs(method).get("backbone") in BACKBONE_KNOBS
    base = asked if method == "unihssl" or is_small else asked | OURS
    return Protocol(dataset, arguments.root, arguments.schedule, base | settings)


def trained(arguments: argparse.Namespace, runs: Sequence[Run]) -> Iterator[tuple[str, Run]]:
    """The name of the row and the run of all that succeed."""
    loader = protocol_of(arguments, "unihssl", "search", {}).loader
    for run in run_grid(runs, loader, arguments.out, make_launcher("local", arguments.workers)):
        if run.failure:
            print(run.pair, run.roles[0].variant, run.failure, flush=True)
        else:
            yield run.roles[0].variant, run


def ranked(arguments: argparse.Namespace, candidates: dict[str, tuple[str, dict[str, Any]]]) -> list[str]:
    """The names of the settings, the best on the search parts first."""
    runs = []
    for name, (method, settings) in candidates.items():
        protocol = protocol_of(arguments, method, "search", settings)
        runs += [protocol.run(pair, method, 0, Role(BENCHMARK, name)) for pair in protocol.pairs(arguments.pairs)]
    right: dict[str, dict[str, float]] = defaultdict(dict)
    for name, run in trained(arguments, runs):
        right[name][run.pair] = 100 * run.result["unlabeled_training"]["accuracy"]
    order = sorted(right, key=lambda name: -statistics.mean(right[name].values()))
    for name in order:
        by_pair = {pair: round(value, 1) for pair, value in right[name].items()}
        print(f"{statistics.mean(right[name].values()):5.1f}", name, by_pair, flush=True)
    return order


if __name__ == "__main__":
    parser = grid_parser(__doc__)
    parser.add_argument("--methods", default=",".join(RANGES))
    parser.add_argument("--count", type=int, default=10, help="settings of each method")
    parser.add_argument("--seeds", default="0,1,2", help="of the test; empty: none")
    parser.add_argument("--test-pairs", default="all")
    arguments = parser.parse_args()
    candidates: dict[str, tuple[str, dict[str, Any]]] = {}
    for number in range(arguments.count):
        for method in arguments.methods.split(","):
            rate = resolve(protocol_of(arguments, method, "search", {}).knobs(method))[0].lr
            settings = settings_of(method, rate, arguments.count)[number]
            name = " ".join([method, *(f"{knob}={value}" for knob, value in settings.items())])
            candidates[name] = method, settings
    order, tests = ranked(arguments, candidates), []
    for method in arguments.methods.split(","):
        best = next(candidates[name][1] for name in order if candidates[name][0] == method)
        protocol, row = protocol_of(arguments, method, "reserved", best), TESTED.get(method, method)
        role = Role(BENCHMARK, f"{row}, best of {arguments.count}")
        for seed in filter(None, arguments.seeds.split(",")):
            tests += [protocol.run(pair, row, int(seed), role) for pair in protocol.pairs(arguments.test_pairs)]
    for name, run in trained(arguments, tests):
        print(run.pair, name, run.knobs["seed"], f"{100 * run.result['pooled']['accuracy']:.1f}", flush=True)

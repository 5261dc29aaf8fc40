"""Rivals tuned as Uni-HSSL is: equally many settings of each, chosen on the search parts; the best of each is tested.

    python tune.py digits --root DIGITS --set threads=1 --pairs mnist/uci,uci/mnist --out ../runs/tune
    python tune.py pacs --root PACS --weights resnet50.safetensors --schedule fast --pairs P/A,P/C --test-pairs \\
        P/A,P/C,A/P,A/C,C/P,C/A --out ../runs/tune

Each method has its own settings (rivals those of Uni-HSSL's default, as in tables.py) and `--count` - 1 others around
them. They are ranked by how many unlabeled training samples they get right, mean of `--pairs`, seed 0. That takes true
labels, as the search for the default did, and no test sample. The best of each method is then tested on the fifth that
is reserved, on `--test-pairs`. `mcc` stands for MCC+Sup, whose other two networks do not depend on what is chosen here.
Runs are in OUT/search and OUT/test. Repeat a command to continue.

What Uni-HSSL starts from was found by many more runs on the same parts (docs/recipe.md).
"""

import argparse
import itertools
import random
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from tables import OURS, asked_for, check_asked, grid_parser, sets_all

from unihssl.data import catalog
from unihssl.experiments.launchers import make_launcher
from unihssl.experiments.protocol import Protocol
from unihssl.experiments.results import BENCHMARK, Role
from unihssl.experiments.runner import Run, run_grid
from unihssl.methods.recipe import all_knobs, resolve

RATES = (1 / 3, 1.0, 3.0)  # times the method's own
PASSES = {"batch_norm": ("separate", "joint")}  # of views: FixMatch's kin are run both ways
RANGES: dict[str, dict[str, tuple[Any, ...]]] = {
    "mcc": {"mu": (0.3, 1.0, 3.0), "temperature": (1.5, 2.5, 4.0)},
    "fixmatch": {"lambda_u": (0.3, 1.0, 3.0), "threshold": (0.7, 0.8, 0.9, 0.95), **PASSES},
    "adamatch": {"lambda_u": (0.3, 1.0, 3.0), "tau": (0.8, 0.9, 0.95)},
    "freematch": {"lambda_u": (0.3, 1.0, 3.0), "lambda_fair": (0.0, 0.01, 0.1), **PASSES},
    "unihssl": {"lambda_confusion": (0.5, 1.0, 2.0), "epsilon": (0.5, 0.7, 0.9), "ramp_up": (0.5, 1.0)},
}
TESTED = {"mcc": "mcc+sup"}
Candidates = dict[str, tuple[str, dict[str, Any]]]  # name -> method and settings


def candidates_of(arguments: argparse.Namespace, chosen: Sequence[str]) -> Candidates:
    """Each method's own settings, then others drawn at random, the same ones every time."""
    found: Candidates = {}
    for method in chosen:
        own = all_knobs(*resolve(protocol_of(arguments, method, "search", {}).knobs(method)))
        ranges = {"lr": tuple(float(f"{own['lr'] * rate:.2g}") for rate in RATES)} | RANGES[method]
        every = [dict(zip(ranges, values, strict=True)) for values in itertools.product(*ranges.values())]
        others = [settings for settings in every if any(own[name] != value for name, value in settings.items())]
        if not 1 <= arguments.count <= len(others) + 1:
            raise SystemExit(f"error: --count must be from 1 to {len(others) + 1}, the settings that {method} has")
        for settings in [{}, *random.Random(method).sample(others, arguments.count - 1)]:
            name = " ".join([method, *(f"{knob}={value}" for knob, value in settings.items())])
            found[name] = method, settings
    return found


def protocol_of(arguments: argparse.Namespace, method: str, split: str, settings: dict[str, Any]) -> Protocol:
    """Of a method with these settings on top of those it is compared with."""
    asked = asked_for(arguments, split, {name for ranges in RANGES.values() for name in ranges})
    protocol = Protocol(catalog.get(arguments.dataset), arguments.root, arguments.schedule, asked)
    ours = {} if method == "unihssl" or sets_all(protocol, method) else OURS
    return Protocol(protocol.dataset, protocol.root, protocol.schedule, asked | ours | settings)


def trained(arguments: argparse.Namespace, runs: Sequence[Run], part: str) -> Iterator[tuple[str, Run]]:
    """The name of the row and the run; the first that fails ends it all."""
    loader = protocol_of(arguments, "unihssl", "search", {}).loader
    for run in run_grid(runs, loader, arguments.out / part, make_launcher("local", arguments.workers)):
        name, seed = run.roles[0].variant, run.knobs["seed"]
        if run.failure:
            raise SystemExit(f"{run.pair} {name}: {run.failure}")
        right = run.result["unlabeled_training" if part == "search" else "pooled"]["accuracy"]
        print(f"{run.pair}, {name}, seed {seed}: {100 * right:.1f}", flush=True)
        yield name, run


def ranked(arguments: argparse.Namespace, candidates: Candidates) -> list[str]:
    """The names of the candidates, the best on the search parts first."""
    runs = []
    for name, (method, settings) in candidates.items():
        protocol = protocol_of(arguments, method, "search", settings)
        runs += [protocol.run(pair, method, 0, Role(BENCHMARK, name)) for pair in protocol.pairs(arguments.pairs)]
    right: dict[str, dict[str, float]] = defaultdict(dict)
    for name, run in trained(arguments, runs, "search"):
        right[name][run.pair] = round(100 * run.result["unlabeled_training"]["accuracy"], 1)
    order = sorted(right, key=lambda name: -statistics.mean(right[name].values()))
    for name in order:
        print(f"{statistics.mean(right[name].values()):5.1f}", name, right[name], flush=True)
    return order


if __name__ == "__main__":
    parser = grid_parser(__doc__)
    parser.add_argument("--methods", default=",".join(RANGES), help="with commas; default: all of these")
    parser.add_argument("--count", type=int, default=10, help="settings of each method")
    parser.add_argument("--seeds", default="0,1,2", help="of the test")
    parser.add_argument("--test-pairs", default="all", help="as --pairs")
    arguments = parser.parse_args()
    chosen = arguments.methods.split(",")
    if unknown := [method for method in chosen if method not in RANGES]:
        raise SystemExit(f"error: no settings of {unknown[0]}: there are some of {', '.join(RANGES)}")
    check_asked(protocol_of(arguments, "unihssl", "search", {}), chosen, arguments.pairs, arguments.test_pairs)
    candidates, tests = candidates_of(arguments, chosen), []
    order = ranked(arguments, candidates)
    for method in chosen:
        name = next(name for name in order if candidates[name][0] == method)
        protocol = protocol_of(arguments, method, "reserved", candidates[name][1])
        row, pairs = TESTED.get(method, method), protocol.pairs(arguments.test_pairs)
        print(f"tested: {row} with the settings of '{name}'", flush=True)
        role = Role(BENCHMARK, f"{row}, best of {arguments.count}")
        tests += [protocol.run(pair, row, int(seed), role) for seed in arguments.seeds.split(",") for pair in pairs]
    tests.sort(key=lambda run: run.knobs["seed"])  # what is there at any time compares like with like
    for _ in trained(arguments, tests, "test"):
        pass

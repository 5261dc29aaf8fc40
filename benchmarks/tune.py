"""As many settings for rivals as for Uni-HSSL: drawn at random, compared on the search parts.

    python tune.py digits --root DIGITS --set threads=1 --pairs mnist/uci,uci/mnist,uci/usps --out ../runs/tune
    python tune.py pacs --root PACS --weights resnet50.safetensors --schedule fast --pairs P/A,P/C --out ../runs/tune

Each method has its own settings (rivals those of Uni-HSSL's default, as in tables.py) and `--count` - 1 others around
them. They are ranked by how many unlabeled training samples they get right, mean of the pairs. That takes true labels,
as the search for the default did, and no test sample. Repeat a command to continue. `mcc` stands for MCC+Sup, whose
other networks see no unlabeled sample.
"""

import argparse
import random
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from tables import OURS

from unihssl.cli.options import split_setting
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


def settings_of(method: str, rate: float, count: int) -> list[dict[str, Any]]:
    """The method's own settings, and others: always the same ones, whatever their number."""
    draw, found = random.Random(method), [dict[str, Any]()]
    while len(found) < count:
        drawn = {"lr": float(f"{rate * draw.choice(RATES):.2g}")}
        drawn |= {name: draw.choice(values) for name, values in RANGES[method].items()}
        if drawn not in found:
            found.append(drawn)
    return found


def runs_of(arguments: argparse.Namespace, asked: dict[str, Any]) -> tuple[Protocol, list[Run]]:
    """The runs, setting by setting, and the protocol that loads their pairs."""
    dataset = catalog.get(arguments.dataset)
    protocol, runs = Protocol(dataset, arguments.root, arguments.schedule, asked), []
    for number in range(arguments.count):
        for method in arguments.methods.split(","):
            is_small = protocol.knobs(method).get("backbone") in BACKBONE_KNOBS
            base = asked if method == "unihssl" or is_small else asked | OURS
            rate = resolve(Protocol(dataset, arguments.root, arguments.schedule, base).knobs(method))[0].lr
            settings = settings_of(method, rate, arguments.count)[number]
            name = " ".join([method, *(f"{knob}={value}" for knob, value in settings.items())])
            of_row = Protocol(dataset, arguments.root, arguments.schedule, base | settings)
            runs += [of_row.run(pair, method, 0, Role(BENCHMARK, name)) for pair in protocol.pairs(arguments.pairs)]
    return protocol, runs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--root", type=Path, default=Path("data"))
    parser.add_argument("--pairs", default="all")
    parser.add_argument("--methods", default=",".join(RANGES))
    parser.add_argument("--count", type=int, default=10, help="settings of each method")
    parser.add_argument("--schedule", default="", help="as of unihssl benchmark")
    parser.add_argument("--weights", default="", help="file of the backbone's weights")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    asked = {"split": "search"} | ({"weights": arguments.weights} if arguments.weights else {})
    asked |= dict(map(split_setting, arguments.set))
    protocol, runs = runs_of(arguments, asked)
    right: dict[str, dict[str, float]] = defaultdict(dict)
    for run in run_grid(runs, protocol.loader, arguments.out, make_launcher("local", arguments.workers)):
        if run.failure:
            print(run.pair, run.roles[0].variant, run.failure, flush=True)
        else:
            right[run.roles[0].variant][run.pair] = 100 * run.result["unlabeled_training"]["accuracy"]
    for name, by_pair in sorted(right.items(), key=lambda row: -statistics.mean(row[1].values())):
        print(f"{statistics.mean(by_pair.values()):5.1f}", name, {pair: round(v, 1) for pair, v in by_pair.items()})

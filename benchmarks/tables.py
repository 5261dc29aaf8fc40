"""The comparison of results/README.md: every row on every pair of a data set, tested on the fifth that is reserved.

    python tables.py pacs --root PACS --weights resnet50.safetensors --schedule fast --out ../runs/pacs --workers 4
    python tables.py digits --root DIGITS --set threads=1 --out ../runs/digits
    python tables.py digits --set label_shift=10 --rows "unihssl; mcc+sup; fixmatch" --out ../runs/digits-shift
    unihssl table ../runs/pacs

Runs are taken seed by seed, so that what is there at any time compares like with like. Repeat a command to continue.
"""

import argparse
from collections.abc import Collection
from pathlib import Path
from typing import Any

from unihssl.cli.options import split_setting
from unihssl.data import catalog
from unihssl.errors import UserError
from unihssl.experiments.launchers import make_launcher
from unihssl.experiments.protocol import Protocol
from unihssl.experiments.results import BENCHMARK, Role
from unihssl.experiments.runner import Run, run_grid
from unihssl.methods.recipe import BACKBONE_KNOBS

# What Uni-HSSL's default has, for rivals: rate, layers, views, schedule, batches, and labeled classes drawn equally
# often.
OURS = {"lr": 1e-3, "head_lr": 10.0, "bottleneck": 1024, "weak_view": "crop", "lr_schedule": "cosine"}
OURS |= {"batch_size": 32, "sampling": "balanced"}
STRONG = OURS | {"labeled_view": "half_strong"}  # AdaMatch has strong views of its own
# Without all losses that use pseudo-labels; unlabeled samples are still drawn by them.
WITHOUT_PARTS = {"lambda_pl": 0.0, "lambda_mixup": 0.0, "lambda_pa": 0.0, "lambda_consistency": 0.0}
# The paper's length, whatever the schedule.
FULL = {"epochs": 100, "max_steps": 0}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "unihssl": ("unihssl", {}),
    "fixmatch, our settings": ("fixmatch", OURS),
    "fixmatch, our settings, one pass": ("fixmatch", OURS | {"batch_norm": "joint"}),
    "mcc+sup": ("mcc+sup", {}),
    "supervised": ("supervised", {}),
    "oracle": ("oracle", {}),
    "mcc+sup, our settings": ("mcc+sup", OURS),
    "fixmatch, our settings, strong labeled views": ("fixmatch", STRONG),
    "freematch, our settings, strong labeled views": ("freematch", STRONG),
    "mcc+sup, our settings, strong labeled views": ("mcc+sup", STRONG),
    "unihssl w/o pseudo-labels, mixup, alignment": ("unihssl", WITHOUT_PARTS),
    "fixmatch": ("fixmatch", {}),
    "freematch, our settings": ("freematch", OURS),
    "freematch": ("freematch", {}),
    "adamatch, our settings": ("adamatch", OURS),
    "adamatch": ("adamatch", {}),
    "supervised+adabn": ("supervised+adabn", {}),
    "unihssl:paper": ("unihssl:paper", {}),
    "flexmatch": ("flexmatch", {}),
    "simmatch": ("simmatch", {}),
    "cdan+sup": ("cdan+sup", {}),
    "biadapt": ("biadapt", {}),
    "unihssl:paper, 100 epochs": ("unihssl:paper", FULL),
    "unihssl:paper, 100 epochs, separate passes": ("unihssl:paper", FULL | {"batch_norm": "separate"}),
    "unihssl:paper, 100 epochs, unlabeled statistics": ("unihssl:paper", FULL | {"initial_statistics": "unlabeled"}),
}


def runs_of(arguments: argparse.Namespace, asked: dict[str, Any]) -> tuple[Protocol, list[Run]]:
    """The runs in the order to take them, and the protocol that loads their pairs."""
    dataset = catalog.get(arguments.dataset)
    protocol = Protocol(dataset, arguments.root, arguments.schedule, asked)
    names = row_names(arguments)
    if unknown := [name for name in names if name not in ROWS]:
        raise SystemExit(f"no row '{unknown[0]}': there are {'; '.join(ROWS)}")
    check_asked(protocol, [ROWS[name][0] for name in names], arguments.pairs)
    runs = []
    for seed in map(int, arguments.seeds.split(",")):
        for name in names:
            row, settings = ROWS[name]
            if OURS.items() <= settings.items() and sets_all(protocol, row):
                settings = {knob: value for knob, value in settings.items() if knob not in OURS}
                if not settings:
                    continue  # the row without "our settings" is the same
            of_row = Protocol(dataset, arguments.root, arguments.schedule, asked | settings)
            for pair in protocol.pairs(arguments.pairs):
                runs.append(of_row.run(pair, row, seed, Role(BENCHMARK, name)))
    return protocol, runs


def row_names(arguments: argparse.Namespace) -> list[str]:
    return [name.strip() for name in arguments.rows.split(";")] if arguments.rows else list(ROWS)


def sets_all(protocol: Protocol, row: str) -> bool:
    """Whether the backbone gives all methods the same settings: all of OURS but the drawing of labeled samples.

    (Its data is digits, whose labeled classes are nearly even.)
    """
    return protocol.knobs(row).get("backbone") in BACKBONE_KNOBS


def check_asked(protocol: Protocol, rows: list[str], *pairs: str) -> None:
    """Refuse knobs that no method of these rows has, and pairs that the data set lacks."""
    try:
        protocol.check_asked(rows)
        for requested in pairs:
            protocol.pairs(requested)
    except UserError as error:
        raise SystemExit(f"error: {error}") from None


def grid_parser(description: str | None) -> argparse.ArgumentParser:
    """The arguments of every grid on a data set of the catalog."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--root", type=Path, default=Path("data"), help="folder of the data set")
    parser.add_argument("--pairs", default="all", help="with commas, labeled domain first; default: all")
    parser.add_argument("--schedule", default="", help="as of unihssl benchmark")
    parser.add_argument("--weights", default="", help="file of the backbone's weights")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=2, help="runs at a time")
    return parser


def asked_for(arguments: argparse.Namespace, split: str, varied: Collection[str] = ()) -> dict[str, Any]:
    """The knobs that were asked for, on this split; the `varied` ones are refused."""
    asked = dict(map(split_setting, arguments.set))
    if fixed := [name for name in asked if name in {"split", *OURS, *varied}]:
        raise SystemExit(f"error: {fixed[0]} cannot be set: this script sets it")
    return asked | {"split": split} | ({"weights": arguments.weights} if arguments.weights else {})


if __name__ == "__main__":
    parser = grid_parser(__doc__)
    parser.add_argument("--rows", default="", help=f"of {'; '.join(ROWS)}, with semicolons; default: all")
    parser.add_argument("--seeds", default="0,1,2")
    arguments = parser.parse_args()
    own = [knob for name in row_names(arguments) if name in ROWS for knob in ROWS[name][1]]
    protocol, runs = runs_of(arguments, asked_for(arguments, "reserved", own))
    failed = 0
    for run in run_grid(runs, protocol.loader, arguments.out, make_launcher("local", arguments.workers)):
        failed += bool(run.failure)
        accuracy = run.failure or f"{100 * run.result['pooled']['accuracy']:.1f}"
        print(run.pair, run.roles[0].variant, run.knobs["seed"], accuracy, flush=True)
    raise SystemExit(failed > 0)

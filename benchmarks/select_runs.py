"""How well do label-free scores choose among finished runs? Regret and rank correlation of each, over pairs of domains.

    unihssl benchmark digits --pairs mnist/uci,uci/mnist --methods ... --out GRID     # for each set of candidates
    python select_runs.py train FEATURES RUNS --pairs photo/cartoon amazon/webcam     # runs on frozen features
    python select_runs.py score GRID RUNS --out ../results/select/runs.jsonl
    python select_runs.py regret ../results/select/runs.jsonl --json ../results/select/regret.json

`FEATURES` has an .npz with `x` (N, D) and `y` for each domain. A pair's candidates are all runs on it, of all methods,
settings and seeds. Test labels of the unlabeled domain measure the choice and take no part in it.
"""

import argparse
import json
from collections import defaultdict
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import report
from scipy.stats import spearmanr

import unihssl
from unihssl import methods
from unihssl.data.batch_random import BatchRandom
from unihssl.errors import UserError
from unihssl.evaluation.validators import mean_rank
from unihssl.experiments.results import find_runs, read_purpose, read_records, saved_settings
from unihssl.experiments.selection import decode_images, score_runs, shared_images
from unihssl.pipeline.settings import settings_of
from unihssl.run_folder import RunFolder

METHODS = ("supervised", "mcc", "cdan", "fixmatch", "adamatch", "biadapt", "mcc+sup", "unihssl")
CANDIDATES: list[dict[str, Any]] = [
    *({"method": method} for method in METHODS),
    {"method": "unihssl", "preset": "paper"},
]
CANDIDATES += [{"method": method, "lr": lr} for method, lr in product(("mcc", "unihssl"), (0.003, 0.1))]

PARTS = ("unlabeled", "pooled")
LEFT_OUT = "the best on all other pairs"
COMBINATIONS = {
    "ranks: ensemble, corr_c": ("ensemble", "corr_c"),
    "ranks: ensemble, class_ami": ("ensemble", "class_ami"),
    "ranks: corr_c, class_ami": ("corr_c", "class_ami"),
    "ranks: ensemble, corr_c, class_ami": ("ensemble", "corr_c", "class_ami"),
    "ranks: ensemble, infomax, class_ami": ("ensemble", "infomax", "class_ami"),
    "ranks: ensemble, labeled accuracy": ("ensemble", "labeled accuracy"),
}


def train(arguments: argparse.Namespace) -> None:
    """Train every candidate on every pair, for at most `--steps` steps a stage; what is finished is left as it is."""
    for pair, seed, knobs in product(arguments.pairs, range(arguments.seeds), CANDIDATES):
        name = "-".join([*map(str, knobs.values()), str(seed)])
        out = arguments.runs / pair.replace("/", "-") / name
        if RunFolder(out).is_finished:
            continue
        labeled, unlabeled = (str(arguments.features / f"{domain}.npz") for domain in pair.split("/"))
        short = {"max_steps": arguments.steps, "test_fraction": 0.3, "tensorboard": False, "device": "cpu"}
        try:
            model = unihssl.fit(labeled, unlabeled, out, resume=True, seed=seed, **knobs | short)
            print(pair, name, model.result["unlabeled"]["accuracy"], flush=True)
        except UserError as error:  # such as a training that diverged
            print(pair, name, error, flush=True)


def score(arguments: argparse.Namespace) -> None:
    """Write every run's scores and accuracies, a line for each."""
    pairs: dict[str, list[RunFolder]] = defaultdict(list)
    for run in (run for folder in arguments.runs for run in find_runs(folder)):
        purpose = read_purpose(run, saved_settings(run))
        pairs[purpose.pair.replace(".npz", "")].append(run)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with arguments.out.open("w") as file:
        for pair, folders in pairs.items():
            labels = {record.folder: record.label for record in read_records({f.path for f in folders})}
            folders = [f for f in folders if f.path in labels]
            images = shared_images(folders)
            for folder, scores in zip(folders, score_runs(folders, images), strict=True):
                result = folder.read_result()
                row = {"pair": pair, "run": labels[folder.path], "seed": saved_settings(folder)["seed"]}
                row |= {part: 100 * result[part]["accuracy"] for part in ("unlabeled", "pooled", "labeled")}
                scores |= view_agreement(folder, images)
                row |= {"warnings": len(result["warnings"]), "commit": folder.read_environment()["commit"]}
                file.write(json.dumps(row | {"scores": {k: round(v, 6) for k, v in scores.items()}}) + "\n")
            print(pair, len(folders), flush=True)


@torch.inference_mode()
def view_agreement(folder: RunFolder, images: list[str], most: int = 500) -> dict[str, float]:
    """How often the class of an image and of a strong view of it agree; empty for feature vectors, which have none."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, settings = unihssl.load(folder.path, device), settings_of(folder)
    if model.architecture.vector_size:
        return {}
    samples = decode_images(folder, model, images[:: max(1, len(images) // most)]).samples.to(device)
    views = replace(model.views, weak_view=settings.weak_view, flip=settings.flip, strong_view=settings.strong_view)
    seen = (views.test(samples), views.strong(samples, BatchRandom()))
    output = methods.get(model.method).output
    one, other = (output(model.network, x, model.params).probabilities[model.rule].argmax(1) for x in seen)
    return {"agreement of views": float((one == other).float().mean())}


def regret(arguments: argparse.Namespace) -> None:
    """Means over pairs: how many points each validator's choice is below the best one, and the rank correlation."""
    pairs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in arguments.scores.read_text().splitlines():
        row = json.loads(line)
        pairs[row["pair"]].append(row)
    seen = [pair for pair in pairs if "uci" in pair or pair == "amazon/webcam"]  # when the default was chosen
    groups = {"all": list(pairs), "seen": seen, "unseen": [pair for pair in pairs if pair not in seen]}
    groups["digit images"] = [pair for pair in ("mnist/uci", "uci/mnist") if pair in pairs]
    for group, names in groups.items():
        if not names:
            continue
        chosen = [validators(pairs[name]) for name in names]
        shared = [v for v in chosen[0] if all(v in of_pair for of_pair in chosen)]
        rows = [{"validator": v} | _mean([_judged(pairs[n], c[v]) for n, c in zip(names, chosen, strict=True)])
                for v in shared]  # fmt: skip
        if group == "all":
            rows.append({"validator": LEFT_OUT} | _mean(_leave_one_out(names, pairs)))
        for name, choose in {"worst": np.min, "random": np.mean}.items():
            below = [{p: _best(pairs[n], p) - choose(_column(pairs[n], p)) for p in PARTS} for n in names]
            rows.append({"validator": name} | _mean(below))
        report(f"regret, {group}", sorted(rows, key=lambda row: row["unlabeled"]), arguments)


def validators(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Every score of one pair's runs, and combinations of them."""
    single = [row["scores"] | {"labeled accuracy": row["labeled"]} for row in rows]
    found = {name: np.array([s[name] for s in single]) for name in single[0] if name != "mean_rank"}
    found |= {name: np.array(mean_rank(single, of)) for name, of in COMBINATIONS.items()}
    calm = np.array([row["warnings"] == 0 for row in rows])
    for name in ("ensemble", "corr_c", "infomax"):  # runs that the collapse check warns of come last
        found[f"{name}, no warning first"] = found[name] + 1000 * calm
    return found


def _leave_one_out(names: list[str], pairs: dict[str, list[dict[str, Any]]]) -> list[dict[str, float]]:
    """Each pair judged with the validator that has the least mean regret on all others."""
    judged = {name: {v: _judged(pairs[name], s) for v, s in validators(pairs[name]).items()} for name in names}
    shared = [v for v in judged[names[0]] if all(v in of_pair for of_pair in judged.values())]
    found = []
    for name in names:
        others = [judged[other] for other in names if other != name] or [judged[name]]
        chosen = min(shared, key=lambda v: np.mean([of_pair[v]["unlabeled"] for of_pair in others]))
        print(f"{name}: chosen on the others: {chosen}")
        found.append(judged[name][chosen])
    return found


def _judged(rows: list[dict[str, Any]], scores: np.ndarray) -> dict[str, float]:
    """Regret of the choice in points, by part, and the rank correlation with accuracy on the unlabeled part.

    Where several runs have the highest score, the choice is a random one of them.
    """
    first = scores == scores.max()
    below = {part: _best(rows, part) - float(_column(rows, part)[first].mean()) for part in PARTS}
    varies = np.ptp(scores) > 0
    return below | {"rank correlation": float(spearmanr(scores, _column(rows, "unlabeled"))[0]) if varies else 0.0}


def _column(rows: list[dict[str, Any]], part: str) -> np.ndarray:
    return np.array([row[part] for row in rows])


def _best(rows: list[dict[str, Any]], part: str) -> float:
    return float(_column(rows, part).max())


def _mean(rows: list[dict[str, float]]) -> dict[str, float]:
    means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    return means | {"pairs": len(rows), "most": max(row["unlabeled"] for row in rows)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    training = commands.add_parser("train")
    training.add_argument("features", type=Path)
    training.add_argument("runs", type=Path)
    training.add_argument("--pairs", nargs="+", required=True)
    training.add_argument("--seeds", type=int, default=1)
    training.add_argument("--steps", type=int, default=100)
    training.set_defaults(call=train)
    scoring = commands.add_parser("score")
    scoring.add_argument("runs", type=Path, nargs="+")
    scoring.add_argument("--out", type=Path, required=True)
    scoring.set_defaults(call=score)
    regrets = commands.add_parser("regret")
    regrets.add_argument("scores", type=Path)
    regrets.add_argument("--json", type=Path)
    regrets.set_defaults(call=regret)
    arguments = parser.parse_args()
    call = vars(arguments).pop("call")
    call(arguments)

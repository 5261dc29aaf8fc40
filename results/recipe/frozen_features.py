"""A cheap look at recipes for stage 2: an MLP on frozen ImageNet features, so that every run takes seconds on a CPU.

    python frozen_features.py features --root DIR --weights resnet50.safetensors   # DIR/oc10/amazon, DIR/pacs/photo
    python frozen_features.py runs "paper;adabn+fold+confusion+ramp"

Prints the accuracy on the unlabeled *training* samples of each pair (their labels are looked at for diagnosis alone),
seed 0: dslr>amazon, webcam>amazon, amazon>webcam, caltech10>dslr, photo>art_painting, photo>cartoon.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import torch

import unihssl
from unihssl.config import Settings
from unihssl.data.sources import labeled_domain
from unihssl.data.store import fill_store
from unihssl.data.views import Views
from unihssl.models.backbones import EncoderFactory

OC10, PACS = ("amazon", "caltech10", "dslr", "webcam"), ("photo", "art_painting", "cartoon")
PAIRS = (
    ("oc10-dslr", "oc10-amazon"),
    ("oc10-webcam", "oc10-amazon"),
    ("oc10-amazon", "oc10-webcam"),
    ("oc10-caltech10", "oc10-dslr"),
    ("pacs-photo", "pacs-art_painting"),
    ("pacs-photo", "pacs-cartoon"),
)
ADABN, FOLD, CONFUSION = {"initial_statistics": "unlabeled"}, {"first_half": "fold"}, {"lambda_confusion": 1.0}
BASE = ADABN | FOLD | CONFUSION
RECIPES = {
    "supervised": {"method": "supervised"},
    "mcc+sup": {"method": "mcc+sup", "sup_lr": 0.01, "sup_epochs": 20, "router_epochs": 5},
    "paper": {},
    "adabn": ADABN,
    "fold": FOLD,
    "confusion": CONFUSION,
    "adabn+fold": ADABN | FOLD,
    "adabn+fold+confusion": BASE,
    "adabn+fold+confusion+copy": BASE | {"prediction": "sum", "second_half": "copy"},
    "confusion alone": BASE | {"lambda_pl": 0.0, "lambda_mixup": 0.0, "lambda_pa": 0.0},
    "adabn+fold+3 confusion": BASE | {"lambda_confusion": 3.0},
    "adabn+fold+confusion, no mixup": BASE | {"lambda_mixup": 0.0},
    "adabn+fold+confusion, pseudo 0.1": BASE | {"lambda_pl": 0.1},
    "adabn+fold+confusion, pseudo and mixup 0.1": BASE | {"lambda_pl": 0.1, "lambda_mixup": 0.1},
    "adabn+fold+confusion, beta 0.5": BASE | {"beta": 0.5},
    "adabn+fold+confusion, beta 0.3, pseudo and mixup 0.3": BASE | {"beta": 0.3, "lambda_pl": 0.3, "lambda_mixup": 0.3},
    "adabn+fold+confusion, epsilon 0.9, gate": BASE | {"epsilon": 0.9, "mixup_gate": True},
    "adabn+fold+confusion+half ramp": BASE | {"ramp_up": 0.5},
    "adabn+fold+confusion+ramp": BASE | {"ramp_up": 1.0},
    "adabn+fold+confusion+ramp, pseudo and mixup 0.3": BASE | {"ramp_up": 1.0, "lambda_pl": 0.3, "lambda_mixup": 0.3},
    "adabn+fold+confusion+ramp, sum": BASE | {"ramp_up": 1.0, "prediction": "sum"},
    "adabn+fold+confusion+ramp, beta 0.5": BASE | {"ramp_up": 1.0, "beta": 0.5},
    "adabn+fold+confusion+ramp, hard": BASE | {"ramp_up": 1.0, "pseudo_kind": "hard"},
    "adabn+fold+confusion+ramp, beta 0.5, hard": BASE | {"ramp_up": 1.0, "beta": 0.5, "pseudo_kind": "hard"},
}


def extract(root: Path, weights: str, out: Path) -> None:
    encoders = EncoderFactory("resnet50", weights)
    network, shape = encoders()[0].eval(), encoders.architecture
    views = Views(shape.side, shape.mean, shape.std)
    out.mkdir(parents=True, exist_ok=True)
    for name in [f"oc10/{d}" for d in OC10] + [f"pacs/{d}" for d in PACS]:
        domain, store = fill_store(labeled_domain(root / name, Settings()), (256, 256))
        with torch.inference_mode():
            x = torch.cat([network(views.test(part)) for part in store.samples.split(64)])
        np.savez(out / f"{name.replace('/', '-')}.npz", x=x.numpy(), y=domain.labels)


def accuracy(pair: tuple[str, str], knobs: dict[str, object], folder: Path) -> float:
    labeled, unlabeled = ({**np.load(folder / f"{name}.npz")} for name in pair)
    source, target = (labeled["x"], labeled["y"]), (unlabeled["x"], unlabeled["y"])
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        start = {} if "method" in knobs else {"preset": "paper"}
        model = unihssl.fit(source, target, run, backbone="mlp", lr=0.01, tensorboard=False, **start | knobs)
        rows = np.array(json.loads((run / "split.json").read_text())["unlabeled"]["train"], dtype=int)
    return 100 * float((model.predict(target[0][rows]) == target[1][rows]).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("features", "runs"))
    parser.add_argument("recipes", nargs="?", default="", help="names separated by semicolons; all by default")
    parser.add_argument("--root", type=Path, default=Path("data"))
    parser.add_argument("--weights", default="pretrained")
    parser.add_argument("--folder", type=Path, default=Path("features"), help="of the extracted features")
    arguments = parser.parse_args()
    if arguments.what == "features":
        extract(arguments.root, arguments.weights, arguments.folder)
        return
    torch.set_num_threads(1)
    for name in arguments.recipes.split(";") if arguments.recipes else RECIPES:
        row = [accuracy(pair, RECIPES[name], arguments.folder) for pair in PAIRS]
        print(f"{name:55s}", *(f"{value:5.1f}" for value in row), flush=True)


if __name__ == "__main__":
    main()

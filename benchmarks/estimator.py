"""How good is `HSSLClassifier` on vectors, beside what scikit-learn and skada offer? Digits, both directions.

    python estimator.py --seeds 3 --json ../results/estimator/digits.json

Vectors are the 256 pixels of a digit. A tenth of each domain is held out, by class. Every method trains on the labeled
rest of one domain and the unlabeled rest of the other, with its default settings, and is then asked about the held-out
digits of both without being told their domain.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from common import report
from skada import CORAL, OTMapping
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from unihssl import HSSLClassifier
from unihssl.data.catalog.digits import embedded_digits

PAIRS = (("mnist", "uci"), ("uci", "mnist"))


def linear() -> Any:
    return LogisticRegression(max_iter=1000)


METHODS: dict[str, Callable[[int], Any]] = {
    "HSSLClassifier()": lambda seed: HSSLClassifier(random_state=seed),
    "HSSLClassifier(mcc)": lambda seed: HSSLClassifier("mcc", random_state=seed),
    "HSSLClassifier(supervised)": lambda seed: HSSLClassifier("supervised", random_state=seed),
    "scikit-learn SelfTrainingClassifier": lambda seed: SelfTrainingClassifier(
        make_pipeline(StandardScaler(), linear())
    ),
    "scikit-learn LabelSpreading (knn)": lambda seed: LabelSpreading(kernel="knn"),
    "skada CORAL": lambda seed: CORAL(linear()),
    "skada OTMapping": lambda seed: OTMapping(linear()),
}
NEEDS_DOMAIN = ("HSSL", "skada")


def halves(name: str, seed: int) -> list[np.ndarray]:
    """Training and test vectors, training and test labels."""
    images, labels = embedded_digits(name)
    vectors = images.reshape(len(images), -1) / 255
    return train_test_split(vectors, labels, test_size=0.1, stratify=labels, random_state=seed)


def run(pair: tuple[str, str], name: str, seed: int) -> dict[str, Any]:
    """Test accuracies of one fit, in percent."""
    (x, x_test, y, y_test), (u, u_test, _, truth) = halves(pair[0], seed), halves(pair[1], seed)
    samples, labels = np.concatenate([x, u]), np.concatenate([y, np.full(len(u), -1)])
    domain = np.where(np.arange(len(samples)) < len(x), 1, -2)
    begin = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = METHODS[name](seed)
        estimator.fit(samples, labels, **({"sample_domain": domain} if name.startswith(NEEDS_DOMAIN) else {}))
        right = estimator.predict(x_test) == y_test, estimator.predict(u_test) == truth
    shares = {"pooled": np.concatenate(right), "labeled": right[0], "unlabeled": right[1]}
    found = {part: round(100 * float(share.mean()), 1) for part, share in shares.items()}
    return {"seed": seed} | found | {"seconds": round(time.monotonic() - begin)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    for name, pair in product(METHODS, PAIRS):
        rows = [run(pair, name, seed) for seed in range(arguments.seeds)]
        report(f"{name} {'/'.join(pair)}", rows, arguments)

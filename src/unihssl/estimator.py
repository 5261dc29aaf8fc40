"""scikit-learn's view of `fit`: one array of samples from both domains, labels masked where they are unknown."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from unihssl.api import fit
from unihssl.data.readers import known_label
from unihssl.data.source import Source
from unihssl.errors import UserError
from unihssl.evaluation.model import Model
from unihssl.evaluation.validators import OF_PREDICTIONS

MASKED = -1  # the number of a class that is not known


class HSSLClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier for two domains, trained on labels of one (the source) and samples of both.

    >>> HSSLClassifier(method="mcc", epochs=10).fit(X, y, sample_domain).predict(X_new)

    `X` holds feature vectors (N, D), images (N, H, W[, 3]) or paths of images (N,). `y` (N,) holds -1 where a label is
    not known (None or NaN among other types of labels). `sample_domain` (N,) is negative for samples of the target
    domain; by default these are the samples without a label. Labels of target samples train, too.

    Parameters that are None are the method's own defaults; `settings` are further knobs of `unihssl.fit` by name.
    """

    def __init__(
        self,
        method: str = "unihssl",
        *,
        backbone: str | None = None,
        weights: str | None = None,
        epochs: int | None = None,
        lr: float | None = None,
        batch_size: int | None = None,
        settings: Mapping[str, Any] | None = None,
        device: str = "auto",
        random_state: Any = 0,
    ) -> None:
        self.method = method
        self.backbone = backbone
        self.weights = weights
        self.epochs = epochs
        self.lr = lr
        self.batch_size = batch_size
        self.settings = settings
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_domain: Any = None) -> "HSSLClassifier":
        """Train on all samples; nothing is held out."""
        samples = self._samples(X, y, reset=True)
        labels = column_or_1d(as_array(y), warn=True)
        if labels.dtype.kind == "U" and "nan" in labels:
            raise ValueError("a label is the text 'nan': keep missing ones as None, in a list or an array of objects")
        known = is_known(labels)
        target = target_rows(known, sample_domain)
        check_consistent_length(samples, labels, target)
        check_classification_targets(labels[known])
        if target.all():
            raise ValueError("no sample is of the source domain: give some a label and a sample_domain of 0 or more")
        if not known[~target].all():
            raise ValueError(f"{(~known[~target]).sum()} samples of the source domain have no label")
        if samples.dtype == object and not target.any():
            raise ValueError("no image is of the target domain: mask some labels, or pass sample_domain")
        self.classes_ = np.unique(labels[~target])
        numbers = _class_numbers(labels, known, self.classes_)
        unlabeled = target if target.any() else np.ones_like(target)  # one domain alone is its own target
        extra: dict[str, Any] = {"target_labels": numbers[target]} if known[target].any() else {}
        try:
            self.model_: Model = fit(
                _source("source", samples[~target], numbers[~target].tolist()),
                _source("target", samples[unlabeled], [None] * int(unlabeled.sum())),
                **extra,
                **self._knobs(),
            )
        except UserError as error:
            raise ValueError(str(error)) from error
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities (N, C), columns in the order of `classes_`."""
        return np.asarray(self._model_for(X, Model.predict_proba))

    def predict(self, X: Any) -> np.ndarray:
        """The class of each sample (N,)."""
        best = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[best])

    def predict_domain(self, X: Any) -> np.ndarray:
        """The probability that each sample comes from the target domain (N,), if the method tells it."""
        return np.asarray(self._model_for(X, Model.predict_domain))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the samples whose label is known."""
        labels = column_or_1d(as_array(y))
        known = is_known(labels)
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(labels[known], self.predict(X)[known], sample_weight=weight))

    def _model_for(self, X: Any, ask: Callable[[Model, Any], Any]) -> Any:
        check_is_fitted(self)
        samples = self._samples(X, reset=False)
        try:
            return ask(self.model_, samples if samples.dtype != object else samples.tolist())
        except UserError as error:
            raise ValueError(str(error)) from error

    def _samples(self, X: Any, y: Any = "no_validation", *, reset: bool) -> np.ndarray:
        """Vectors, images, or paths as an array of objects."""
        items = X.to_numpy() if hasattr(X, "to_numpy") and X.ndim == 1 else X
        listed = isinstance(items, list | tuple | np.ndarray) and len(items) > 0
        if listed and all(isinstance(item, str | Path) for item in items):
            if reset:
                self.n_features_in_ = 1
            return np.array([Path(item) for item in items], dtype=object)
        if y is None:
            validate_data(self, X, y)  # raises scikit-learn's error
        return np.asarray(validate_data(self, X, reset=reset, allow_nd=True))

    def _knobs(self) -> dict[str, Any]:
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31)
        if own := {"method", "device", "seed", "test_fraction"} & (self.settings or {}).keys():
            raise ValueError(f"settings: {min(own)} is set by the estimator")
        named = {name: getattr(self, name) for name in ("backbone", "weights", "epochs", "lr", "batch_size")}
        named = {name: value for name, value in named.items() if value is not None}
        if twice := named.keys() & (self.settings or {}).keys():
            raise ValueError(f"settings: {min(twice)} is also a parameter, and set there: give it once")
        asked = named | dict(self.settings or {})
        fixed = {"method": self.method, "device": self.device, "seed": int(seed)}
        return {"test_fraction": 0, "tensorboard": False} | fixed | asked


def label_free_scorer(name: str = "corr_c") -> Callable[..., float]:
    """A scorer for `GridSearchCV(scoring=...)` that needs no label of the target domain; higher is better.

    `name` is corr_c, infomax, bnm, entropy, confidence, prediction_density or agreement (`evaluation.validators`). What
    is scored are the target samples of the fold: those with a negative `sample_domain`, or without a label; all if
    there are none.
    """
    if name not in OF_PREDICTIONS:  # here, as GridSearchCV would make a NaN of an error in a score
        raise ValueError(f"no label-free score is called {name!r}: there are {', '.join(OF_PREDICTIONS)}")

    def score(estimator: Any, X: Any, y: Any = None, sample_domain: Any = None) -> float:
        steps = getattr(estimator, "steps", [("", estimator)])
        samples, classifier = estimator[:-1].transform(X) if len(steps) > 1 else X, steps[-1][1]
        if y is not None or sample_domain is not None:
            known = is_known(as_array(y)) if y is not None else np.ones(len(sample_domain), bool)
            target = target_rows(known, sample_domain)
            samples = _safe_indexing(samples, np.flatnonzero(target)) if target.any() else samples
        predictions = classifier._model_for(samples, Model.predictions)
        by_rule = predictions.probabilities
        return OF_PREDICTIONS[name](by_rule[classifier.model_.rule].astype(np.float64), by_rule)

    return score


def as_array(labels: Any) -> np.ndarray:
    """The labels as an array; in a list, None and NaN among names stay what they are."""
    array = np.asarray(labels)
    return np.array(labels, dtype=object) if array.dtype.kind == "U" and isinstance(labels, list | tuple) else array


def is_known(labels: np.ndarray) -> np.ndarray:
    """(N,) bool: False for -1, None, NaN and empty text."""
    return np.array([known_label(label) is not None for label in labels.tolist()], dtype=bool)


def target_rows(known: np.ndarray, sample_domain: Any) -> np.ndarray:
    """(N,) bool: which samples are of the target domain."""
    return ~known if sample_domain is None else np.asarray(sample_domain) < 0


def _class_numbers(labels: np.ndarray, known: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Positions (N,) in `classes`; -1 where a label is not known."""
    new = set(labels[known].tolist()) - set(classes.tolist())
    if new:
        raise ValueError(f"labels of the target domain that the source domain does not have: {sorted(map(str, new))}")
    numbers = np.full(len(labels), MASKED)
    numbers[known] = np.searchsorted(classes, labels[known])
    return numbers


def _source(name: str, samples: np.ndarray, labels: list[Any]) -> Source:
    items = samples.tolist() if samples.dtype == object else samples
    names = [str(item) for item in items] if samples.dtype == object else [str(row) for row in range(len(samples))]
    return Source(f"{name} samples", items, names, labels)

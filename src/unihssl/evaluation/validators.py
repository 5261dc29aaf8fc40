"""Scores of a model on a domain without labels, to choose among models trained on it. Higher is better, for each.

None of them measures accuracy. How well each one chooses is measured in results/trust.md.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

NEIGHBOUR_TEMPERATURE = 0.05  # of soft neighbourhood density, as in its paper


def label_free_scores(by_rule: Mapping[str, np.ndarray], rule: str, features: np.ndarray | None) -> dict[str, float]:
    """All scores by name, from class probabilities (N, C) by every rule and features (N, D) of the same samples.

    >>> round(label_free_scores({"argmax": np.eye(3)}, "argmax", None)["corr_c"], 6)
    1.0
    """
    p = by_rule[rule].astype(np.float64)
    scores = {name: score(p, by_rule) for name, score in OF_PREDICTIONS.items()}
    if features is not None:
        scores |= {"class_ami": class_ami(features, p), "neighbourhood_density": neighbourhood_density(features)}
    return scores


def corr_c(p: np.ndarray) -> float:
    """Cosine of the class correlations P'P and the identity: 1 where classes are certain, apart and equally frequent.

    Tu et al., 2023.
    """
    correlation = p.T @ p
    return float(np.trace(correlation) / (np.linalg.norm(correlation) * np.sqrt(p.shape[1])))


def class_ami(features: np.ndarray, p: np.ndarray) -> float:
    """Adjusted mutual information of predicted classes and clusters of the features (Musgrave et al., 2022)."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_mutual_info_score

    clusters = KMeans(min(p.shape[1], len(p)), n_init=3, random_state=0).fit_predict(_unit(features))
    return float(adjusted_mutual_info_score(p.argmax(1), clusters))


def ensemble_agreement(candidates: Sequence[np.ndarray]) -> list[float]:
    """How often each candidate, with probabilities (N, C), predicts the class that all of them predict on average.

    Unlike the other scores it depends on the candidates beside it (Hu et al., 2024, EnsV).
    """
    together = np.mean(candidates, axis=0).argmax(1)
    return [float((p.argmax(1) == together).mean()) for p in candidates]


def mean_rank(scores: Sequence[Mapping[str, float]], names: Sequence[str]) -> list[float]:
    """The mean over these scores of each candidate's place, counted from the worst; as a share, 1 is best in all.

    >>> mean_rank([{"a": 0.1, "b": 5.0}, {"a": 0.2, "b": 4.0}, {"a": 0.3, "b": 6.0}], ["a", "b"])
    [0.25, 0.25, 1.0]
    """
    from scipy.stats import rankdata

    places = [(rankdata([of_run[name] for of_run in scores]) - 1) / max(1, len(scores) - 1) for name in names]
    return [float(mean) for mean in np.mean(places, axis=0)]


def neighbourhood_density(features: np.ndarray) -> float:
    """Entropy of the soft similarity of each sample to all others (Saito et al., 2021, on predictions or features)."""
    unit = _unit(features)
    similarity = unit @ unit.T / NEIGHBOUR_TEMPERATURE
    np.fill_diagonal(similarity, -np.inf)
    similarity = np.exp(similarity - similarity.max(1, keepdims=True))
    return _entropy(similarity / similarity.sum(1, keepdims=True))


def _entropy(p: np.ndarray) -> float:
    """The mean entropy of the rows (N, C)."""
    return float(-(p * np.log(np.maximum(p, 1e-12))).sum(1).mean())


# Of class probabilities (N, C), and of those of every rule.
OF_PREDICTIONS: Mapping[str, Callable[[np.ndarray, Mapping[str, np.ndarray]], float]] = {
    "confidence": lambda p, _: float(p.max(1).mean()),
    "entropy": lambda p, _: -_entropy(p),
    "infomax": lambda p, _: _entropy(p.mean(0, keepdims=True)) - _entropy(p),
    "bnm": lambda p, _: float(np.linalg.norm(p, "nuc") / np.sqrt(len(p) * min(p.shape))),
    "corr_c": lambda p, _: corr_c(p),
    "prediction_density": lambda p, _: neighbourhood_density(p),
    "agreement": lambda p, rules: float(np.mean([(r.argmax(1) == p.argmax(1)).mean() for r in rules.values()])),
}


def _unit(features: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(features.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(features / np.maximum(lengths, 1e-12))

"""Which images to label next: uncertain ones, spread over the clusters of the features.

Nothing here sees an image, a network or a label.
"""

import warnings

import numpy as np

WAYS = ("clusters", "margin", "random")


def choose(
    probabilities: np.ndarray, features: np.ndarray, n: int, rng: np.random.Generator, by: str = "clusters"
) -> np.ndarray:
    """The rows (n,) most worth labeling, best first, from probabilities (N, C) and features (N, D) of candidates.

    >>> rng = np.random.default_rng(0)
    >>> choose(np.array([[0.9, 0.1], [0.5, 0.5], [0.6, 0.4]]), np.eye(3), 2, rng, by="margin")
    array([1, 2])

    `clusters` takes one row of each of n clusters, `margin` the rows whose two most probable classes are closest.
    """
    if by == "margin":
        best = np.sort(probabilities, axis=1)
        return np.argsort(best[:, -1] - best[:, -2], kind="stable")[:n]
    return by_clusters(features, entropy(probabilities), n, rng)


def by_clusters(features: np.ndarray, uncertainty: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """One row of each of n clusters: k-means weighted by uncertainty, the row nearest to each centre (CLUE).

    Prabhu et al., 2021. The cluster with the most uncertainty comes first.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    weights = np.maximum(uncertainty, 1e-9)  # all may be certain
    means = KMeans(n, n_init=1, random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # copies leave clusters empty
        clusters = means.fit_predict(features, sample_weight=weights)
    distance = np.linalg.norm(features - means.cluster_centers_[clusters], axis=1)
    mass = np.bincount(clusters, weights=weights, minlength=n)
    order = np.lexsort((distance, -mass[clusters]))  # the heaviest cluster first, its nearest row first
    _, first = np.unique(clusters[order], return_index=True)
    chosen = order[np.sort(first)]
    rest = np.setdiff1d(np.argsort(-weights, kind="stable"), chosen, assume_unique=True)  # in place of empty ones
    return np.concatenate([chosen, rest])[:n]


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """The entropy of each row of (N, C)."""
    return np.asarray(-(probabilities * np.log(np.maximum(probabilities, 1e-12))).sum(1))

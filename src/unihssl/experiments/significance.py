"""Whether one row differs from another over the seeds of an experiment.

The corrected resampled t-test (Nadeau and Bengio, 2003). Training sets of different seeds overlap, so their results
vary less than those of fresh data would: the variance of the mean is taken as s² (1/n + test/train) instead of s²/n.
"""

import math
from collections.abc import Mapping
from statistics import mean, stdev
from typing import NamedTuple

SEEDS_NEEDED, LEVEL = 3, 0.05
TEST = f"corrected resampled t-test over seeds, two-sided, p < {LEVEL}, not corrected for the number of comparisons"
BySeed = Mapping[int, float]  # seed -> value


class Difference(NamedTuple):
    """The mean difference over common seeds, half the width of its 95% interval, and the p-value."""

    mean: float
    half_width: float
    p: float


def compare(values: BySeed, reference: BySeed, test_to_train: float) -> Difference | None:
    """Compare rows seed by seed, as seeds share their split; `test_to_train` is the ratio of the parts' sizes.

    None below three common seeds, and where all seeds differ by the same amount: there the test is not defined.

    >>> compare({0: 3.0, 1: 4.0, 2: 5.0}, {0: 0.0, 1: 0.0, 2: 0.0}, 1 / 9)
    Difference(mean=4.0, half_width=2.86..., p=0.026...)
    """
    seeds = sorted(set(values) & set(reference))
    differences = [round(values[seed] - reference[seed], 6) for seed in seeds]  # equal despite rounding errors
    if len(seeds) < SEEDS_NEEDED or len(set(differences)) == 1:
        return None
    from scipy.stats import t  # slow to import

    middle, freedom = mean(differences), len(seeds) - 1
    error = stdev(differences) * math.sqrt(1 / len(seeds) + test_to_train)
    return Difference(middle, float(t.isf(LEVEL / 2, freedom)) * error, float(2 * t.sf(abs(middle) / error, freedom)))

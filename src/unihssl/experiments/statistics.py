"""Means over seeds, and whether two methods differ by more than seeds do."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean, stdev

SEEDS_NEEDED, LEVEL = 3, 0.05
TEST = f"paired t-test over seeds, two-sided, p < {LEVEL}, not corrected for the number of comparisons"

BySeed = Mapping[int, float]


@dataclass(frozen=True)
class Summary:
    """Mean and sample deviation (None for a single seed) of so many seeds."""

    seeds: int
    mean: float
    std: float | None


def summarise(values: BySeed) -> Summary | None:
    if not values:
        return None
    return Summary(len(values), mean(values.values()), stdev(values.values()) if len(values) > 1 else None)


def p_value(mine: BySeed, reference: BySeed) -> float | None:
    """Of the paired t-test: a seed gives both the same split. None below three common seeds.

    None too where all seeds differ by the same amount: the test is not defined there, and on small test sets that
    happens by chance.
    """
    seeds = sorted(set(mine) & set(reference))
    differences = [round(mine[seed] - reference[seed], 6) for seed in seeds]  # equal whatever the rounding
    if len(seeds) < SEEDS_NEEDED or len(set(differences)) == 1:
        return None
    from scipy.stats import ttest_1samp  # takes a while to import

    return float(ttest_1samp(differences, 0.0).pvalue)

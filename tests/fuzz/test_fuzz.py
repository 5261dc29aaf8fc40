"""The short form of `make fuzz`, and the cases that it found."""

import pytest
from cases import KINDS

from fuzz import check, fuzz

# Kind, number and seed of cases that once ended in a traceback, a crash or more than one line.
FOUND = [("images", 3, 0), ("images", 51, 0), ("images", 84, 0), ("archives", 7, 0), ("archives", 10, 0)]
FOUND += [("dicom", 309, 0), ("runs", 2662, 0), ("arguments", 1442, 1)]
FOUND += [("arguments", number, 0) for number in (10, 24, 35, 53, 60, 64, 80, 83, 118, 374, 392, 433, 832, 1469, 2172)]


@pytest.mark.parametrize(("kind", "number", "seed"), FOUND)
def test_cases_that_were_found(kind, number, seed):
    assert check(kind, number, seed) in ("result", "one line")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_bad_input_ends_in_a_result_or_one_line(kind):
    ends = [check(kind, number, seed=1) for number in range(8)]
    assert set(ends) <= {"result", "one line"}


def test_the_tally_counts_every_case():
    tally, failed = fuzz(seconds=5, seed=2, most=10)
    assert tally.total() <= 10 and tally.total() > 0 and not failed

"""The short form of `make soak`; grids that are stopped have tests of their own."""

import pytest

from soak import check_predictions, check_runs


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_runs_and_predictions_leave_nothing_open(tmp_path):
    check_runs(2, tmp_path)  # what is loaded once
    assert check_runs(8, tmp_path) == []
    assert check_predictions(200) == []

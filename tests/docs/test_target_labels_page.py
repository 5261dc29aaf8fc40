"""The examples of docs/target-labels.md and docs/labeling.md work as printed."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["target-labels.md", "labeling.md"])
def test_the_example_trains(page):
    found: dict = {}
    exec(re.search(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL).group(1), found)
    assert (found["model"].predict(found["x"][1] + 1) == found["y"]).mean() > 0.8

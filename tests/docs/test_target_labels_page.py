"""The example of docs/target-labels.md works as printed."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "target-labels.md"


def test_the_example_trains():
    found: dict = {}
    exec(re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL).group(1), found)
    assert (found["model"].predict(found["x"][1] + 1) == found["y"]).mean() > 0.8

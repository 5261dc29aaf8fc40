"""The examples of docs/scikit-learn.md work as printed."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "scikit-learn.md"


def test_the_examples_train_and_search():
    found: dict = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(code, found)
    assert (found["model"].predict(found["X"]) == found["truth"]).mean() > 0.8
    assert found["search"].best_score_ > 0.3

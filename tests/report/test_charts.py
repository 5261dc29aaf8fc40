"""What charts, commands and rows of images are made of."""

import re
import shlex

import numpy as np
import pytest

from unihssl.report.charts import bar_chart, shorten
from unihssl.report.gallery import choose
from unihssl.report.markup import command_lines, with_code


@pytest.mark.parametrize(
    "names",
    [
        [f"intraductal papillary mucinous neoplasm type {n}" for n in ("one", "two", "three")],
        [f"adenocarcinoma {side} lung upper lobe" for side in ("left", "right", "middle")],
        [f"{'x' * 30}{n:03}{'y' * 30}" for n in range(200)],
        ["benign", "b" * 20, "b" * 21, ""],
    ],
)
def test_shortened_names_fit_and_stay_apart(names):
    short = shorten(names, 14)
    assert list(short) == names and max(map(len, short.values())) <= 14 and len(set(short.values())) == len(names)
    assert all(short[name] == name for name in names if len(name) <= 14)
    assert max(map(len, shorten(names, 1).values())) <= 1


@pytest.mark.parametrize("longest", [0.04, 0.12, 0.29, 0.3, 0.55, 1.0])
def test_the_axis_of_bars_ends_at_a_number_beyond_the_longest(longest):
    drawn = str(bar_chart(["a", "b"], [("red", [longest, longest / 2])]))
    ends = [float(x) for x in re.findall(r'<line x1="([\d.]+)"', drawn)]
    bars = [float(wide) for wide in re.findall(r'<rect x="116" [^>]*width="([\d.]+)"', drawn)]
    assert 116 + max(bars) <= max(ends) + 0.01 and "<title>a</title>" in drawn


def test_a_command_has_its_options_on_lines_and_is_the_same_when_copied():
    command = shlex.join(["unihssl", "train", "--labeled", "a --b 'c'", "--no-flip", "--set", "lr=0.1", "<x>"])
    text = re.sub("<[^>]*>", "", command_lines(command)).replace("&lt;", "<").replace("&gt;", ">")
    text = text.replace("&#39;", "'").replace("&#34;", '"')
    assert [line.split()[0] for line in text.splitlines()] == ["unihssl", "--labeled", "--no-flip", "--set"]
    assert shlex.split(text.replace("\\\n", "")) == shlex.split(command)
    assert str(command_lines("--help")) == "<span>--help</span>"


def test_backticks_and_options_are_code_and_all_else_is_escaped():
    assert with_code("try --set a_b=mcc+sup, or `<b>` & `c") == (
        "try <code>--set a_b=mcc+sup</code>, or <code>&lt;b&gt;</code> &amp; `c"
    )


def test_no_image_is_shown_twice_and_classes_take_turns():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(3), 40)
    labels = np.where(rng.uniform(size=40) < 0.9, probabilities.argmax(1), 0)
    chosen = choose(probabilities, labels)
    assert list(chosen) == ["most confident, right", "most confident, wrong", "most doubtful"]
    rows = np.concatenate([*chosen.values()])
    assert len(set(rows)) == len(rows)
    confidence, predicted = probabilities.max(1), probabilities.argmax(1)
    assert set(predicted[chosen["most confident, right"][:3]]) == {0, 1, 2}
    left = np.setdiff1d(np.arange(40), np.concatenate([*chosen.values()][:2]))
    assert confidence[chosen["most doubtful"]] == pytest.approx(np.sort(confidence[left])[:6])
    assert list(choose(probabilities, None)) == ["most confident", "most doubtful"]
    assert list(choose(probabilities[:3], None)) == ["most confident"]  # nothing is left to doubt


def test_a_part_of_a_command_cut_at_a_line_break_is_shown_as_it_is():
    assert command_lines("unihssl predict 'a<b") == "unihssl predict &#39;a&lt;b"

"""Tables from hand-made results, to the letter."""

from typing import Any

import pytest

from unihssl.experiments import paper
from unihssl.experiments.details import detail_rows, detail_tables, long_csv
from unihssl.experiments.render import latex, markdown, terminal
from unihssl.experiments.results import Record, told_apart
from unihssl.experiments.statistics import p_value
from unihssl.experiments.tables import main_tables


def records(
    variant: str, pair: str, *accuracies: float, dataset: str = "office-31", experiment: str = "benchmark", **more: Any
) -> list[Record]:
    """A run for each accuracy, of seeds 0, 1, ..."""
    return [
        Record(dataset, pair, experiment, variant, seed, result(accuracy), more, {"mask_rate": 0.5}, variant)
        for seed, accuracy in enumerate(accuracies)
    ]


def result(accuracy: float) -> dict[str, Any]:
    part = {"accuracy": accuracy, "class_mean_accuracy": accuracy, "macro_f1": accuracy - 0.1}
    part["class_accuracy"] = {"aeroplane": accuracy, "bicycle": 1.0}
    return dict.fromkeys(("pooled", "labeled", "unlabeled"), part) | {"domain_accuracy": 0.75}


TWO = [
    *records("unihssl", "D/W", 0.98, 0.99, 1.00),
    *records("unihssl", "A/W", 0.90, 0.91, 0.92),
    *records("cdan+sup", "D/W", 0.95, 0.95, 0.97),
    *records("cdan+sup", "A/W", 0.90, 0.91, 0.95),
]


def test_markdown():
    (table,) = main_tables(TWO)
    few = paper.table("office-31", "benchmark").remarks
    assert (
        markdown([table])
        == f"""\
**office-31, benchmark: accuracy on both test parts pooled, %**

|  | A/W | D/W | Avg |
| --- | --- | --- | --- |
| cdan+sup | **92.0 ± 2.6** (82.5, +9.5) | 95.7 ± 1.2\\* (79.2[1], +16.5) | 93.8 ± 1.9 |
| unihssl | 91.0 ± 1.0 (90.2, +0.8) | **99.0 ± 1.0** (100.0, -1.0) | **95.0 ± 1.0** |

- [1] {paper.table("office-31", "benchmark").notes["cdan+sup", "D/W"]}
- in brackets: the paper's figure (Table 1) and ours minus it
- {few[0]}
- {few[1]}
- \\* differs from unihssl (paired t-test over seeds, two-sided, p < 0.05, not corrected for the number of comparisons)
"""
    )


def test_latex():
    text = latex(main_tables(TWO))
    assert r"cdan+sup & \textbf{92.0 $\pm$ 2.6} (82.5, $+$9.5) & 95.7 $\pm$ 1.2$^{*}$ (79.2$^{1}$, $+$16.5)" in text
    assert r"\textbf{99.0 $\pm$ 1.0} (100.0, $-$1.0) & \textbf{95.0 $\pm$ 1.0} \\" in text
    assert "\\toprule\n & A/W & D/W & Avg \\\\\n\\midrule\n" in text and "\\bottomrule" in text
    assert r"\begin{tabular}{lccc}" in text and r"pooled, \%}" in text and "p $<$ 0.05" in text
    own = latex(main_tables(records("my_way & more", "a/b", 0.5, dataset="")))
    assert r"my\_way \& more & 50.0 \\" in own


def test_the_terminal_shows_the_same(capsys):
    from rich.console import Console

    Console(width=200).print(terminal(main_tables(TWO)[0]))
    shown = capsys.readouterr().out
    assert "95.7 ± 1.2* (79.2[1], +16.5)" in shown and "[1] implausible" in shown


def test_the_papers_average_is_compared_with_an_average_over_the_same_pairs_only():
    pairs = paper.table("office-31", "benchmark").columns[:-1]
    whole = [r for pair in pairs for r in records("unihssl", pair, 0.9, 0.8)]
    assert "| 85.0 ± 7.1 (87.5[1], -2.5) |" in markdown(main_tables(whole))
    (table,) = main_tables(whole)
    assert table.footnotes == ("the columns printed by the paper average 87.57",)
    assert table.columns == ("", *pairs, "Avg")


def test_no_mark_with_two_seeds_or_where_the_test_is_not_defined():
    two = [*records("unihssl", "A/W", 0.5, 0.6), *records("mcc", "A/W", 0.9, 0.95)]
    assert "\\*" not in markdown(main_tables(two))
    assert p_value({0: 1, 1: 2, 2: 3}, {0: 0, 1: 1, 2: 2}) is None
    assert p_value({0: 1, 1: 2, 2: 4}, {0: 1, 1: 2, 2: 4}) is None
    # Differences 3, 4, 5: mean 4, standard error 1/sqrt(3), t = 6.93 with two degrees of freedom.
    assert p_value({0: 3, 1: 4, 2: 5}, {0: 0, 1: 0, 2: 0}) == pytest.approx(0.0202, abs=1e-4)
    assert p_value({0: 3, 1: 4, 5: 5}, {0: 0, 1: 0, 2: 0}) is None  # two seeds in common


def test_classes_are_the_columns_of_visda():
    (table,) = main_tables(records("unihssl", "S/R", 0.9, 0.8, dataset="visda-2017"))
    assert table.columns[:3] == ("", "aeroplane", "bicycle") and table.columns[-1] == "Avg"
    text = markdown([table])
    assert "| unihssl | 85.0 ± 7.1 (98.2[1], -13.2) | 100.0 ± 0.0 (97.5, +2.5) | - (91.4) |" in text
    assert "| 85.0 ± 7.1 (93.1[2], -8.1) |" in text


def test_isic_has_f1_and_balanced_accuracy_and_tells_of_the_leak():
    mine = records("unihssl", "BCN/HAM", 0.9, dataset="isic-2019", group_by="")
    pooled, f1, balanced = main_tables(mine)
    assert "(79.9, +10.1)" in markdown([pooled]) and any("share their lesions" in r for r in pooled.remarks)
    assert "macro F1" in f1.title and "| unihssl | 80.0 |" in markdown([f1])
    assert "balanced accuracy" in balanced.title and "| unihssl | 90.0 |" in markdown([balanced])
    grouped = main_tables(records("unihssl", "BCN/HAM", 0.9, dataset="isic-2019", group_by="lesion_id"))[0]
    assert any("split by lesion_id" in r for r in grouped.remarks)


def test_ablation_and_sensitivity():
    variants = ("w/o Prog. Mixup", "w/o WMA", "unihssl")
    (table,) = main_tables([r for v in variants for r in records(v, "W/A", 0.7, experiment="ablation")])
    assert [label for label, _ in table.rows] == ["unihssl", "w/o WMA", "w/o Prog. Mixup"]
    assert "| w/o Prog. Mixup | **70.0** (71.3, -1.3) |" in markdown([table])
    values = ("beta=0.8", "beta=0.05", "lambda_pa=10.0", "lambda_pa=2.0")
    beta, pa = main_tables([r for v in values for r in records(v, "W/A", 0.7, experiment="sensitivity")])
    assert [label for label, _ in beta.rows] == ["beta=0.05", "beta=0.8"] and "of beta" in beta.title
    assert [label for label, _ in pa.rows] == ["lambda_pa=2.0", "lambda_pa=10.0"]


def test_runs_set_differently_are_never_averaged():
    mixed = [*records("mcc", "A/W", 0.9, epochs=20, seed=0, lr=1), *records("mcc", "A/W", 0.5, epochs=100, seed=0)]
    (table,) = main_tables(told_apart(mixed))
    assert [label for label, _ in table.rows] == ["mcc [epochs=100]", "mcc [epochs=20]"]
    assert "| mcc [epochs=20] | **90.0** |" in markdown([table])


def test_details():
    text = markdown(detail_tables(TWO))
    assert "**office-31, benchmark, D/W: in detail, %**" in text
    same = "99.0 ± 1.0 | " * 4
    assert f"| unihssl | 3 | {same}89.0 ± 1.0 | 75.0 | - | 50.0 | - |" in text
    row = detail_rows(TWO)[0]
    assert (row["pair"], row["method"], row["seeds"]) == ("D/W", "cdan+sup", 3)
    assert row["pooled"] == pytest.approx(95.667, abs=1e-3) and row["mask_rate"] == 50 and row["macro_f1_std"] > 1
    lines = long_csv(TWO).splitlines()
    assert lines[0] == "dataset,experiment,row,pair,part,metric,seeds,mean,std,values,paper,difference,p"
    numbers = "3,95.667,1.155,0:95.000 1:95.000 2:97.000,79.200,16.467"
    # Differences -3, -4, -3: t = -10 with two degrees of freedom.
    assert f"office-31,benchmark,cdan+sup,D/W,pooled,accuracy,{numbers},0.009852" in lines


def test_the_papers_figures():
    ablation = paper.table("office-31", "ablation")
    assert ablation.mean("w/o L_pl", "D/A") == 71.0 and ablation.notes["w/o WMA", "Avg"].startswith("the columns")
    assert paper.table("office-home", "benchmark").mean("mcc+sup", "Ar/Pr") == 71.8
    assert paper.table("visda-2017", "benchmark").mean("unihssl", "truck") == 82.4
    assert paper.table("isic-2019", "benchmark").mean("biadapt", "Avg") == 71.25
    assert paper.table("pacs", "benchmark") is None

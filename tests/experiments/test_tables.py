"""Tables from hand-made results, to the letter."""

import io
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from unihssl.data.catalog import DATASETS
from unihssl.experiments import paper
from unihssl.experiments.overview import overview_tables
from unihssl.experiments.pair_tables import detail_rows, detail_tables, long_csv
from unihssl.experiments.render import latex, markdown, terminal
from unihssl.experiments.results import Record, label_records
from unihssl.experiments.significance import TEST, compare
from unihssl.experiments.tables import Table, main_tables
from unihssl.methods.unihssl import UniHSSL

COMMON = {"backbone": "resnet50", "weights": "pretrained", "epochs": 100, "steps": 0, "max_steps": 0}


def records(
    variant: str, pair: str, *accuracies: float, dataset: str = "office-31", experiment: str = "benchmark", **more: Any
) -> list[Record]:
    """A run for each accuracy, of seeds 0, 1, ..."""
    return [
        Record(
            dataset,
            pair,
            experiment,
            variant,
            seed,
            result(accuracy),
            COMMON | {"method": variant.partition(":")[0] if experiment == "benchmark" else "unihssl"} | more,
            {"mask_rate": 0.5},
            variant,
            Path(f"r{seed}"),
        )
        for seed, accuracy in enumerate(accuracies)
    ]


def result(accuracy: float) -> dict[str, Any]:
    part = {"accuracy": accuracy, "class_mean_accuracy": accuracy, "macro_f1": accuracy - 0.1}
    part["class_accuracy"] = {"aeroplane": accuracy, "bicycle": 1.0}
    return dict.fromkeys(("pooled", "labeled", "unlabeled"), part) | {"domain_accuracy": 0.75}


TWO = [
    *records("unihssl:paper", "D/W", 0.98, 0.99, 1.00),
    *records("unihssl:paper", "A/W", 0.90, 0.91, 0.92),
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
| unihssl:paper | 91.0 ± 1.0 (90.2, +0.8) | **99.0 ± 1.0** (100.0, -1.0) | **95.0 ± 1.0** |

- [1] {paper.table("office-31", "benchmark").notes["cdan+sup", "D/W"]}
- in brackets: the paper's figure (Table 1) and ours minus it
- {few[0]}
- {few[1]}
- \\* differs from unihssl:paper ({TEST})
- made with resnet50 (weights: pretrained); 100 epochs; seeds 0 to 2; machine and commit not noted
"""
    )


def test_a_table_without_a_number_says_why():
    empty = Table("own data", ("", "A/B"), (("unihssl", ("-",)),))
    assert "unihssl select ranks runs" in markdown([empty]) and "A/B" not in markdown([empty])
    assert "unihssl select ranks runs" in latex([empty]) and "\n\n" not in latex([empty])
    assert "unihssl select ranks runs" in " ".join(shown(empty, 80).split())


def test_latex():
    text = latex(main_tables(TWO))
    assert r"cdan+sup & \textbf{92.0 $\pm$ 2.6} (82.5, $+$9.5) & 95.7 $\pm$ 1.2$^{*}$ (79.2$^{1}$, $+$16.5)" in text
    assert r"\textbf{99.0 $\pm$ 1.0} (100.0, $-$1.0) & \textbf{95.0 $\pm$ 1.0} \\" in text
    assert "\\toprule\n & A/W & D/W & Avg \\\\\n\\midrule\n" in text and "\\bottomrule" in text
    assert "\\begin{adjustbox}{max width=\\textwidth}\n\\begin{tabular}{lccc}\n" in text
    assert r"\end{adjustbox}" in text and r"pooled, \%}" in text and "p $<$ 0.05" in text
    own = latex(main_tables(records("my_way & more", "a/b", 0.5, dataset="")))
    assert r"my\_way \& more & 50.0 \\" in own


def shown(table: Table, width: int) -> str:
    console = Console(width=width, file=io.StringIO())
    console.print(terminal(table, width))
    return console.file.getvalue()


def test_the_terminal_shows_the_same():
    text = shown(main_tables(TWO)[0], 200)
    assert "95.7 ± 1.2* (79.2[1], +16.5)" in text and "[1] implausible" in text


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_a_narrow_terminal_gets_blocks_of_columns_with_every_number_whole(width):
    pairs = DATASETS["office-home"].pairs
    accuracies = {pair: [0.5123 + i / 100, 0.6 + i / 50, 0.7] for i, pair in enumerate(pairs)}
    own = [
        r
        for pair in pairs
        for method in ("unihssl", "mcc+sup [max_steps=500]")
        for r in records(method, pair, *accuracies[pair], dataset="office-home")
    ]
    (table,) = main_tables(own)
    assert len(table.columns) == 14
    text = shown(table, width)
    assert max(map(len, text.splitlines())) <= width
    names = [line for line in text.splitlines() if " ± " in line]
    assert all(line.split()[0] in ("unihssl", "mcc+sup") for line in names)
    for _, cells in table.rows:
        for cell in cells:
            assert f"{cell.summary.mean:.1f} ± {cell.summary.std:.1f}" in text
    lines = text.splitlines()
    heads = [above.split() for above, line in pairwise(lines) if line.strip().startswith("──")]
    assert [name for head in heads for name in head] == list(table.columns[1:])
    detail = shown(detail_tables(own)[0], width)
    assert all(name in detail for name in ("pooled", "unlabeled", "class mean", "macro F1"))


def test_the_papers_average_is_compared_with_an_average_over_the_same_pairs_only():
    pairs = paper.table("office-31", "benchmark").columns[:-1]
    whole = [r for pair in pairs for r in records("unihssl:paper", pair, 0.9, 0.8)]
    assert "| 85.0 ± 7.1 (87.5[1], -2.5) |" in markdown(main_tables(whole))
    (table,) = main_tables(whole)
    assert table.footnotes == ("the columns printed by the paper average 87.57",)
    assert table.columns == ("", *pairs, "Avg")


def test_no_mark_with_two_seeds_or_where_the_test_is_not_defined():
    two = [*records("unihssl:paper", "A/W", 0.5, 0.6), *records("mcc", "A/W", 0.9, 0.95)]
    assert "\\*" not in markdown(main_tables(two))
    assert compare({0: 1, 1: 2, 2: 3}, {0: 0, 1: 1, 2: 2}, 0.1) is None
    assert compare({0: 1, 1: 2, 2: 4}, {0: 1, 1: 2, 2: 4}, 0.1) is None
    assert compare({0: 3, 1: 4, 5: 5}, {0: 0, 1: 0, 2: 0}, 0.1) is None  # two seeds in common


def test_the_corrected_resampled_t_test():
    """Differences 3, 4, 5: mean 4, standard deviation 1, two degrees of freedom (t of 0.975 is 4.303)."""
    values, zeros = {0: 3.0, 1: 4.0, 2: 5.0}, {0: 0.0, 1: 0.0, 2: 0.0}
    plain = compare(values, zeros, 0.0)  # without a test part it is the paired t-test
    assert plain == (4, pytest.approx(4.3027 / math.sqrt(3), abs=1e-4), pytest.approx(0.0202, abs=1e-4))
    corrected = compare(values, zeros, 1 / 9)
    assert corrected == (4, pytest.approx(4.3027 * math.sqrt(1 / 3 + 1 / 9), abs=1e-4), pytest.approx(0.0267, abs=1e-3))


def test_the_overview_has_parts_ceiling_and_margins():
    rows = {"supervised": (0.5, 0.52, 0.51), "mcc": (0.7, 0.71, 0.74), "unihssl": (0.8, 0.84, 0.82)}
    rows["oracle"] = (0.9, 0.92, 0.91)
    found = [r for row, accuracies in rows.items() for pair in ("P/A", "P/C") for r in records(row, pair, *accuracies)]
    (table,) = overview_tables([replace(r, dataset="pacs") for r in found])
    cells = dict(table.rows)
    assert table.columns[1:5] == ("pooled", "labeled", "unlabeled", "macro F1, unlabeled")
    assert cells["mcc"][0].summary.mean == pytest.approx(100 * 2.15 / 3)
    assert [row[-2] for row in cells.values()] == ["100%", "0%", "52%", "78%"]
    assert cells["unihssl"][-1] == "" and cells["mcc"][-1].startswith("-10.3 ± ")
    assert overview_tables([r for r in found if r.label == "mcc"]) == []


def test_the_gap_is_that_of_the_seeds_that_all_have():
    rows = {"supervised": (0.7, 0.8, 0.9), "mcc": (0.72,), "unihssl": (0.75, 0.85, 0.95), "oracle": (0.8, 0.9, 1.0)}
    found = [r for row, accuracies in rows.items() for pair in ("P/A", "P/C") for r in records(row, pair, *accuracies)]
    (table,) = overview_tables([replace(r, dataset="pacs") for r in found])
    assert {row: cells[-2] for row, cells in table.rows} == {
        "supervised": "0%",
        "mcc": "20%",
        "unihssl": "50%",
        "oracle": "100%",
    }


def test_classes_are_the_columns_of_visda():
    (table,) = main_tables(records("unihssl:paper", "S/R", 0.9, 0.8, dataset="visda-2017"))
    assert table.columns[:3] == ("", "aeroplane", "bicycle") and table.columns[-1] == "Avg"
    text = markdown([table])
    assert "| unihssl:paper | 85.0 ± 7.1 (98.2[1], -13.2) | 100.0 ± 0.0 (97.5, +2.5) | - (91.4) |" in text
    assert "| 85.0 ± 7.1 (93.1[2], -8.1) |" in text


def test_isic_has_f1_and_balanced_accuracy_and_tells_of_the_leak():
    own = records("unihssl:paper", "BCN/HAM", 0.9, dataset="isic-2019", group_by="")
    pooled, f1, balanced = main_tables(own)
    assert "(79.9, +10.1)" in markdown([pooled]) and any("share their lesions" in r for r in pooled.remarks)
    assert "macro F1" in f1.title and "| unihssl:paper | 80.0 |" in markdown([f1])
    assert "balanced accuracy" in balanced.title and "| unihssl:paper | 90.0 |" in markdown([balanced])
    grouped = main_tables(records("unihssl:paper", "BCN/HAM", 0.9, dataset="isic-2019", group_by="lesion_id"))[0]
    assert any("split by lesion_id" in r for r in grouped.remarks)


def test_ablation_and_sensitivity():
    variants = ("w/o Prog. Mixup", "w/o WMA", "unihssl:paper")
    (table,) = main_tables([r for v in variants for r in records(v, "W/A", 0.7, experiment="ablation")])
    assert [label for label, _ in table.rows] == ["unihssl:paper", "w/o WMA", "w/o Prog. Mixup"]
    assert "| w/o Prog. Mixup | **70.0** (71.3, -1.3) |" in markdown([table])
    values = ("beta=0.8", "beta=0.05", "lambda_pa=10.0", "lambda_pa=2.0")
    beta, pa = main_tables([r for v in values for r in records(v, "W/A", 0.7, experiment="sensitivity")])
    assert [label for label, _ in beta.rows] == ["beta=0.05", "beta=0.8"] and "of beta" in beta.title
    assert [label for label, _ in pa.rows] == ["lambda_pa=2.0", "lambda_pa=10.0"]


def test_the_two_ablations_in_one_folder_are_two_tables():
    papers = [r for v in ("w/o WMA", "unihssl:paper") for r in records(v, "W/A", 0.7, experiment="ablation")]
    rows = ("paper + beta", "paper", "robust w/o beta", "robust w/o first_half", "robust")
    accuracies = ((0.7, 0.71, 0.7), (0.6, 0.62, 0.6), (0.8, 0.81, 0.81), (0.9, 0.92, 0.9), (0.9, 0.91, 0.92))
    ours = [
        r
        for row, values in zip(rows, accuracies, strict=True)
        for r in records(row, "W/A", *values, experiment="ablation-of-robust")
    ]
    first, second = main_tables(papers + ours)
    assert [label for label, _ in first.rows] == ["unihssl:paper", "w/o WMA"]
    order = ["robust", "robust w/o first_half", "robust w/o beta", "paper", "paper + beta"]
    assert [label for label, _ in second.rows] == order
    assert any("differs from robust" in remark for remark in second.remarks)


def test_a_sensitivity_table_names_the_method_unless_it_is_the_papers():
    own = [
        r
        for method, preset in (("unihssl", "paper"), ("mcc", "finetune"), ("unihssl", "robust"))
        for r in records("lr=0.1", "W/A", 0.7, experiment="sensitivity", method=method, preset=preset, lr=0.1)
    ]
    papers, theirs, ours = main_tables(label_records(own))
    assert "of lr: " in papers.title and papers.rows[0][0] == "lr=0.1"
    assert "of lr, mcc: " in theirs.title and theirs.rows[0][0] == "lr=0.1 [mcc]"
    assert "of lr, unihssl: " in ours.title and ours.rows[0][0] == "lr=0.1 [unihssl]"
    assert [row["method"] for row in detail_rows(label_records(own))] == ["lr=0.1", "lr=0.1 [mcc]", "lr=0.1 [unihssl]"]


def test_a_preset_asked_for_by_setting_names_the_row_as_by_method():
    own = [
        r
        for variant, method, preset in (
            ("unihssl", "unihssl", "robust"),
            ("unihssl", "unihssl", "paper"),
            ("mcc", "mcc", "finetune"),
            ("mcc", "mcc", "original"),
            ("unihssl:paper", "unihssl", "paper"),
        )
        for r in records(variant, "A/W", 0.7, method=method, preset=preset)
    ]
    (table,) = main_tables(label_records(own))
    assert [label for label, _ in table.rows] == ["mcc", "mcc:original", "unihssl:paper", "unihssl"]


def test_runs_set_differently_are_never_averaged():
    mixed = [*records("mcc", "A/W", 0.9, epochs=20, seed=0, lr=1), *records("mcc", "A/W", 0.5, epochs=100, seed=0)]
    (table,) = main_tables(label_records(mixed))
    assert [label for label, _ in table.rows] == ["mcc [epochs=100, lr=0.0005]", "mcc [epochs=20, lr=1]"]
    assert "| mcc [epochs=20, lr=1] | **90.0** |" in markdown([table])


def test_a_knob_that_a_run_did_not_save_had_its_default_there():
    new, older, plain = (
        records("unihssl", "A/W", accuracy, method="unihssl", **more)[0]
        for accuracy, more in ((0.9, {"lambda_confusion": 1.0}), (0.8, {}), (0.7, {"lambda_confusion": 0.0}))
    )
    labels = [r.label for r in label_records([new, older, plain])]
    assert labels == [f"unihssl [lambda_confusion={weight}]" for weight in (1.0, 0.0, 0.0)]
    assert {r.label for r in label_records([older, plain])} == {"unihssl"}


def test_remarks_tell_of_notes_warnings_and_of_what_made_the_runs():
    own = records("unihssl", "A/W", 0.5, 0.6, epochs=20, max_steps=500, weights="/data/r50.safetensors")
    own += records("mcc", "A/W", 0.5, 0.6, steps=10_000, weights="/data/r50.safetensors")
    environment = {"command": ["/bin/unihssl", "benchmark", "office-31", "--set", "a b"], "gpu": "NVIDIA H200"}
    environment |= {"packages": {"torch": "2.4.1"}, "commit": "abc1234"}
    note = "office-31 is not as published, results may not compare: " + "A/back_pack: 91 images, not 92; " * 20
    own = [replace(r, environment=environment, result=r.result | {"notes": [note], "warnings": []}) for r in own]
    own[0].result["warnings"].append("the unlabeled domain was probably not learnt")
    (table,) = main_tables(own)
    text, warned, made, command = (r for r in table.remarks if r.startswith(("note", "1 of", "made", "command")))
    assert text.startswith("note: office-31 is not as published") and text.endswith(" ...") and len(text) < 210
    assert warned == "1 of 4 runs warn: the unlabeled domain or a class of it was probably not learnt (unihssl)"
    assert made == (
        "made with resnet50 (weights: r50.safetensors); 20 epochs or 10,000 steps, at most 500 steps a stage in some "
        "runs; seeds 0 to 1; on NVIDIA H200; torch 2.4.1; commit abc1234"
    )
    assert command == "command: unihssl benchmark office-31 --set 'a b'"
    assert r"-{}-set 'a b'" in latex([table]) and r"r50.safetensors" in latex([table])
    assert command in markdown([table]) and command in shown(table, 200)


def asked(record: Record, row: str = "", **knobs: Any) -> Record:
    """The record of a run that saved what was asked for."""
    return replace(record, environment={"asked": knobs, "row": row or record.method})


def made(*own: Record) -> str:
    return next(remark for remark in main_tables(own)[0].remarks if remark.startswith("made with"))


def test_knobs_that_were_asked_for_are_noted():
    unihssl, mcc, cdan = (records(name, "A/W", 0.5)[0] for name in ("unihssl", "mcc", "cdan"))
    elsewhere = {"method": "unihssl", "backbone": "resnet18", "weights": "none", "seed": 3, "epochs": 7}
    own = [asked(unihssl, lambda_pa="0.5", placement="disk", **elsewhere), asked(mcc, lr=0.1), asked(cdan, lr=0.1)]
    assert "; seed 0; unihssl with lambda_pa=0.5; mcc and cdan with lr=0.1; on" in made(*own)
    assert "; all rows with lr=0.1; " in made(*own[1:])
    assert " with lambda_pa" not in made(own[0], asked(replace(unihssl, seed=1)))  # not shared by all seeds
    assert made(unihssl, mcc).count(" with ") == 1  # made with: these runs did not save what was asked for


def test_todays_presets_and_defaults_say_nothing_about_old_runs(monkeypatch):
    (old,) = records("unihssl", "A/W", 0.5, preset="robust", lambda_pa=0.5, lr=7.0)
    before = markdown(main_tables(label_records([old])))
    monkeypatch.setattr(UniHSSL, "presets", {"another": {"": {"lr": 3.0}}})
    assert markdown(main_tables(label_records([old]))) == before and "lambda_pa" not in before


def test_the_row_of_a_run_is_the_one_it_saved():
    (run,) = records("mcc", "A/W", 0.5, preset="original")
    assert run.row == "mcc:original" and asked(run, "mcc").row == "mcc"  # its default when it was made
    rows = {("unihssl", "robust"): "unihssl", ("unihssl", "paper"): "unihssl:paper", ("mcc", "finetune"): "mcc"}
    for (method, preset), row in rows.items():  # of 0.1.0
        assert records(method, "A/W", 0.5, preset=preset)[0].row == row


def test_knobs_that_a_row_is_named_after_are_not_noted_again():
    for experiment, variant, knobs in (
        ("ablation", "w/o L_pa", {"lambda_pa": 0.0, "preset": "paper"}),
        ("sensitivity", "lambda_pa=0.1", {"lambda_pa": 0.1}),
    ):
        (r,) = records(variant, "A/W", 0.5, experiment=experiment, method="unihssl", **knobs)
        assert "lambda_pa" not in made(asked(r, **knobs)) and "preset" not in made(asked(r, **knobs))
        assert f"; {variant} with beta=0.7; " in made(asked(r, beta=0.7, **knobs))


def test_what_is_not_all_there_is_called_so():
    def text(own: list[Record]) -> list[str]:
        return [r for r in main_tables(own)[0].remarks if r.startswith("incomplete")]

    whole = [r for pair in ("A/W", "D/W", "A/D", "W/D", "D/A") for r in records("mcc", pair, 0.5, 0.6)]
    assert text(whole) == [] and text(TWO) == []
    some = [*records("unihssl", "A/W", 0.5, 0.6), *records("unihssl", "A/D", 0.5)]
    assert text([*whole[:6], *some]) == ["incomplete: unihssl lacks D/W (1 of 3 pairs) and seed 1 of A/D"]
    assert text([*whole, *some[:1]]) == ["incomplete: unihssl lacks 4 of 5 pairs and seed 1 of A/W"]
    three = [*whole, *records("unihssl", "A/W", 0.5, 0.6), *records("cdan", "A/W", 0.5, 0.6)]
    assert text(three) == ["incomplete: unihssl and cdan lack 4 of 5 pairs"]
    assert text(some) == ["incomplete: unihssl lacks seed 1 of A/D"]


def test_runs_of_different_commits_and_machines_are_called_so():
    own = records("unihssl", "A/W", 0.5, 0.6, 0.7, 0.8, 0.9)
    gpus = ({"gpu": "H200", "commit": "a"}, {"gpu": None, "commit": "b"}, {"gpu": "H200"}, {}, {"gpu": "H200"})
    own = [
        replace(r, environment=e | ({"command": ["unihssl", str(i)]} if e else {}), seed=3 * i)
        for i, (r, e) in enumerate(zip(own, gpus, strict=True))
    ]
    *_, made, first, second, third, rest = main_tables(own)[0].remarks
    assert "seeds 0, 3, 6, 9, 12; DIFFERENT machines: H200 (3 of 5 runs), CPU (1 of 5 runs), not noted" in made
    assert made.endswith("DIFFERENT commits: a (1 of 5 runs), b (1 of 5 runs), not noted (3 of 5 runs)")
    assert (first, second, third, rest) == (*(f"command: unihssl {i}" for i in (0, 1, 2)), "commands not shown: 1")


def test_details():
    text = markdown(detail_tables(TWO))
    assert "**office-31, benchmark, D/W: in detail, %**" in text
    same, others = "99.0 ± 1.0 | " * 6, "89.0 ± 1.0 | " * 3
    assert f"| unihssl:paper | 3 | {same}{others}75.0 | 50.0 |" in text
    row = detail_rows(TWO)[0]
    assert (row["pair"], row["method"], row["seeds"]) == ("D/W", "cdan+sup", 3)
    assert row["pooled"] == pytest.approx(95.667, abs=1e-3) and row["mask_rate"] == 50 and row["macro_f1_std"] > 1
    lines = long_csv(TWO).splitlines()
    assert lines[0] == "dataset,experiment,row,pair,part,metric,seeds,mean,std,values,paper,difference,p,folders"
    numbers = "3,95.667,1.155,0:95.000 1:95.000 2:97.000,79.200,16.467"
    # Differences -3, -4, -3: t = -10 with two degrees of freedom.
    assert f"office-31,benchmark,cdan+sup,D/W,pooled,accuracy,{numbers},0.01307,r0;r1;r2" in lines


def test_sources_of_the_unlabeled_domain_have_columns_of_their_own():
    parts = {"b": {"accuracy": 0.9, "macro_f1": 0.5}, "notes": {"accuracy": 0.4, "macro_f1": 0.3}}
    several = [replace(r, pair="a/b+c", result=r.result | {"sources": parts}) for r in TWO[:3]]
    with_sources, without = (markdown(detail_tables(records)) for records in (several, TWO))
    assert (
        "| unlabeled | source b | source notes | class mean |" in with_sources
        and "| unlabeled | class mean |" in without
    )
    assert "| 90.0 ± 0.0 | 40.0 ± 0.0 |" in with_sources
    assert (
        detail_rows(several)[0]["sources"] == pytest.approx({"b": 90, "notes": 40})
        and "sources" not in detail_rows(TWO)[0]
    )
    assert ",a/b+c,source notes,macro_f1,3,30.000," in long_csv(several) and ",source " not in long_csv(TWO)


def test_what_detail_columns_mean_is_said_once_and_only_of_those_there():
    for text in (markdown(detail_tables(TWO)), latex(detail_tables(TWO))):
        assert text.count("predicted correctly") == text.count("is trusted") == 1
        assert text.index("predicted correctly") > max(text.index(f"{pair}: in detail") for pair in ("A/W", "D/W"))
        assert "oracle" not in text and "pseudo:" not in text and "train:" not in text


def test_rows_for_programs_have_each_seed_the_average_and_the_folders():
    failing = [replace(r, result=r.result | {"warnings": ["not learnt"]}) for r in TWO[:2]]
    row = next(r for r in detail_rows([*failing, *TWO[2:]]) if (r["pair"], r["method"]) == ("D/W", "unihssl:paper"))
    assert row["values"] == [98, 99, 100] and row["seed_numbers"] == [0, 1, 2]
    assert row["folders"] == ["r0", "r1", "r2"] and row["warnings"] == 2 and row["average"] == pytest.approx(95)
    assert detail_rows(TWO[:3])[0]["average"] is None


def test_the_csv_has_the_averages_of_the_tables():
    lines = long_csv(TWO).splitlines()
    assert (
        "office-31,benchmark,unihssl:paper,Avg,pooled,accuracy,3,95.000,1.000,0:94.000 1:95.000 2:96.000,,,," in lines
    )
    pairs = paper.table("office-31", "benchmark").columns[:-1]
    whole = [r for pair in pairs for r in records("unihssl:paper", pair, 0.9, 0.8)]
    assert "Avg,pooled,accuracy,2,85.000,7.071,0:90.000 1:80.000,87.500,-2.500," in long_csv(whole)
    partial = [
        *records("unihssl:paper", "D/W", 0.5),
        *records("unihssl:paper", "A/W", 0.5),
        *records("mcc", "D/W", 0.5),
    ]
    assert "unihssl:paper,Avg" in long_csv(partial) and "mcc,Avg" not in long_csv(partial)
    visda = long_csv(records("unihssl:paper", "S/R", 0.9, dataset="visda-2017"))
    assert "S/R,pooled,class_mean_accuracy,1,90.000,,0:90.000,93.100,-3.100," in visda


def test_other_rows_are_compared_with_ours_and_only_the_papers_recipe_with_its_figures():
    own = records("unihssl", "A/W", 0.98, 0.97, 0.99)
    text = markdown(main_tables([*records("unihssl:paper", "A/W", 0.90, 0.91, 0.92), *own]))
    assert "| unihssl:paper | 91.0 ± 1.0\\* (90.2, +0.8) |\n| unihssl | **98.0 ± 1.0** |" in text
    assert "\\* differs from unihssl (corrected resampled" in text


def test_the_papers_figures():
    ablation = paper.table("office-31", "ablation")
    assert ablation.mean("w/o L_pl", "D/A") == 71.0 and ablation.notes["w/o WMA", "Avg"].startswith("the columns")
    assert paper.table("office-home", "benchmark").mean("mcc+sup", "Ar/Pr") == 71.8
    assert paper.table("visda-2017", "benchmark").mean("unihssl:paper", "truck") == 82.4
    assert paper.table("isic-2019", "benchmark").mean("biadapt", "Avg") == 71.25
    both = [r for pair in ("BCN/HAM", "HAM/BCN") for r in records("biadapt", pair, 0.8, dataset="isic-2019")]
    assert "80.0 (71.25" in markdown(main_tables(both)[:1]) and ", +8.75)" in markdown(main_tables(both)[:1])
    assert paper.table("pacs", "benchmark") is None


def test_a_preset_that_is_not_the_default_is_noted_unless_the_row_names_it():
    (r,) = records("beta=0.5", "A/W", 0.5, experiment="sensitivity", method="unihssl", preset="paper", beta=0.5)
    assert "beta=0.5 with preset=paper" in made(asked(r, "unihssl:paper", preset="paper", beta=0.5))
    (r,) = records("unihssl:paper", "A/W", 0.5, preset="paper")
    assert "preset" not in made(asked(r, "unihssl:paper", preset="paper"))
    (r,) = records("unihssl", "A/W", 0.5, preset="robust")
    assert "preset" not in made(asked(r, "unihssl", preset="robust"))


def test_only_the_split_that_cures_the_leak_silences_its_caution():
    def remarks(group_by: str) -> str:
        own = [replace(r, dataset="isic-2019") for r in records("unihssl", "BCN/HAM", 0.5, group_by=group_by)]
        return " ".join(main_tables(own)[0].remarks)

    assert "too high" in remarks("") and "too high" in remarks("another") and "too high" not in remarks("lesion_id")


def test_commands_of_scripts_and_cluster_workers_are_not_called_ours():
    (own,) = records("unihssl", "A/W", 0.5)
    worker = replace(own, environment={"command": ["default_worker.py", "--node-ip-address=10.0.0.1"], "gpu": None})
    assert "10.0.0.1" not in " ".join(main_tables([worker])[0].remarks)

"""What the report says, and what it must not say."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from unihssl.errors import UserError
from unihssl.evaluation.audit import audit_answer
from unihssl.evaluation.collapse_check import LOST_CLASSES
from unihssl.experiments.results import read_records
from unihssl.methods.recipe import all_knobs, resolve
from unihssl.report.answer import accuracies, next_steps, paragraph, verdict
from unihssl.report.compare import compared, is_single, write_comparison
from unihssl.report.facts import RunFacts, baseline_beside
from unihssl.report.figures import confusion_figures, reliability, risk_coverage
from unihssl.report.page import write_report

CHECK: dict[str, Any] = {
    "n": 500,
    "domain_told": {"labeled": {"value": 0.9}, "unlabeled": {"value": 0.9}, "mean": 0.9, "held_out": True},
    "confidence": {"unlabeled": 0.9, "labeled": 0.95},
    "class_shares": {"predicted": {"a": 0.5, "b": 0.5}, "labels": {"a": 0.5, "b": 0.5}, "distance": 0.0},
    "view_agreement": 0.9,
    "rule_agreement": {},
    "trusted": None,
}


def part(right: int, n: int) -> dict[str, Any]:
    return {
        "n": n,
        "accuracy": right / n,
        "class_accuracy": {"a": 0.5},
        "confusion": {"a": {"a": right, "b": n - right}},
    }


def make_run(folder: Path, method: str = "unihssl", seed: int = 0, **result: Any) -> Path:
    folder.mkdir(parents=True)
    config = {
        "method": method,
        "backbone": "small_cnn",
        "seed": seed,
        "labeled": "/x/scans_a",
        "unlabeled": "/x/scans_b",
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (folder / "result.json").write_text(json.dumps({"warnings": [], "unlabeled_check": CHECK} | result))
    return folder


def test_without_labels_of_b_its_accuracy_is_unknown(tmp_path):
    facts = RunFacts.read(make_run(tmp_path / "run", labeled=part(90, 100)))
    a, b, both = accuracies(facts)
    assert (a.value, b.value, both.value) == (0.9, None, None)
    assert (round(a.low, 3), round(a.high, 3), a.count) == (0.824, 0.951, "90 of 100 right")  # Clopper-Pearson
    said = " ".join(paragraph(facts, None))
    assert "On B it is unknown" in said and said.count("90.0%") == 1 and "scans_b" in said
    found = verdict(facts)
    assert found.level == "good" and found.words.endswith("but it was not measured")
    assert any("unihssl audit" in command for _, command in next_steps(facts, None))


def test_an_audit_measures_b(tmp_path):
    run = make_run(tmp_path / "run", labeled=part(90, 100))
    probabilities, labels = np.tile([0.9, 0.1], (50, 1)), np.repeat([0, 1], [40, 10])
    answer = audit_answer(probabilities, labels, ["a", "b"], np.full(50, 0.9), 0.05)
    (run / "audit.json").write_text(json.dumps(answer))
    facts = RunFacts.read(run)
    _, b, both = accuracies(facts)
    assert b.value == 0.8 and "audit" in b.source and b.count == "40 of 50 right"
    assert both.value is None and both.missing == "not pooled" and "held-out" in both.source
    assert facts.confusions["unlabeled"] == {"a": {"a": 40}, "b": {"a": 10}}
    (figure,) = (f for f in confusion_figures(facts) if f.title.startswith("Domain B"))
    assert figure.caption.startswith("40 of 50 samples labeled for the audit are right")
    text = write_report(run).read_text()
    assert '<p class="number unknown">not pooled</p>' in text and "Classes with 10 labels or more" in text
    row = [f">{cell}</td>" for cell in ("b", "0.0%", "0.0 to 30.8%", "10")]
    assert re.search(".*".join(map(re.escape, row)), text)
    page = write_comparison([run], tmp_path / "comparison.html").read_text()
    assert "a random sample, labeled for the audit" in page and "No label of B is known" not in page


@pytest.mark.parametrize(
    ("right_on_b", "warnings", "level", "words"),
    [
        (40, [], "bad", "not learnt: 40.0%, against 90.0% on A"),
        (50, [], "doubt", "hardly learnt, as far as 50 of 100 right can tell: 50.0%, against 90.0% on A"),
        (70, [], "doubt", "learnt in part"),
        (88, [], "good", "was learnt: 88.0%"),
        (88, ["doubtful"], "good", "was learnt: 88.0%, against 90.0% on A; the labels do not confirm the warning"),
    ],
)
def test_the_verdict_goes_by_labels_of_b_where_there_are_some(tmp_path, right_on_b, warnings, level, words):
    run = make_run(tmp_path / "run", labeled=part(90, 100), unlabeled=part(right_on_b, 100), warnings=warnings)
    found = verdict(RunFacts.read(run))
    assert found.level == level and words in found.words
    advised = any("warning" in text for text, _ in next_steps(RunFacts.read(run), None))
    assert advised == (bool(warnings) and level != "good")


def test_labels_decide_against_a_warning_only_where_they_are_enough(tmp_path):
    for right, n, level in ((3, 4, "doubt"), (34, 40, "good")):
        measured = {"labeled": part(90, 100), "unlabeled": part(right, n)}
        found = verdict(RunFacts.read(make_run(tmp_path / str(n), warnings=["it is doubtful: so"], **measured)))
        assert found.level == level
    text = write_report(tmp_path / "40").read_text()
    assert "<b>Not confirmed by labels of B</b> so.<" in text and "<b>Warning" not in text
    assert "<b>Warning</b> it is doubtful: so.<" in write_report(tmp_path / "4").read_text()
    few = verdict(RunFacts.read(tmp_path / "4"))
    assert few.words == "It is doubtful that domain B was learnt: 3 of 4 right, too few labels to refute the warning"


def test_a_class_of_b_that_its_labels_show_to_be_lost_is_named(tmp_path):
    shares = CHECK["class_shares"] | {"predicted": {"a": 0.99, "b": 0.01}}
    warned = {"warnings": [f"{LOST_CLASSES} in the unlabeled domain: hardly any"]}
    warned["unlabeled_check"] = CHECK | {"class_shares": shares}
    for right, wrong, extra, level in (
        (0, 9, {}, "doubt"),
        (0, 1, {}, "good"),  # one label is no evidence by itself
        (0, 1, warned, "doubt"),  # but confirms a warning
        (1, 0, warned, "good"),
        (0, 0, warned, "good"),
    ):
        b = part(90, 90) | {"n": 90 + right + wrong, "accuracy": (90 + right) / (90 + right + wrong)}
        b["confusion"] = {"a": {"a": 90}, "b": {"a": wrong, "b": right}}
        run = make_run(tmp_path / f"{right}-{wrong}-{bool(extra)}", labeled=part(90, 100), unlabeled=b, **extra)
        found = verdict(RunFacts.read(run))
        assert found.level == level and found.words.endswith("classes hardly learnt: b") == (level == "doubt")


def test_one_wrong_answer_of_few_is_no_shortcoming(tmp_path):
    run = make_run(tmp_path / "run", labeled=part(18, 18), unlabeled=part(17, 18))
    assert verdict(RunFacts.read(run)).words == "Domain B was learnt: 94.4%, against 100.0% on A"


def test_the_baseline_is_trained_by_the_command_that_is_shown(tmp_path):
    run = make_run(tmp_path / "a run", labeled=part(90, 100))
    (shown,) = (command for text, command in next_steps(RunFacts.read(run), None) if "baseline" in text)
    assert not shown  # the data is not there
    for name in ("labeled", "unlabeled"):
        (tmp_path / name).mkdir()
    config = yaml.safe_load((run / "config.yaml").read_text()) | {"labeled": str(tmp_path / "labeled")}
    config |= {"unlabeled": f"{tmp_path / 'unlabeled'}|{tmp_path / 'labeled'}", "lambda_pl": 3.0, "flip": False}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    (shown,) = (command for text, command in next_steps(RunFacts.read(run), None) if "baseline" in text)
    assert shown.splitlines() == [
        f"unihssl train --labeled {tmp_path}/labeled --unlabeled {tmp_path}/unlabeled --unlabeled {tmp_path}/labeled "
        f"--set backbone=small_cnn --set flip=False --method supervised --out '{tmp_path}/a run-supervised'",
        f"unihssl report '{tmp_path}/a run' '{tmp_path}/a run-supervised'",
    ]


@pytest.mark.parametrize(
    "asked",
    [
        {"flip": False, "epochs": 6},
        {"seed": 3, "preset": "paper", "max_steps": 7},
        {"train": "head", "optimizer": "adamw", "class_weight": "balanced", "batch_size": 8},
    ],
)
def test_settings_that_follow_from_others_are_not_listed_as_asked_for(tmp_path, asked):
    knobs = {"method": "unihssl", "backbone": "small_cnn"}
    run = make_run(tmp_path / "run")
    (run / "config.yaml").write_text(yaml.safe_dump(all_knobs(*resolve(knobs | asked)), sort_keys=False))
    found = RunFacts.read(run).changed_settings()
    assert {name: value for name, value, *_ in found} == {k: str(v) for k, v in asked.items() if k != "preset"}
    defaults = all_knobs(*resolve(knobs | {k: v for k, v in asked.items() if k in ("preset", "optimizer")}))
    assert all(default == str(defaults[name]) for name, _, default, _ in found if name != "optimizer")


def test_a_setting_that_this_version_does_not_take_is_listed(tmp_path):
    run = make_run(tmp_path / "run")
    config = yaml.safe_load((run / "config.yaml").read_text()) | {"optimizer": "gone", "preset": "gone", "epochs": 20}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    assert [name for name, *_ in RunFacts.read(run).changed_settings()] == ["optimizer", "preset"]


def test_a_run_that_is_no_better_than_the_baseline_beside_it_is_told_so(tmp_path):
    ours = RunFacts.read(make_run(tmp_path / "ours", labeled=part(90, 100), unlabeled=part(85, 100)))
    make_run(tmp_path / "another", "supervised", seed=1, labeled=part(90, 100), unlabeled=part(10, 100))
    assert baseline_beside(ours) is None  # another seed
    make_run(tmp_path / "sup", "supervised", labeled=part(90, 100), unlabeled=part(84, 100))
    baseline = baseline_beside(ours)
    assert baseline is not None and baseline.folder.path.name == "sup"
    assert "better than by Supervised" in verdict(ours, baseline).words
    assert "reaches 90.0% on A, 84.0% on B" in " ".join(paragraph(ours, baseline))


def test_labels_of_b_that_trained_are_counted_and_the_baseline_has_them_too(tmp_path):
    labels = {"labeled": {"source": "x", "train": ["1"], "test": []}, "unlabeled": {"source": "y", "train": ["2", "3"]}}
    labels["unlabeled"] |= {"test": [], "target_labels": {"2": "a", "3": "b"}}
    for name, method in (("ours", "unihssl"), ("sup", "supervised")):
        run = make_run(tmp_path / name, method, labeled=part(90, 100), unlabeled=part(85, 100))
        (run / "split.json").write_text(json.dumps(labels))
        config = yaml.safe_load((run / "config.yaml").read_text())
        (run / "config.yaml").write_text(yaml.safe_dump(config | {"target_labels": "b.csv", "unlabeled": "/x/b|/y/c"}))
    make_run(tmp_path / "plain", "supervised", labeled=part(90, 100), unlabeled=part(10, 100))
    ours, floor = RunFacts.read(tmp_path / "ours"), RunFacts.read(tmp_path / "sup")
    baseline = baseline_beside(ours)
    assert baseline is not None and baseline.folder.path.name == "sup"
    said = " ".join(paragraph(ours, baseline))
    assert "domain B, with 2 labels that trained, is b + c" in said
    assert "Supervised, which learns from A's labels and 2 of B alone, reaches" in said
    assert "the baseline itself: it learns from A's labels and 2 of B alone." in " ".join(paragraph(floor, None))


def test_without_labels_a_warning_or_a_doubt_is_the_verdict(tmp_path):
    warned = make_run(tmp_path / "a", warnings=["the unlabeled domain was probably not learnt: so"])
    assert verdict(RunFacts.read(warned)).level == "bad"
    classes = make_run(tmp_path / "e", warnings=[f"{LOST_CLASSES} in the unlabeled domain: hardly any"])
    assert verdict(RunFacts.read(classes)).words == "Some classes of domain B were probably not learnt"
    doubtful = make_run(tmp_path / "b", warnings=["it is doubtful that the unlabeled domain was learnt: so"])
    assert verdict(RunFacts.read(doubtful)).words == "It is doubtful that domain B was learnt"
    unsure = make_run(tmp_path / "c", unlabeled_check=CHECK | {"confidence": {"unlabeled": 0.6}})
    assert verdict(RunFacts.read(unsure)).words.endswith("a sign against it: low confidence on B, 0.60")
    told = CHECK["domain_told"] | {"mean": 0.6}
    signs = CHECK | {"confidence": {"unlabeled": 0.6, "labeled": 0.9}, "domain_told": told}
    both = verdict(RunFacts.read(make_run(tmp_path / "f", unlabeled_check=signs)))
    said = "only 60% of the domains told right and low confidence on B, 0.60 against 0.90"
    assert both.level == "doubt" and both.words.endswith(said)
    old = make_run(tmp_path / "d", unlabeled_check=None)
    assert "did not check" in verdict(RunFacts.read(old)).reasons[0]


def test_reliability_and_risk_against_loops():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.1, 1, 400)
    right = rng.uniform(size=400) < confidence**2
    x, y, weights, error = reliability(confidence, right)
    slow, bins = 0.0, 0
    for b in range(10):
        rows = [i for i in range(400) if b / 10 <= confidence[i] < (b + 1) / 10]
        if rows:
            bins += 1
            slow += len(rows) / 400 * abs(sum(confidence[rows]) / len(rows) - sum(right[rows]) / len(rows))
    assert error == pytest.approx(slow) and len(x) == len(y) == bins and weights.sum() == pytest.approx(1)
    coverage, risk = risk_coverage(confidence, right)
    for share, wrong in zip(coverage[::20], risk[::20], strict=True):
        surest = sorted(range(400), key=lambda i: -confidence[i])[: round(share * 400)]
        assert wrong == pytest.approx(sum(not right[i] for i in surest) / len(surest))


def test_runs_side_by_side_are_tested_where_seeds_allow(tmp_path):
    for seed, (ours, base) in enumerate([(90, 60), (92, 63), (91, 59)]):
        make_run(
            tmp_path / "runs" / f"ours-{seed}",
            seed=seed,
            **dict.fromkeys(("labeled", "unlabeled", "pooled"), part(ours, 100)),
        )
        make_run(
            tmp_path / "runs" / f"sup-{seed}",
            "supervised",
            seed,
            **dict.fromkeys(("labeled", "unlabeled", "pooled"), part(base, 100)),
        )
    records = read_records([tmp_path / "runs"])
    found = compared(records, "unihssl")
    assert [row.name for row in found.rows] == ["unihssl", "supervised"] and found.rows[0].means[0] == "91.0% ± 1.0"
    assert found.rows[1].differences[0].startswith("-30.3 ± ") and found.rows[1].differences[0].endswith("significant)")
    assert found.rows[0].seeds == "seeds 0, 1, 2"
    assert compared([r for r in records if r.seed == 0], "unihssl").rows[0].seeds == "seed 0"
    two = [r for r in records if r.seed < 2]
    assert compared(two, "unihssl").rows[1].differences[0] == "-29.5, not tested"
    page = write_comparison([tmp_path / "runs"], tmp_path / "new" / "comparison.html").read_text()
    assert page.index(">supervised<") < page.index(">unihssl<")  # the reference, as no run is named first
    assert "corrected resampled t-test" in page and "Domain B was learnt" in page


def test_what_needs_no_label_has_a_column_for_each_fact_and_warnings_their_reason(tmp_path):
    warning = "it is doubtful that the unlabeled domain was learnt: few told. Label some of it"
    for name, b in (("good", part(88, 100)), ("bad", part(20, 100))):
        measured = {"labeled": part(90, 100), "unlabeled": b}
        make_run(tmp_path / "runs" / name, seed=len(name), warnings=[warning], **measured)
    page = write_comparison([tmp_path / "runs"], tmp_path / "comparison.html").read_text()
    assert "Not confirmed: few told<" in page and "Warning: few told<" in page
    assert '<td data-name="mean confidence, A and B">0.95, 0.90</td>' in page
    assert '<td data-name="two views agree">90%</td>' in page and "pseudo-labels trusted" not in page


def test_one_run_is_reported_and_several_are_compared(tmp_path):
    one, other = make_run(tmp_path / "runs" / "one"), make_run(tmp_path / "runs" / "other", seed=1)
    assert is_single([one]) and not is_single([one, other]) and not is_single([tmp_path / "runs"])
    for bad, message in ((tmp_path / "none", "no such run directory"), (tmp_path, "not a run directory")):
        assert is_single([bad]) or bad == tmp_path
        with pytest.raises(UserError, match=message):
            RunFacts.read(bad)

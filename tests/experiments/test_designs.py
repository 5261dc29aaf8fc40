"""From what is asked for to the runs it takes: which knobs reach which run, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
from digit_runs import LOAD, digit_runs

from unihssl.data import catalog
from unihssl.data.source import Source
from unihssl.errors import UserError
from unihssl.experiments.designs import ablation_runs, benchmark_runs, sensitivity_runs
from unihssl.experiments.launchers import make_launcher
from unihssl.experiments.protocol import Protocol
from unihssl.experiments.runner import run_grid
from unihssl.methods.recipe import resolve
from unihssl.methods.unihssl_params import ROBUST


def protocol(dataset: str = "pacs", schedule: str = "fast", **asked: Any) -> Protocol:
    return Protocol(catalog.get(dataset), Path("data"), schedule, asked)


def knob_of(runs: list[Any], name: str) -> dict[str, Any]:
    return {
        run.roles[0].variant: vars(resolve(run.knobs)[0]).get(name, vars(resolve(run.knobs)[1]).get(name))
        for run in runs
    }


def test_a_setting_goes_to_the_methods_that_know_it():
    runs = benchmark_runs(protocol(lambda_pa=0.5), ["P/A"], ["supervised", "unihssl"], 1)
    assert knob_of(runs, "lambda_pa") == {"supervised": None, "unihssl": 0.5}
    with pytest.raises(UserError, match="unknown setting 'lambda_paa'"):
        benchmark_runs(protocol(lambda_paa=0.5), ["P/A"], ["supervised", "unihssl"], 1)


@pytest.mark.parametrize(
    ("name", "option"),
    [("seed", "seeds"), ("method", "methods"), ("labeled", "pairs"), ("unlabeled", "pairs")],
)
def test_what_has_an_option_is_not_set(name, option):
    with pytest.raises(UserError, match=f"{name} cannot be set: a grid goes through several; use {option}$"):
        benchmark_runs(protocol(**{name: "1"}), ["P/A"], ["unihssl"], 1)


def test_a_row_may_be_a_method_with_a_preset():
    names = protocol().methods("mcc, mcc:original,unihssl:robust,unihssl:paper")
    runs = benchmark_runs(protocol(), ["P/A"], names, 1)
    assert knob_of(runs, "preset") == {
        "mcc": "finetune",
        "mcc:original": "original",
        "unihssl:robust": "robust",
        "unihssl:paper": "paper",
    }
    with pytest.raises(UserError, match="mcc has no preset 'robust'"):
        protocol().methods("mcc:robust")


def test_a_preset_for_all_goes_to_those_that_have_it():
    asked = Protocol(catalog.get("pacs"), Path("data"), "fast", {"preset": "original"})
    runs = benchmark_runs(asked, ["P/A"], ["supervised", "mcc"], 1)
    assert knob_of(runs, "preset") == {"supervised": "finetune", "mcc": "original"}


def test_fast_is_shorter_where_domains_are_small():
    assert set(knob_of(benchmark_runs(protocol(), ["P/A"], ["unihssl"], 1), "max_steps").values()) == {500}
    small = benchmark_runs(protocol("office-caltech-10"), ["A/W"], ["unihssl"], 1)
    assert set(knob_of(small, "max_steps").values()) == {300}
    assert set(knob_of(benchmark_runs(protocol(max_steps=7), ["P/A"], ["unihssl"], 1), "max_steps").values()) == {7}


def test_our_preset_is_taken_apart_knob_by_knob():
    runs = ablation_runs(protocol(), ["P/A"], 1, of="robust")
    assert len(runs) == 2 + 2 * len(ROBUST)
    for name, value in ROBUST.items():
        found = knob_of(runs, name)
        assert found["robust"] == found[f"paper + {name}"] == value
        assert found["paper"] == found[f"robust w/o {name}"] != value
    with pytest.raises(UserError, match="of='nothing': there are paper, robust"):
        ablation_runs(protocol(), ["P/A"], 1, of="nothing")
    small = ablation_runs(protocol("digits", "recipe"), ["mnist/uci"], 1, of="robust")
    set_by_the_encoder = {"lr", "head_lr", "bottleneck"}
    assert len(small) == len(runs) - 2 * len(set_by_the_encoder)
    assert not any(run.roles[0].variant.endswith(tuple(set_by_the_encoder)) for run in small)
    for asked, views in (({}, 1), ({"feature_views": 0}, 0)):  # of a frozen backbone: alike for all
        frozen = ablation_runs(protocol(train="head", **asked), ["P/A"], 1, of="robust")
        assert set(knob_of(frozen, "feature_views").values()) == {views}


@pytest.mark.parametrize("knob", ["placement", "seed", "preset", "device"])
def test_sensitivity_varies_only_what_changes_what_is_learnt(knob):
    with pytest.raises(UserError, match=f"knob='{knob}': it does not change what is learnt"):
        sensitivity_runs(protocol(), ["P/A"], 1, {knob: ["a", "b"]})


def test_sensitivity_does_not_override_what_was_set():
    with pytest.raises(UserError, match="beta: the study varies it"):
        sensitivity_runs(protocol(beta=0.3), ["P/A"], 1, {"beta": [0.1, 0.2]})


def fewer_digits(pair: str) -> tuple[Source, ...]:
    return tuple(Source(d.name, d.items[:-1], d.names[:-1], d.labels[:-1]) for d in LOAD(pair))


def no_digits(pair: str) -> tuple[Source, ...]:
    raise UserError("nothing there")


def test_a_finished_run_is_not_taken_for_one_of_other_samples(tmp_path):
    runs = digit_runs(["supervised"], 1, {"max_steps": 2})
    first = [run.result for run in run_grid(runs, LOAD, tmp_path, make_launcher())]
    assert [run.result for run in run_grid(runs, LOAD, tmp_path, make_launcher())] == first
    assert [run.result for run in run_grid(runs, no_digits, tmp_path, make_launcher())] == first  # the data are gone
    with pytest.raises(UserError, match="finished, but on other samples; choose another out"):
        list(run_grid(runs, fewer_digits, tmp_path, make_launcher()))


def test_a_knob_of_other_methods_is_called_so():
    with pytest.raises(UserError, match="lambda_pa is a knob of unihssl; none of these methods has it"):
        benchmark_runs(protocol(lambda_pa=1), ["P/A"], ["supervised", "mcc"], 1)


def test_a_folder_is_named_by_what_differs_from_the_defaults():
    """So that a version with more knobs finds the runs of the one before."""
    (run,) = benchmark_runs(protocol(), ["P/A"], ["unihssl"], 1)
    (same,) = benchmark_runs(protocol(beta=0.5, placement="disk"), ["P/A"], ["unihssl"], 1)
    (other,) = benchmark_runs(protocol(beta=0.7), ["P/A"], ["unihssl"], 1)
    assert run.folder(Path()) == same.folder(Path()) != other.folder(Path())


@pytest.mark.parametrize(("preset", "names"), [("robst", "unihssl"), ("original", "unihssl"), ("robust", "mcc")])
def test_a_preset_that_no_method_has_is_refused(preset, names):
    asked = Protocol(catalog.get("pacs"), Path("data"), "fast", {"preset": preset})
    with pytest.raises(UserError, match=f"{names} has no preset '{preset}'"):
        benchmark_runs(asked, ["P/A"], [names], 1)


def test_a_finished_run_is_not_taken_for_one_of_other_settings(tmp_path):
    """As when a default has changed since, which the folder's name does not tell."""
    runs = digit_runs(["supervised"], 1, {"max_steps": 2})
    list(run_grid(runs, LOAD, tmp_path, make_launcher()))
    config = runs[0].folder(tmp_path) / "config.yaml"
    config.write_text(config.read_text().replace("momentum: 0.9", "momentum: 0.8"))
    with pytest.raises(UserError, match=r"this run is finished, but with momentum=0.8, now 0.9; choose another out"):
        list(run_grid(runs, LOAD, tmp_path, make_launcher()))

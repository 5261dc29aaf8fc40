"""Presets against the published settings, and who wins over whom."""

from typing import Any

import pytest

from unihssl import UserError, methods
from unihssl.config import Settings, knob_fields
from unihssl.methods.recipe import MOST_STEPS, all_knobs, preset_name, resolve
from unihssl.methods.unihssl_params import ROBUST, UniHSSLParams

PRESETS = [(preset, method.name) for method in methods.available().values() for preset in method.presets]


def knobs_of(preset: str, method: str, dataset: str = "") -> dict[str, Any]:
    """What the preset sets on a data set."""
    entries = methods.get(method).presets[preset]
    return {**entries.get("", {}), **entries.get(dataset, {})}


DATASETS = ("", "office-31", "office-home", "visda-2017", "isic-2019")

CROP = {"weak_view": "crop"}
RESIZED = {"weak_view": "resized_crop", "area_labeled": 0.08, "area_unlabeled": 0.08}
CENTRE = {"weak_view": "center"}
SGD = {"momentum": 0.9, "nesterov": True, "decay_bias_and_norm": True, "lr_warm_up": 0.0}
INVERSE = SGD | {"lr_schedule": "inverse", "decay_power": 0.75, "weight_decay": 1e-3}

SUPERVISED = SGD | CROP | {"lr": 5e-4, "head_lr": 1.0, "weight_decay": 1e-3, "lr_schedule": "cosine"}
SUPERVISED |= {"cosine_horizon": 1.0, "epochs": 100, "steps": 0, "batch_size": 32, "unlabeled_batch": 0}

# Section 3. The tables give the head's rate; the backbone's, `lr`, is a tenth of it.
FIXMATCH = INVERSE | {"decay_gamma": 4e-4, "head_lr": 10.0, "lambda_u": 1.0, "ema": 0.0, "batch_size": 32}
FIXMATCH |= {"steps": 20_000, "strong_view": "randaugment", "batch_norm": "separate"}
FIXMATCH_CROPS = {"weak_view": "resized_crop", "area_labeled": 0.08, "area_unlabeled": 0.5}
OFFICE_31 = FIXMATCH | FIXMATCH_CROPS | {"lr": 1e-4, "bottleneck": 256, "unlabeled_batch": 96}
OFFICE_HOME = FIXMATCH | FIXMATCH_CROPS | {"lr": 3e-4, "bottleneck": 1024, "unlabeled_batch": 32}
VISDA = FIXMATCH | CENTRE | {"lr": 3e-4, "bottleneck": 2048, "unlabeled_batch": 64}
FIXMATCH_BY_DATASET = {"": OFFICE_HOME, "office-31": OFFICE_31, "office-home": OFFICE_HOME, "visda-2017": VISDA}
FIXMATCH_BY_DATASET["isic-2019"] = OFFICE_HOME

FROM_SCRATCH = SGD | {"lr": 0.03, "head_lr": 1.0, "weight_decay": 5e-4, "decay_bias_and_norm": False}
FROM_SCRATCH |= {
    "lr_schedule": "cosine_7_16",
    "steps": 2**20,
    "batch_size": 64,
    "unlabeled_batch": 7 * 64,
    "ema": 0.999,
}
FROM_SCRATCH |= {"threshold": 0.95, "lambda_u": 1.0, "strong_view": "randaugment_cutout", "batch_norm": "joint"}
FROM_SCRATCH |= {"bottleneck": 0}

# Section 5.
SIMMATCH = SGD | {"lambda_u": 10.0, "lambda_in": 5.0, "threshold": 0.7, "temperature": 0.1, "smoothing": 0.9}
SIMMATCH |= {"align": True, "queue": 256, "projection": 128, "teacher_ema": 0.999, "weight_decay": 1e-4}
SIMMATCH |= {"strong_view": "moco", "weak_view": "resized_crop", "area_labeled": 0.2, "area_unlabeled": 0.2}

# Section 6.
CDAN = INVERSE | {"decay_gamma": 1e-3, "lr": 1e-3, "head_lr": 10.0, "trade_off": 1.0, "entropy": "none"}
CDAN |= {"randomized": 0, "bottleneck": 256, "reversal_steps": 10_000.0, "unlabeled_batch": 0}
CDAN_TLLIB = CDAN | {"bottleneck_kind": "bn_relu", "discriminator_dropout": False, "batch_norm": "joint"}
CDAN_TLLIB |= {"batch_size": 32, "steps": 30_000}
CDAN_BY_DATASET = dict.fromkeys(DATASETS, CDAN_TLLIB | RESIZED)
CDAN_BY_DATASET |= {"office-31": CDAN_TLLIB | RESIZED | {"steps": 20_000}, "visda-2017": CDAN_TLLIB | CENTRE}
CDAN_OFFICIAL = CDAN | RESIZED | {"bottleneck_kind": "linear", "discriminator_dropout": True}
CDAN_OFFICIAL |= {"batch_norm": "separate", "batch_size": 36, "steps": 100_004}

# Section 7.
MCC = INVERSE | RESIZED | {"decay_gamma": 1e-3, "head_lr": 10.0, "mu": 1.0, "temperature": 2.5, "unlabeled_batch": 0}
MCC_TLLIB = MCC | {"bottleneck_kind": "bn_relu", "bottleneck": 2048, "lr": 5e-4, "batch_size": 36, "steps": 30_000}
MCC_BY_DATASET = dict.fromkeys(DATASETS, MCC_TLLIB)
MCC_BY_DATASET["office-31"] = MCC_TLLIB | {"bottleneck": 1024, "steps": 10_000}
MCC_BY_DATASET["visda-2017"] = MCC_TLLIB | CENTRE | {"bottleneck": 256, "lr": 2e-4, "temperature": 3.0}
MCC_OFFICE = MCC | {"bottleneck_kind": "bn", "bottleneck": 256, "lr": 3e-4, "batch_size": 28, "steps": 50_004}
MCC_OFFICIAL = {"office-31": MCC_OFFICE, "office-home": MCC_OFFICE | {"lr": 1e-3}}
MCC_OFFICIAL["visda-2017"] = MCC_OFFICE | CENTRE | {"batch_size": 36, "steps": 10_004, "temperature": 3.0}

ROUTER = {"sup_epochs": 100, "sup_lr": 5e-4, "router": "network", "router_epochs": 10}

# Section 8.
BIADAPT = CROP | {"transfer": "mmd", "lambda_t": 0.5, "lambda_s": 0.1, "bottleneck": 256, "lr": 5e-4, "head_lr": 1.0}
BIADAPT |= {"momentum": 0.9, "nesterov": False, "weight_decay": 5e-4, "decay_bias_and_norm": False}
BIADAPT |= {"lr_schedule": "constant", "steps": 2000, "unlabeled_batch": 0}

EXPECTED: dict[tuple[str, str], dict[str, dict[str, Any]]] = {
    ("finetune", "supervised"): dict.fromkeys(DATASETS, SUPERVISED),
    ("finetune", "fixmatch"): {
        dataset: knobs | {"threshold": 0.8 if dataset == "visda-2017" else 0.9}
        for dataset, knobs in FIXMATCH_BY_DATASET.items()
    },
    ("finetune", "flexmatch"): {
        dataset: knobs | {"threshold": 0.95, "threshold_warm_up": True}
        for dataset, knobs in FIXMATCH_BY_DATASET.items()
    },
    ("finetune", "supervised+adabn"): dict.fromkeys(DATASETS, SUPERVISED),
    ("finetune", "oracle"): dict.fromkeys(DATASETS, SUPERVISED),
    ("finetune", "adamatch"): {
        dataset: {k: v for k, v in knobs.items() if k != "batch_norm"} | {"tau": 0.9}
        for dataset, knobs in FIXMATCH_BY_DATASET.items()
    },
    ("finetune", "freematch"): {
        dataset: knobs | {"threshold": 0.0, "decay": 0.999, "lambda_fair": 0.01}
        for dataset, knobs in FIXMATCH_BY_DATASET.items()
    },
    ("original", "adamatch"): dict.fromkeys(
        DATASETS, {k: v for k, v in FROM_SCRATCH.items() if k not in ("threshold", "batch_norm")} | {"tau": 0.9}
    ),
    ("original", "freematch"): dict.fromkeys(DATASETS, FROM_SCRATCH | {"threshold": 0.0, "decay": 0.999}),
    ("finetune", "simmatch"): dict.fromkeys(
        DATASETS,
        SIMMATCH | {"lr": 1e-3, "head_lr": 10.0, "steps": 20_000, "batch_size": 32, "unlabeled_batch": 0},
    ),
    ("finetune", "cdan"): CDAN_BY_DATASET,
    ("finetune", "cdan+sup"): {dataset: knobs | ROUTER for dataset, knobs in CDAN_BY_DATASET.items()},
    ("finetune", "mcc"): MCC_BY_DATASET,
    ("finetune", "mcc+sup"): {dataset: knobs | ROUTER for dataset, knobs in MCC_BY_DATASET.items()},
    ("finetune", "biadapt"): dict.fromkeys(DATASETS, BIADAPT | {"batch_size": 32}),
    ("original", "fixmatch"): dict.fromkeys(DATASETS, FROM_SCRATCH),
    ("original", "flexmatch"): dict.fromkeys(DATASETS, FROM_SCRATCH | {"threshold_warm_up": True}),
    ("original", "simmatch"): dict.fromkeys(
        DATASETS,
        SIMMATCH
        | {"lr": 0.03, "head_lr": 1.0, "batch_size": 64, "unlabeled_batch": 5 * 64, "lr_schedule": "cosine"}
        | {"epochs": 400, "epoch_length": "unlabeled", "steps": 0, "lr_warm_up": 5 / 400},
    ),
    ("original", "cdan"): dict.fromkeys(DATASETS, CDAN_OFFICIAL),
    ("original", "cdan+sup"): dict.fromkeys(DATASETS, CDAN_OFFICIAL | ROUTER),
    ("original", "mcc"): MCC_OFFICIAL,
    ("original", "mcc+sup"): {dataset: knobs | ROUTER for dataset, knobs in MCC_OFFICIAL.items()},
    ("original", "biadapt"): dict.fromkeys(DATASETS, BIADAPT | {"batch_size": 64}),
}
CASES = [(*case, dataset) for case, by_dataset in EXPECTED.items() for dataset in by_dataset]


def resolved(**knobs: Any) -> dict[str, Any]:
    return all_knobs(*resolve(knobs))


@pytest.mark.parametrize(("preset", "method", "dataset"), CASES)
def test_resolved_values_are_those_of_the_tables(preset, method, dataset):
    found = resolved(method=method, preset=preset, dataset=dataset)
    expected = EXPECTED[preset, method][dataset] | {"method": method, "preset": preset, "dataset": dataset}
    assert {name: found[name] for name in expected} == expected


def test_every_baseline_is_in_the_tables():
    baselines = set(methods.available()) - {"unihssl"}
    assert {method for _, method in EXPECTED} == baselines
    assert {method for preset, method in PRESETS if preset == "original"} == baselines - {
        "supervised",
        "supervised+adabn",
        "oracle",
    }
    assert {method for preset, method in PRESETS if preset == "finetune"} == baselines


def test_a_method_has_presets_of_its_own_and_a_default():
    assert resolved(method="unihssl") == resolved(method="unihssl", preset="robust")
    assert resolved(method="mcc") == resolved(method="mcc", preset="finetune")
    with pytest.raises(UserError, match="unihssl has no preset 'finetune': it has robust, paper"):
        resolved(method="unihssl", preset="finetune")
    paper = resolved(method="unihssl", preset="paper")
    assert paper == {name: field.default for name, (field, _) in knob_fields(Settings, UniHSSLParams).items()} | {
        "preset": "paper"
    }
    changed = {k: v for k, v in resolved(method="unihssl", preset="robust").items() if v != paper[k]}
    assert changed == ROBUST | {"preset": "robust", "max_steps": MOST_STEPS}
    assert resolved(method="unihssl", train="head")["feature_views"] == 0
    assert resolved(method="unihssl", train="head", feature_views=2)["feature_views"] == 2
    assert resolved(method="unihssl", train="head", lambda_consistency=1)["feature_views"] == 1
    assert resolved(method="unihssl", preset="paper", train="head") == paper | {"train": "head"}
    with pytest.raises(UserError, match="mcc has no preset 'robust': it has finetune, original"):
        resolved(method="mcc", preset="robust")
    with pytest.raises(UserError, match="supervised has no preset 'original': it has finetune"):
        resolved(method="supervised", preset="original")


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize(("preset", "method"), PRESETS)
def test_every_preset_parses_and_every_knob_of_it_arrives(preset, method, dataset):
    knobs = knobs_of(preset, method, dataset)
    assert knobs.keys() <= knob_fields(Settings, methods.get(method).Params).keys()
    found = resolved(method=method, preset=preset, dataset=dataset)
    assert {name: found[name] for name in knobs} == knobs


def test_presets_name_known_data_sets_only():
    named = {dataset for preset, method in PRESETS for dataset in methods.get(method).presets[preset]}
    assert named <= set(DATASETS)


def test_the_heads_rates_are_those_of_the_tables():
    """Backbone `lr` times `head_lr`, as the tables of sections 3, 5, 6 and 7 print it."""
    rates = {
        ("fixmatch", "office-31"): 0.001,
        ("fixmatch", "office-home"): 0.003,
        ("fixmatch", "visda-2017"): 0.003,
        ("fixmatch", "isic-2019"): 0.003,
        ("simmatch", ""): 0.01,
        ("cdan", "office-31"): 0.01,
        ("mcc", "office-home"): 0.005,
        ("mcc", "visda-2017"): 0.002,
    }
    for (method, dataset), rate in rates.items():
        found = resolved(method=method, dataset=dataset)
        assert found["lr"] * found["head_lr"] == pytest.approx(rate)


def test_the_users_values_win_over_the_preset():
    requested = {
        "lr": 0.5,
        "bottleneck": 7,
        "steps": 11,
        "weak_view": "translate",
        "threshold": 0.33,
        "unlabeled_batch": 5,
    }
    found = resolved(method="fixmatch", dataset="office-31", **requested)
    assert {name: found[name] for name in requested} == requested
    assert found["decay_gamma"] == 4e-4 and found["head_lr"] == 10.0
    with pytest.raises(UserError, match=r"temperature is a knob of mcc, mcc.sup, simmatch, not of fixmatch"):
        resolve({"method": "fixmatch", "temperature": 2})


@pytest.mark.parametrize(
    "method", [m for preset, m in PRESETS if preset == "finetune" and knobs_of(preset, m).get("steps")]
)
def test_epochs_asked_for_win_over_a_presets_steps(method):
    """`steps` goes before `epochs` and would make the user's epochs mean nothing; so with the batch sizes."""
    found = resolved(method=method, epochs=5)
    assert (found["epochs"], found["steps"]) == (5, 0)
    found = resolved(method=method, epochs=5, steps=40)
    assert (found["epochs"], found["steps"]) == (5, 40)
    assert resolved(method=method, dataset="office-31", batch_size=8)["unlabeled_batch"] == 0


RECIPE = {"weights": "none", "head_lr": 1.0, "lr_schedule": "cosine", "epochs": 20, "steps": 0}
RECIPE |= {"batch_size": 64, "unlabeled_batch": 0, "weak_view": "crop", "bottleneck": 0}
RECIPE |= {"sup_epochs": 20, "teacher_ema": 0.99, "decay": 0.99, "reversal_steps": 1000.0}


@pytest.mark.parametrize(("backbone", "lr"), [("small_cnn", 0.09), ("mlp", 0.03)])
@pytest.mark.parametrize("method", methods.available())
def test_the_recipe_of_a_small_backbone_wins_over_the_default_preset_only(method, backbone, lr):
    found = resolved(method=method, dataset="office-31", backbone=backbone)
    recipe = {name: value for name, value in (RECIPE | {"lr": lr, "sup_lr": lr}).items() if name in found}
    assert {name: found[name] for name in recipe} == recipe
    for preset in methods.get(method).presets:
        asked = resolved(method=method, dataset="office-31", backbone=backbone, preset=preset)
        expected = recipe | knobs_of(preset, method, "office-31")
        usual = preset == preset_name(method)
        assert asked == found if usual else {name: asked[name] for name in expected} == expected


@pytest.mark.parametrize("preset", ["", "robust", "paper"])
@pytest.mark.parametrize("backbone", ["small_cnn", "mlp", "resnet50"])
def test_consistency_and_strong_labeled_views_are_for_all_and_apart_for_small_images(backbone, preset):
    found = resolved(method="unihssl", backbone=backbone, preset=preset)
    is_ours = preset != "paper"
    assert (found["lambda_consistency"], found["labeled_view"]) == ((1.0, "half_strong") if is_ours else (0.0, "weak"))
    assert found["apart"] == (0.15 if is_ours and backbone == "small_cnn" else 0.0)


@pytest.mark.parametrize(("preset", "method"), PRESETS + [("", method) for method in methods.available()])
def test_the_users_values_win_over_recipe_and_preset(method, preset):
    requested = {"lr": 0.5, "batch_size": 9, "weak_view": "translate", "epochs": 3}
    found = resolved(method=method, backbone="small_cnn", preset=preset, **requested)
    assert {name: found[name] for name in requested} == requested
    assert (found["steps"], found["unlabeled_batch"]) == (0, 0)


@pytest.mark.parametrize("method", methods.available())
def test_no_knob_has_two_homes(method):
    assert not knob_fields(Settings).keys() & knob_fields(methods.get(method).Params).keys()


def test_an_entry_for_an_unknown_data_set_is_refused(monkeypatch):
    presets = {"finetune": {"": {"lr": 0.1}, "officehome": {"lr": 0.2}}}
    monkeypatch.setattr(methods.get("mcc"), "presets", presets)
    with pytest.raises(UserError, match="preset 'finetune' of mcc has entries for unknown data sets: officehome"):
        resolve({"method": "mcc"})

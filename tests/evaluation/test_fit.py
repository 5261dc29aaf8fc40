"""`unihssl.fit` on arrays, as a notebook uses it."""

import json
import random

import numpy as np
import pytest
import torch

import unihssl

QUICK = {"epochs": 8, "pretrain_epochs": 4, "batch_size": 8, "tensorboard": False}


def test_feature_vectors_are_learnt(vector_arrays):
    (x, y), (u, truth) = vector_arrays
    model = unihssl.fit((x, y), (u, truth), **QUICK)
    assert model.architecture.name == "mlp"
    assert (model.predict(x) == y).mean() > 0.9 and (model.predict(u) == truth).mean() > 0.9
    assert model.result["labeled"]["n"] == model.result["unlabeled"]["n"] == 6
    assert model.result["pooled"]["n"] == 12


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (np.array([10, 20, 30]), int),
        (np.array([2, 0, 1], dtype=np.uint8), int),
        (np.array([1.0, 2.0, 3.0]), int),
        (np.array(["ten", "twenty", "thirty"]), str),
        (["ten", "twenty", "thirty"], str),
    ],
)
def test_class_labels_come_back_in_kind(vector_arrays, names, kind, tmp_path):
    (x, y), (u, _) = vector_arrays
    labels = [names[i] for i in y // 10 - 1]
    unihssl.fit((x, labels), u, tmp_path / "run", **QUICK | {"epochs": 1})
    for model in (unihssl.fit((x, labels), u, **QUICK | {"epochs": 1}), unihssl.load(tmp_path / "run")):
        predicted = model.predict(x).tolist()
        assert {type(p) for p in predicted} == {kind}
        assert set(predicted) <= set(labels) == set(model.classes_.tolist())
        assert model.classes_.tolist() == sorted(set(model.classes_.tolist()))
        assert np.mean([p == t for p, t in zip(predicted, labels, strict=True)]) > 0.6


@pytest.mark.parametrize("unknown", ["bare", "pair of -1"])
def test_without_truth_only_the_labeled_part_is_measured(vector_arrays, unknown, tmp_path):
    labeled, (u, _) = vector_arrays
    model = unihssl.fit(labeled, u if unknown == "bare" else (u, np.full(60, -1)), tmp_path / "run", **QUICK)
    assert "unlabeled" not in model.result and "domain_accuracy" not in model.result
    assert "pooled" not in model.result and model.result["labeled"]["n"] == 6
    split = json.loads((tmp_path / "run" / "split.json").read_text())
    assert split["unlabeled"]["test"] == [] and len(split["unlabeled"]["train"]) == 60
    rows = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert "pseudo_agreement" in rows and "oracle" not in rows


def test_partly_known_truth_is_used_where_it_is(vector_arrays, tmp_path):
    labeled, (u, truth) = vector_arrays
    partly = np.where(np.arange(60) % 2, truth, -1)
    model = unihssl.fit(labeled, (u, partly), tmp_path / "run", **QUICK)
    assert model.result["unlabeled"]["n"] == 3
    test = json.loads((tmp_path / "run" / "split.json").read_text())["unlabeled"]["test"]
    assert all(int(name) % 2 for name in test)
    assert "oracle_pseudo_accuracy" in (tmp_path / "run" / "metrics.jsonl").read_text()


def test_the_global_random_state_is_left_untouched(vector_arrays):
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    model = unihssl.fit(*vector_arrays, **QUICK | {"epochs": 1})
    model.predict(vector_arrays[0][0])
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()
    assert random.getstate() == before[2]


def test_nor_does_it_matter_and_the_seed_does(vector_arrays):
    def weights(seed: int) -> torch.Tensor:
        model = unihssl.fit(*vector_arrays, seed=seed, **QUICK | {"epochs": 1})
        return torch.cat([t.flatten().float() for t in model.network.state_dict().values()])

    torch.manual_seed(1)
    first = weights(0)
    torch.manual_seed(2)
    assert torch.equal(weights(0), first)
    assert not torch.equal(weights(1), first)


def test_the_callers_arrays_are_not_changed(image_arrays):
    (x, y), (u, truth) = ((x.copy(), y.copy()) for x, y in image_arrays)
    unihssl.fit((x, y), (u, truth), backbone="small_cnn", **QUICK | {"epochs": 1, "pretrain_epochs": 1})
    for own, original in zip((x, y, u, truth), (*image_arrays[0], *image_arrays[1]), strict=True):
        assert (own == original).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y, u: ((x, None), u), "the labeled arrays need labels"),
        (lambda x, y, u: (x, u), "the labeled arrays need labels"),
        (lambda x, y, u: (x, y), "no unlabeled samples are given: fit.x, y, x_unlabeled."),
        (
            lambda x, y, u: ((np.zeros((60, 3, 8, 8)), y), u),
            "looks like .N, channels, height, width.: pass x.transpose",
        ),
        (lambda x, y, u: ((x, y[:-1]), u), "60 samples but 59 labels"),
        (lambda x, y, u: ((x, y), u[:, :4]), "vectors of length 5 .labeled. and vectors of length 4 .unlabeled."),
        (lambda x, y, u: ((x, y), u[:0]), "expected numbers of shape"),
        (lambda x, y, u: ((x, np.zeros(60, dtype=int)), u), "one class only"),
        (lambda x, y, u: ((x, np.where(y == 10, -1, y)), u), "20 of 60 labeled samples have no label"),
        (lambda x, y, u: ((np.where(x > 3, np.nan, x), y), u), "not finite"),
        (lambda x, y, u: ((x, y), (u, y + 1)), "classes do not match"),
        (lambda x, y, u: ((x.astype(str), y), u), "expected numbers"),
    ],
)
def test_arrays_that_cannot_be_are_refused(vector_arrays, change, message):
    (x, y), (u, _) = vector_arrays
    with pytest.raises(unihssl.UserError, match=message):
        unihssl.fit(*change(x, y, u), **QUICK)


def test_unknown_settings_are_refused(vector_arrays):
    with pytest.raises(unihssl.UserError, match="unknown setting 'epoch': did you mean 'epochs'"):
        unihssl.fit(*vector_arrays, epoch=3)


def test_resuming_needs_the_run(vector_arrays):
    with pytest.raises(unihssl.UserError, match="resume=True needs out"):
        unihssl.fit(*vector_arrays, resume=True)


def test_evaluating_on_training_images_is_a_warning(image_folders, tmp_path):
    knobs = {"method": "supervised", "backbone": "small_cnn", "max_steps": 2, "tensorboard": False}
    unihssl.fit(*image_folders, out=tmp_path / "run", **knobs)
    with pytest.warns(UserWarning, match="named like images that the run was trained on.* held_out=True takes only"):
        unihssl.evaluate(tmp_path / "run", labeled=image_folders[0])


@pytest.mark.filterwarnings("ignore")
def test_whole_numbers_of_any_type_are_the_same_images(image_arrays):
    (x, y), (u, _) = image_arrays
    dark = x // 3  # the domains' ranges differ
    found = []
    for kind in (np.uint8, np.int64, np.float32, np.float64):
        model = unihssl.fit(dark.astype(kind), y, u.astype(kind), backbone="small_cnn", **QUICK)
        found.append(model.predict_proba(u[:4].astype(kind)))
    assert all(np.array_equal(other, found[0]) for other in found[1:])

"""`train=head`: only what is behind the backbone trains, on features computed once, and the model takes images."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import load_file, save_file

import unihssl
from unihssl import methods
from unihssl.config import Settings, knob_fields
from unihssl.data.batch_random import BatchRandom
from unihssl.data.frozen_views import FrozenViews
from unihssl.data.views import Views
from unihssl.errors import UserError
from unihssl.run_folder import RunFolder
from unihssl.training import frozen
from unihssl.training.loop import Trainer

KNOBS = {
    "train": "head",
    "backbone": "resnet10t",
    "image_size": 16,
    "input_size": 16,
    "device": "cpu",
    "batch_size": 16,
}
KNOBS |= {"epochs": 3, "pretrain_epochs": 3, "sup_epochs": 2, "router_epochs": 1, "checkpoint_seconds": 0}
KNOBS |= {
    "test_fraction": 0.2,
    "tensorboard": False,
    "feature_views": 2,
    "lr": 0.01,
    "head_lr": 1,
    "sup_lr": 0.01,
    "log_every": 1,
}


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    file = tmp_path_factory.mktemp("weights") / "backbone.safetensors"
    save_file(timm.create_model("resnet10t", num_classes=0).state_dict(), file)
    return file


def fit(arrays, out, weights, method="unihssl", **more) -> unihssl.Model:
    known = knob_fields(Settings, methods.get(method).Params)
    knobs = {name: value for name, value in (KNOBS | {"weights": weights} | more).items() if name in {*known, "resume"}}
    (x, y), (u, truth) = arrays
    return unihssl.fit((x, y), (u, truth), out, method=method, **knobs)


@pytest.mark.parametrize("method", sorted(methods.available()))
def test_every_method_trains_a_head_and_leaves_the_backbone(method, image_arrays, weights, tmp_path) -> None:
    model = fit(image_arrays, tmp_path / "run", weights, method)
    saved, before = load_file(tmp_path / "run" / "model.safetensors"), load_file(weights)
    backbones = {name.rpartition("encoder.")[0] for name in saved if "encoder." in name}
    assert backbones
    for prefix in backbones:
        for name, tensor in before.items():
            assert torch.equal(saved[f"{prefix}encoder.{name}"], tensor), name
    x = image_arrays[1][0][:5]
    np.testing.assert_array_equal(unihssl.load(tmp_path / "run").predict_proba(x), model.predict_proba(x))
    rows = RunFolder(tmp_path / "run").read_metrics()
    losses = [row["terms"]["labeled"] for row in rows if row["stage"] == rows[0]["stage"]]
    assert min(losses[1:]) < losses[0]


def test_features_are_computed_once(image_arrays, weights, tmp_path, monkeypatch) -> None:
    computed: list[str] = []
    compute = frozen.FrozenBackbone._computed
    monkeypatch.setattr(
        frozen.FrozenBackbone,
        "_computed",
        lambda self, role, store, views, name, *rest: (
            computed.append(f"{role} {name.kind}") or compute(self, role, store, views, name, *rest)
        ),
    )
    own = {"cache": tmp_path / "cache"}
    first = fit(image_arrays, tmp_path / "a", weights, "fixmatch", weak_view="crop", **own)
    expected = sorted(["labeled crop", "unlabeled crop", "unlabeled strong"] * 2 + ["labeled test", "unlabeled test"])
    assert sorted(computed) == expected  # no strong view of labeled samples: nobody asks for it
    again = fit(image_arrays, tmp_path / "b", weights, "fixmatch", weak_view="crop", **own)
    assert sorted(computed) == expected
    assert (tmp_path / "a/model.safetensors").read_bytes() == (tmp_path / "b/model.safetensors").read_bytes()
    assert again.result == first.result
    fit(image_arrays, tmp_path / "c", weights, "fixmatch", weak_view="crop", feature_views=3, seed=1, **own)
    assert len(computed) == len(expected) + 3  # one more of each; the seed changes nothing
    other = tmp_path / "other.safetensors"
    save_file({name: 0.9 * tensor for name, tensor in load_file(weights).items() if tensor.is_floating_point()}, other)
    fit(image_arrays, tmp_path / "d", other, "supervised", weak_view="crop", **own)
    assert computed[len(expected) + 3 :] == ["labeled crop", "labeled crop", "labeled test", "unlabeled test"]
    next((tmp_path / "cache/features").glob("*.npz")).write_bytes(b"damaged")
    fit(image_arrays, tmp_path / "e", weights, "fixmatch", weak_view="crop", **own)


def test_stopped_and_resumed_it_ends_the_same(image_arrays, weights, tmp_path, monkeypatch) -> None:
    whole = fit(image_arrays, tmp_path / "whole", weights)
    take_step = Trainer._step

    def stop_after(trainer: Trainer, index: int, number: int) -> None:
        take_step(trainer, index, number)
        trainer.guard.requested = (index, number) == (1, 3)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "_step", stop_after)
        fit(image_arrays, tmp_path / "stopped", weights)
    resumed = fit(image_arrays, tmp_path / "stopped", weights, resume=True)
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "stopped")]
    assert files[0] == files[1] and resumed.result == whole.result
    again = unihssl.evaluate(tmp_path / "whole", *image_arrays, held_out=True)["pooled"]  # from images, not features
    assert again["accuracy"] == pytest.approx(whole.result["pooled"]["accuracy"], abs=1.01 / again["n"])


def test_features_of_a_stopped_process_are_not_computed_again(image_arrays, weights, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(frozen, "BATCH", 8)
    monkeypatch.setattr(frozen, "SAVE_SECONDS", 0)
    folders = [tmp_path / name for name in ("whole", "stopped")]
    fit(image_arrays, folders[0], weights, cache=str(tmp_path / "cache"))
    draw, drawn = frozen.draw_view, []

    def draw_some(*given: object) -> torch.Tensor:
        drawn.append(given)
        if len(drawn) == 5:
            raise KeyboardInterrupt
        return draw(*given)

    own = str(tmp_path / "own cache")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(frozen, "draw_view", draw_some)
        fit(image_arrays, folders[1], weights, cache=own)
    encoded, encode = [], frozen.encode
    monkeypatch.setattr(frozen, "encode", lambda e, x, out, t: encoded.append(len(out)) or encode(e, x, out, t))
    fit(image_arrays, folders[1], weights, cache=own, resume=True)
    assert encoded[0] == 60 - 4 * 8 and not list(Path(own).rglob("*.part.npz"))
    files = [(folder / "model.safetensors").read_bytes() for folder in folders]
    assert files[0] == files[1]


def test_a_cache_that_cannot_be_written_is_told_of_once_a_view(
    image_arrays, weights, tmp_path, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(frozen, "BATCH", 8)
    monkeypatch.setattr(frozen, "SAVE_SECONDS", 0)
    encoded, encode = [], frozen.encode
    monkeypatch.setattr(frozen, "encode", lambda *given: encoded.append(given) or encode(*given))
    (tmp_path / "file").touch()
    with caplog.at_level("INFO", logger="unihssl"):
        fit(image_arrays, tmp_path / "run", weights, "supervised", cache=str(tmp_path / "file" / "cache"))
    told = [message for message in caplog.messages if "features are not cached" in message]
    assert len(told) == len(encoded) > 1


def test_full_memory_names_what_helps_with_features(image_arrays, weights, tmp_path, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(frozen, "encode", fail)
    with pytest.raises(UserError, match=r"smaller backbone or fewer views \(feature_views=0\), in a new"):
        fit(image_arrays, tmp_path / "a", weights, cache="none")
    with pytest.raises(UserError, match=r"input_size\), a smaller backbone, in a new run"):
        fit(image_arrays, tmp_path / "b", weights, feature_views=0, cache="none")


def test_unihssl_takes_the_test_view_alone_by_default(image_arrays, weights, tmp_path, monkeypatch) -> None:
    seen, compute = set(), frozen.FrozenBackbone._computed

    def computed(self, role, store, views, name, *rest):
        seen.add((role, name.kind))
        return compute(self, role, store, views, name, *rest)

    monkeypatch.setattr(frozen.FrozenBackbone, "_computed", computed)
    knobs = {name: value for name, value in KNOBS.items() if name != "feature_views"} | {"weights": weights}
    knobs = {name: value for name, value in knobs.items() if name not in ("sup_epochs", "router_epochs", "sup_lr")}
    model = unihssl.fit(*image_arrays, tmp_path / "run", cache="none", **knobs)
    assert seen == {("labeled", "test"), ("unlabeled", "test")} and model.result["pooled"]["n"] > 0


def test_long_features_on_a_cpu_get_a_way_out(image_arrays, weights, tmp_path, monkeypatch, caplog) -> None:
    caplog.set_level("INFO", "unihssl")
    own = {"weak_view": "crop", "cache": "none", "epochs": 1, "method": "fixmatch"}
    for seconds, views in ((10, 2), (3600, 2), (3600, 0)):
        ticks = itertools.count(step=seconds)
        with monkeypatch.context() as patch:
            patch.setattr(frozen.time, "monotonic", lambda ticks=ticks: float(next(ticks)))
            fit(image_arrays, tmp_path / f"{seconds} {views}", weights, feature_views=views, **own)
    short, long, bare = [r.message for r in caplog.records if r.message.startswith("features of ")]
    assert short.startswith("features of 420 more views") and "on this CPU" not in short
    assert "feature_views=0 computes the test view alone; precision='bf16'" in long and "input_size" in long
    assert "feature_views" not in bare and "precision" not in bare and "input_size or backbone" in bare


def test_a_view_is_one_of_those_computed() -> None:
    features = {(kind, n): torch.full((5, 3), 10.0 * n) + torch.arange(5.0)[:, None] for kind in "tw" for n in range(4)}
    views = FrozenViews(
        Views(None, (), (), "crop"), 4, lambda name: features[name.kind[0].replace("c", "w"), name.number]
    )
    rows = torch.arange(5).repeat(200)[:, None]
    assert torch.equal(views.test(rows), features["t", 0].repeat(200, 1))
    seen = views.weak(rows, BatchRandom(seed=1))[:, 0]
    assert torch.equal(seen % 10, rows[:, 0].float())  # each of its own sample
    assert set((seen // 10).tolist()) == {0, 1, 2, 3}


def test_without_random_views_a_sample_is_its_test_view() -> None:
    views = FrozenViews(Views(None, (), ()), 0, lambda name: torch.arange(10.0).view(5, 2))
    rows = torch.tensor([[4], [1]])
    for found in (views.test(rows), views.weak(rows, BatchRandom()), views.strong(rows, BatchRandom())):
        assert found.tolist() == [[8, 9], [2, 3]]
    assert not views.has_strong(rows) and views.forget() == ["test"]


def test_vectors_are_refused(vector_arrays, tmp_path) -> None:
    with pytest.raises(UserError, match="feature vectors"):
        unihssl.fit(*vector_arrays, tmp_path / "run", train="head")

"""Uni-HSSL inside real runs: what it knows before and after a step, and what every knob does."""

import copy
import json
import math
import typing
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor

import unihssl
from colour_domains import colour_images
from unihssl.cli.options import as_options
from unihssl.config import Settings, knob_fields
from unihssl.errors import UserError, worded
from unihssl.methods import unihssl as module
from unihssl.methods.mcc import class_confusion
from unihssl.methods.mixing import draw_mixing
from unihssl.methods.prototypes import PrototypeAlignment
from unihssl.methods.recipe import resolve
from unihssl.methods.unihssl import UniHSSL, UniHSSLParams
from unihssl.models.classifier import Classifier
from unihssl.training.loop import Trainer

C = 3
LABELED, UNLABELED = colour_images(8, 0, seed=0), colour_images(12, 60, seed=1)
QUICK = {
    "preset": "paper",
    "backbone": "small_cnn",
    "batch_size": 8,
    "tensorboard": False,
    "pretrain_epochs": 8,
    "epochs": 2,
    "lr": 0.05,  # some pseudo-labels are trusted, and some are not, in every epoch
    "epsilon": 0.7,
}


def fit(**knobs: object) -> unihssl.Model:
    return unihssl.fit(LABELED, UNLABELED, **QUICK | knobs)


def weights(model: unihssl.Model) -> Tensor:
    return torch.cat([t.flatten().float() for t in model.network.state_dict().values()])


def watch(monkeypatch: pytest.MonkeyPatch, name: str, around: Callable[[UniHSSL, Any, Callable[[], Any]], Any]) -> None:
    """Have `around(method, argument, proceed)` stand around every call of one of the method's own methods."""
    real = getattr(UniHSSL, name)
    monkeypatch.setattr("unihssl.pipeline.make_trainer.rehearse", lambda *_, **__: None)  # it would be watched, too
    monkeypatch.setattr(UniHSSL, name, lambda self, *args: around(self, args[0], lambda: real(self, *args)))


LACKING = (
    "cuda",
    "gpu",
    "disk",
    "original",
    "finetune",
    "mlflow",
    "wandb",
)  # no GPU is shown; arrays are in memory; not its presets; not installed


def options(*classes: type) -> list[tuple[str, Any]]:
    """Every option of every knob that has a handful of them, but for what is lacking here."""
    found = []
    for name, (_, kind) in knob_fields(*classes).items():
        choices = typing.get_args(kind) if typing.get_origin(kind) is Literal else (True, False) if kind is bool else ()
        found += [(name, choice) for choice in choices if choice not in LACKING]
    return found


@pytest.fixture(scope="module")
def by_default() -> Tensor:
    return weights(fit())


QUIET = {("first_half", "drop"), ("prediction", "sum")}  # matter where beliefs change sides, and after training


@pytest.mark.parametrize(("name", "value"), options(UniHSSLParams))
def test_every_option_of_the_method_trains_and_does_something(by_default, name, value, tmp_path):
    model = fit(out=tmp_path / "run", **{name: value})
    rows = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert '"mixup"' in rows and "NaN" not in rows and "Infinity" not in rows
    assert weights(model).isfinite().all()
    default = knob_fields(UniHSSLParams)[name][0].default
    assert (name, value) in QUIET or torch.equal(weights(model), by_default) == (value == default)


@pytest.mark.parametrize(("name", "value"), options(Settings))
def test_every_option_of_the_settings_trains(name, value, tmp_path):
    model = fit(out=tmp_path / "run", max_steps=2, **{name: value})
    rows = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert '"mixup"' in rows and "NaN" not in rows and "Infinity" not in rows
    assert weights(model).isfinite().all()


@pytest.mark.parametrize(("length", "steps"), [("max", 8), ("min", 6), ("unlabeled", 8)])
def test_an_epoch_is_as_long_as_it_says(length, steps, tmp_path):
    """21 labeled and 32 unlabeled training images, two epochs of batches of 8."""
    fit(out=tmp_path / "run", epoch_length=length)
    assert f'"step": {steps},' in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1]


@pytest.mark.parametrize("bottleneck", [0, 16])
def test_a_bottleneck_is_as_wide_as_asked(bottleneck):
    head = fit(bottleneck=bottleneck, max_steps=2).network.head
    assert head.out_features == 2 * C and (head.in_features == 16) == (bottleneck == 16)


@pytest.mark.usefixtures("doubles")
def test_initial_pseudo_labels_are_the_pretrained_models_in_the_unlabeled_half(monkeypatch):
    seen = []

    def around(method, data, proceed):
        network = copy.deepcopy(method.network).eval()
        proceed()
        pixels = torch.from_numpy(UNLABELED[0]).permute(0, 3, 1, 2) / 255
        mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
        with torch.no_grad():
            expected = network((pixels - mean) / std)[:, :C].softmax(1)
        table = method.pseudo_labels.table
        assert (table[:, :C] == 0).all()
        torch.testing.assert_close(table[:, C:], expected, atol=1e-9, rtol=0)
        assert method.network.training
        seen.append(True)

    watch(monkeypatch, "begin_adapt", around)
    fit(test_fraction=0)
    assert seen == [True]


@pytest.mark.parametrize("start", ["random", "zeros", "copy"])
def test_the_second_half_of_the_head_starts_as_told(monkeypatch, start):
    seen = []

    def around(method, data, proceed):
        before = copy.deepcopy(method.network.state_dict())
        proceed()
        after = method.network.state_dict()
        for name in ("head.weight", "head.bias"):
            first, second = after[name][:C], after[name][C:]
            assert torch.equal(first, before[name][:C])
            bound = 1 / math.sqrt(method.network.head.in_features)
            checks = {
                "zeros": (second == 0).all(),
                "copy": torch.equal(second, first),
                "random": (second.abs() <= bound).all() and len(second.unique()) == second.numel(),
            }
            assert checks[start]
            assert start != "random" or not torch.equal(second, before[name][C:])  # not what pre-training decayed
        rest = [name for name in before if not name.startswith("head.")]
        assert all(torch.equal(before[name], after[name]) for name in rest)
        seen.append(True)

    watch(monkeypatch, "begin_adapt", around)
    fit(second_half=start)
    assert seen == [True]


def forward(network: torch.nn.Module, batch: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Features and logits of both domains, through one set of BatchNorm statistics."""
    with torch.no_grad():
        features = network.features(torch.cat([batch.labeled.weak, batch.unlabeled.weak]))
        logits = network.head(features)
    size = len(batch.labeled)
    return features[:size], features[size:], logits[:size], logits[size:]


@pytest.mark.usefixtures("doubles")
@pytest.mark.parametrize("update", ["wma", "previous"])
def test_a_step_updates_the_rows_it_draws_and_no_others(monkeypatch, update):
    seen = []

    def around(method, batch, proceed):
        network, old = copy.deepcopy(method.network), method.pseudo_labels.table.clone()
        losses = proceed()
        prediction = forward(network, batch)[3].softmax(1)
        rows, table = batch.unlabeled.rows, method.pseudo_labels.table
        torch.testing.assert_close(table[rows], 0.8 * old[rows] + 0.2 * prediction if update == "wma" else prediction)
        others = np.setdiff1d(np.arange(len(table)), rows)
        assert torch.equal(table[others], old[others])
        torch.testing.assert_close(table.sum(1), torch.ones(len(table)))
        seen.append(len(rows))
        return losses

    watch(monkeypatch, "adapt", around)
    fit(lambda_mixup=0, pseudo_update=update)
    assert seen == [8] * 8


def test_refreshing_by_epoch_leaves_rows_alone_within_one(monkeypatch):
    tables = []

    def around(method, batch, proceed):
        losses = proceed()
        tables.append(method.pseudo_labels.table.clone())
        return losses

    watch(monkeypatch, "adapt", around)
    fit(pseudo_refresh="epoch")
    assert all(torch.equal(tables[0], t) for t in tables[:4]) and all(torch.equal(tables[4], t) for t in tables[4:])
    assert not torch.equal(tables[0], tables[4])


def test_folding_keeps_every_belief_in_the_unlabeled_half(monkeypatch):
    tables = []

    def around(method, batch, proceed):
        losses = proceed()
        tables.append(method.pseudo_labels.table.clone())
        return losses

    watch(monkeypatch, "adapt", around)
    fit(first_half="fold")
    assert (tables[-1][:, :C] == 0).all()
    torch.testing.assert_close(tables[-1].sum(1), torch.ones(len(tables[-1])))


@pytest.mark.usefixtures("doubles")
def test_the_first_steps_losses_are_the_papers_equations(monkeypatch):
    """Eqs. 4-9 and 13 as slow loops over one batch; prototypes have no past yet. (Mixup has tests of its own.)"""
    seen = []

    def around(method, batch, proceed):
        network, old = copy.deepcopy(method.network), method.pseudo_labels.table.clone()
        losses = proceed()
        if batch.step:
            return losses
        features_l, features_u, logits_l, logits_u = forward(network, batch)
        y = batch.labeled.y.tolist()
        log_l, log_u = logits_l.log_softmax(1), logits_u.log_softmax(1)
        beliefs = 0.8 * old[batch.unlabeled.rows] + 0.2 * logits_u.softmax(1)
        trusted = [float(b.max()) > 0.7 for b in beliefs]
        labeled = sum(-log_l[i, k] for i, k in enumerate(y)) / len(y)
        cross = [-(b * row).sum() for b, row in zip(beliefs, log_u, strict=True)]
        pseudo = sum(c for c, t in zip(cross, trusted, strict=True) if t) / len(cross)
        peaks = beliefs.argmax(1).tolist()
        prototypes_l, prototypes_u = {}, {}
        for k in range(C):
            own = [i for i, label in enumerate(y) if label == k]
            theirs = [i for i, peak in enumerate(peaks) if peak == C + k and trusted[i]]
            if own and theirs:
                prototypes_l[k], prototypes_u[k] = features_l[own].mean(0), features_u[theirs].mean(0)
        prototype = 0.0
        similarity = {
            (a, b): torch.cosine_similarity(prototypes_l[a], prototypes_u[b], dim=0) / 0.5
            for a in prototypes_l
            for b in prototypes_u
        }
        for k in prototypes_l:
            others = [j for j in prototypes_l if j != k]
            for pairs in ([(k, j) for j in others], [(j, k) for j in others]):
                prototype -= similarity[k, k] - torch.stack([similarity[p] for p in pairs]).exp().sum().log()
        assert len(prototypes_l) >= 2 and any(trusted)
        for name, value in (("labeled", labeled), ("pseudo", pseudo), ("prototype", prototype)):
            torch.testing.assert_close(losses.terms[name].detach(), value, atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(losses.total().detach(), 2 * labeled + 3 * pseudo + 0.5 * prototype)
        assert losses.stats["mask_rate"] == pytest.approx(sum(trusted) / len(trusted))
        seen.append(True)
        return losses

    watch(monkeypatch, "adapt", around)
    fit(seed=2, lambda_mixup=0, lambda_cl=2, lambda_pl=3, lambda_pa=0.5)
    assert seen == [True]


@pytest.mark.parametrize("knob", ["lambda_pl", "lambda_pa", "lambda_mixup", "lambda_cl"])
def test_a_weight_of_zero_takes_a_term_out_of_the_objective(by_default, knob):
    assert not torch.equal(weights(fit(**{knob: 0})), by_default)


def test_pre_training_uses_the_first_c_outputs_alone(monkeypatch):
    gradients = []

    def around(method, batch, proceed):
        losses = proceed()
        (gradient,) = torch.autograd.grad(losses.total(), method.network.head.weight, retain_graph=True)
        gradients.append(gradient)
        return losses

    watch(monkeypatch, "pretrain", around)
    fit(pretrain_epochs=1, max_steps=2)
    assert all((g[C:] == 0).all() and g[:C].any() for g in gradients) and len(gradients) == 2


def test_without_pre_training_the_main_stage_starts_at_once(tmp_path):
    fit(out=tmp_path / "run", pretrain_epochs=0)
    assert "pretrain" not in (tmp_path / "run" / "metrics.jsonl").read_text()


@pytest.mark.parametrize("knobs", [{"lambda_confusion": 1.0}, {"unlabeled_view": "strong"}])
def test_ingredients_beyond_the_paper_do_something(by_default, knobs, tmp_path):
    model = fit(out=tmp_path / "run", **knobs)
    assert weights(model).isfinite().all() and not torch.equal(weights(model), by_default)
    rows = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert ('"confusion"' in rows) == ("lambda_confusion" in knobs) and "NaN" not in rows


@pytest.mark.parametrize(("epochs", "floor", "steps"), [(2, 0, 6), (2, 5, 6), (2, 7, 9), (0, 4, 6)])
def test_pretraining_has_a_floor_of_steps(epochs, floor, steps, tmp_path):
    """21 labeled training images in batches of 8 are three steps an epoch."""
    fit(out=tmp_path / "run", pretrain_epochs=epochs, pretrain_steps=floor, epochs=1)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert max(row["step"] for row in rows if row["stage"] == "pretrain") == steps


def test_initial_pseudo_labels_by_the_unlabeled_domains_statistics(monkeypatch):
    """A domain that is the labeled one, shifted and scaled: AdaBN undoes it, the labeled domain's statistics do not."""
    right = {}

    def around(method: UniHSSL, data: Any, proceed: Callable[[], Any]) -> None:
        proceed()
        truth = torch.from_numpy(np.unique(LABELED[1], return_inverse=True)[1])
        right[method.params.initial_statistics] = float((method.pseudo_classes() == truth).float().mean())

    watch(monkeypatch, "begin_adapt", around)
    x, y = LABELED
    far = (255 - (255 - x.astype(float)) / 3).astype(np.uint8)
    for which in ("labeled", "unlabeled"):
        knobs = QUICK | {"initial_statistics": which, "test_fraction": 0, "pretrain_epochs": 20, "max_steps": 60}
        unihssl.fit((x, y), far, **knobs)
    assert right["unlabeled"] > right["labeled"] + 0.2 and right["unlabeled"] > 0.8, right


@pytest.mark.usefixtures("doubles")
def test_weak_views_label_what_strong_views_are_taught(monkeypatch):
    """One pass over both: pseudo-labels follow the weak view's prediction, the losses that use them see the strong."""
    passes, real = [], Classifier.forward_views

    def forward_views(self: Classifier, views: dict[str, Tensor], *, joint: bool = True) -> Any:
        passes.append((views, real(self, views, joint=joint)))
        return passes[-1][1]

    def around(method: UniHSSL, batch: Any, proceed: Callable[[], Any]) -> Any:
        rows, old = batch.unlabeled.rows, method.pseudo_labels.table.clone()
        losses = proceed()
        ((views, (features, logits)),) = passes
        passes.clear()
        assert views.keys() == {"labeled", "weak", "mixed", "strong"}
        assert views["weak"] is batch.unlabeled.weak and views["strong"] is batch.unlabeled.strong
        assert not torch.equal(views["weak"], views["strong"])
        assert torch.equal(views["mixed"], mixed[-1](batch.labeled.weak, batch.unlabeled.strong))
        assert aligned[-1] is features["weak"]
        both_halves = torch.logaddexp(*logits["strong"].chunk(2, dim=1))
        assert losses.terms["confusion"].item() == pytest.approx(class_confusion(both_halves, 2.5).item(), abs=1e-9)
        expected = 0.0
        for row, weak, strong in zip(rows.tolist(), logits["weak"].detach(), logits["strong"].detach(), strict=True):
            belief = 0.8 * old[row] + 0.2 * weak.softmax(0)
            assert torch.allclose(method.pseudo_labels.table[row], belief, atol=1e-9)
            if belief.max() > 0.7:
                expected -= float((belief * strong.log_softmax(0)).sum()) / len(rows)
        assert losses.terms["pseudo"].item() == pytest.approx(expected, abs=1e-9)
        trained.append(expected)
        return losses

    def mixing(*args: Any) -> Any:
        mixed.append(draw_mixing(*args))
        return mixed[-1]

    def align(self: PrototypeAlignment, features: Tensor, y: Tensor, unlabeled: Tensor, *rest: Tensor) -> Tensor:
        aligned.append(unlabeled)
        return real_alignment(self, features, y, unlabeled, *rest)

    trained, mixed, aligned, real_alignment = [], [], [], PrototypeAlignment.forward
    monkeypatch.setattr("unihssl.methods.unihssl.draw_mixing", mixing)
    monkeypatch.setattr(PrototypeAlignment, "forward", align)
    monkeypatch.setattr(Classifier, "forward_views", forward_views)
    watch(monkeypatch, "adapt", around)
    fit(unlabeled_view="strong", lambda_confusion=1.0)
    assert max(trained) > 0


def test_pseudo_labels_come_in_slowly_if_asked_to(monkeypatch):
    weights_seen = []

    def around(method: UniHSSL, batch: Any, proceed: Callable[[], Any]) -> Any:
        losses = proceed()
        weights_seen.append([float(losses.weights[name]) for name in ("labeled", "pseudo", "mixup", "prototype")])
        return losses

    watch(monkeypatch, "adapt", around)
    fit(ramp_up=0.5, lambda_mixup=2.0, lambda_pa=3.0)
    steps = len(weights_seen)
    for step, (labeled, *others) in enumerate(weights_seen):
        rise = math.exp(-5 * (1 - min(2 * step / steps, 1)) ** 2)
        assert labeled == 1.0 and others == pytest.approx([rise, 2 * rise, 3 * rise])


def vectors(count: int, shift: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Five classes of points, as seen in a domain that lies elsewhere."""
    draws, places = np.random.default_rng(seed), 2 * np.random.default_rng(0).normal(size=(5, 20))
    y = np.arange(count) % 5
    return (places[y] + draws.normal(size=(count, 20)) + shift).astype(np.float32), y


def test_vectors_have_one_view():
    """Nothing to augment: the strong view is the weak one, and no vector goes through the network twice."""
    knobs = {"preset": "paper", "lambda_consistency": 1.0, "max_steps": 5, "tensorboard": False}
    weak, strong = (
        unihssl.fit(vectors(60, 0, 1), vectors(60, 1, 2), unlabeled_view=view, **knobs) for view in ("weak", "strong")
    )
    assert torch.equal(weights(weak), weights(strong))


@pytest.mark.parametrize("count", [257, 2])
def test_own_statistics_of_any_number_of_samples(count):
    knobs = {"initial_statistics": "unlabeled", "test_fraction": 0, "max_steps": 2, "tensorboard": False}
    unihssl.fit(vectors(40, 0, 1), vectors(count, 1, 2)[0], **knobs)


def test_advice_names_nothing_that_was_done():
    assert "preset='robust'" in worded(UniHSSL.advice(Settings(), UniHSSLParams()))
    robust = worded(UniHSSL.advice(*resolve({"preset": "robust"})))
    assert "robust" not in robust and "method='mcc+sup'" in robust
    assert "unlabeled_view='weak', labeled_view='weak'" in robust
    for without_views in ({"train": "head"}, {"backbone": "mlp"}):
        assert "weak" not in worded(UniHSSL.advice(*resolve({"preset": "robust"} | without_views)))
    assert "--set unlabeled_view=weak, " in worded(UniHSSL.advice(*resolve({"preset": "robust"})), as_options)


def test_a_confidence_that_would_always_be_one_is_refused():
    with pytest.raises(UserError, match="first_half='fold' leaves no mass in the labeled half"):
        fit(first_half="fold", confidence="unlabeled_mass")


@pytest.mark.parametrize("stage", ["pretrain", "adapt"])
def test_the_labeled_losses_see_strong_views_of_half_of_the_samples(monkeypatch, stage):
    name = "forward" if stage == "pretrain" else "forward_views"
    real, seen, compared = getattr(Classifier, name), [], []

    def forward(self: Classifier, x: Any, **named: Any) -> Any:
        seen.append(x["labeled"] if stage == "adapt" else x)
        return real(self, x, **named)

    def around(method: UniHSSL, batch: Any, proceed: Callable[[], Any]) -> Any:
        losses = proceed()
        samples = list(zip(batch.labeled.weak, batch.labeled.strong, strict=True))
        expected = [strong if number < len(samples) / 2 else weak for number, (weak, strong) in enumerate(samples)]
        assert torch.equal(seen[-1], torch.stack(expected)) and not torch.equal(seen[-1], batch.labeled.weak)
        compared.append(True)
        return losses

    monkeypatch.setattr(Classifier, name, forward)
    watch(monkeypatch, stage, around)
    fit(labeled_view="half_strong")
    assert compared


@pytest.mark.usefixtures("doubles")
@pytest.mark.parametrize("first_half", ["keep", "fold"])
def test_strong_views_learn_the_classes_of_sure_pseudo_labels(monkeypatch, first_half):
    real, strong, counted = Classifier.forward_views, [], []

    def forward_views(self: Classifier, views: dict[str, Tensor], *, joint: bool = True) -> Any:
        features, found = real(self, views, joint=joint)
        strong.append(found["strong"].softmax(1))
        return features, found

    def around(method: UniHSSL, batch: Any, proceed: Callable[[], Any]) -> Any:
        losses = proceed()
        total = 0.0
        for row, prediction in zip(batch.unlabeled.rows, strong[-1], strict=True):
            pseudo = method.pseudo_labels.table[row]
            classes = [(pseudo[k] + pseudo[k + C]).item() for k in range(C)]
            best = max(range(C), key=classes.__getitem__)
            counted.append(classes[best] > 0.6)
            total -= math.log((prediction[best] + prediction[best + C]).item()) if counted[-1] else 0.0
        expected = total / len(batch.unlabeled)
        assert losses.terms["consistency"].item() == pytest.approx(expected, abs=1e-9)
        assert losses.weights["consistency"] == 2.0
        return losses

    monkeypatch.setattr(Classifier, "forward_views", forward_views)
    watch(monkeypatch, "adapt", around)
    fit(unlabeled_view="strong", lambda_consistency=2.0, consistency_threshold=0.6, first_half=first_half)
    assert {*counted} == {True, False}


@pytest.mark.usefixtures("doubles")
@pytest.mark.parametrize(("least", "view"), [(0.0, "strong"), (0.01, "strong"), (1.0, "weak")])
def test_class_confusion_sees_weak_views_where_strong_ones_lose_the_classes(monkeypatch, least, view):
    real, logits = Classifier.forward_views, {}

    def forward_views(self: Classifier, views: dict[str, Tensor], *, joint: bool = True) -> Any:
        features, found = real(self, views, joint=joint)
        logits.update(found)
        return features, found

    def around(method: UniHSSL, batch: Any, proceed: Callable[[], Any]) -> Any:
        losses = proceed()
        both_halves = torch.logaddexp(*logits[view].chunk(2, dim=1))
        assert losses.terms["confusion"].item() == pytest.approx(class_confusion(both_halves, 2.5).item(), abs=1e-9)
        seen.append(losses.stats.get("affinity"))
        return losses

    def begin(method: UniHSSL, data: Any, proceed: Callable[[], Any]) -> None:
        proceed()
        if not least:
            return
        data.reseed_before(1)  # what the affinity was drawn from
        for _ in data.unlabeled.sweep(data.random):
            pass
        right = {"strong": 0, "test": 0}
        for samples in data.labeled.sweep(data.random):
            for name in right:
                for image, y in zip(getattr(samples, name), samples.y, strict=True):
                    right[name] += int(method.network.evaluate(image[None])[1][0, :C].argmax() == y)
        assert method.affinity.item() == pytest.approx(right["strong"] / right["test"])

    seen: list[Tensor | None] = []
    monkeypatch.setattr(Classifier, "forward_views", forward_views)
    watch(monkeypatch, "adapt", around)
    watch(monkeypatch, "begin_adapt", begin)
    # With many classes of noise strong views lose some; the threshold of 1 is above, that of 0.01 below.
    fit(unlabeled_view="strong", lambda_confusion=1.0, min_affinity=least, strong_view="randaugment_cutout")
    assert seen and (least > 0) == (seen[0] is not None)
    if view == "weak":
        assert float(seen[0]) < 1  # type: ignore[arg-type]


def test_passes_are_apart_at_first_and_joint_later(monkeypatch):
    monkeypatch.setattr(module, "EVEN", 2)

    apart, separate, joint, half = (
        weights(fit(batch_norm=how, apart=share))
        for how, share in (("joint", 1.0), ("separate", 0.0), ("joint", 0.0), ("joint", 0.5))
    )
    assert torch.equal(apart, separate)
    assert not torch.equal(half, apart) and not torch.equal(half, joint)
    monkeypatch.setattr(module, "EVEN", 0)
    assert torch.equal(weights(fit(apart=1.0)), joint)


def test_unevenness_is_the_distance_of_the_first_pseudo_labels_from_equal_shares(monkeypatch):
    seen = []

    def around(method: UniHSSL, data: Any, proceed: Callable[[], Any]) -> None:
        proceed()
        counts = np.bincount(method.pseudo_classes().numpy(), minlength=3)
        seen.append((float(method.unevenness), np.abs(counts / counts.sum() - 1 / 3).sum() / 2))

    watch(monkeypatch, "begin_adapt", around)
    fit(apart=0.15)
    assert len(seen) == 1 and seen[0][0] == pytest.approx(seen[0][1], abs=1e-6)


@pytest.mark.parametrize("even", [0, 2])
def test_stopped_while_passes_are_apart_a_run_ends_the_same(even, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "EVEN", even)
    knobs = QUICK | {"apart": 0.6, "pretrain_epochs": 1, "checkpoint_seconds": 0}
    whole = unihssl.fit(LABELED, UNLABELED, tmp_path / "whole", **knobs)
    take_step = Trainer._step

    def stop_after(trainer: Trainer, index: int, number: int) -> None:
        take_step(trainer, index, number)
        trainer.guard.requested = (index, number) == (1, 2)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "_step", stop_after)
        unihssl.fit(LABELED, UNLABELED, tmp_path / "stopped", **knobs)
    resumed = unihssl.fit(LABELED, UNLABELED, tmp_path / "stopped", resume=True, **knobs)
    assert torch.equal(weights(resumed), weights(whole))

"""The equations of the paper, written again as loops over floats, against what training runs."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from unihssl import losses
from unihssl.methods.prototypes import Prototypes
from unihssl.methods.pseudo_labels import PseudoLabels
from unihssl.methods.unihssl_params import UniHSSLParams

check = settings(max_examples=100, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31 - 1)
sizes = st.integers(1, 6)
class_counts = st.integers(2, 6)
unit = st.floats(0, 1, width=16)  # exact in every dtype
reductions = st.sampled_from(["sum", "mean"])


def close(actual, expected):
    torch.testing.assert_close(actual.detach(), actual.new_tensor(expected), rtol=1e-6, atol=1e-6)


def normal(seed, *shape):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def distributions(seed, *shape):
    return (3 * normal(seed, *shape)).softmax(-1)


def gradients(loss, *inputs):
    return torch.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True)


def pseudo_label_loss(logits, y_hat, epsilon):
    trusted = PseudoLabels(1, y_hat.shape[1] // 2, UniHSSLParams(epsilon=epsilon)).trusted(y_hat)
    return losses.trusted_cross_entropy(logits, y_hat, trusted)


def prototypes(features, classes, num_classes, weights=None):
    return Prototypes(num_classes, features.shape[1], "batch", 0.9, literal_mean=False)(features, classes, weights)


def ref_softmax(z):
    total = sum(math.exp(v) for v in z)
    return [math.exp(v) / total for v in z]


def ref_pseudo_label_loss(logits, y_hat, epsilon):
    """Eq. 6."""
    total = 0.0
    for z, y in zip(logits, y_hat, strict=True):
        if max(y) > epsilon:
            total -= sum(t * math.log(h) for t, h in zip(y, ref_softmax(z), strict=True))
    return total / len(logits)


def ref_prototypes(features, classes, num_classes, weights):
    """Eqs. 7-8, as means over the class; zeros for an absent one."""
    p, present = [], []
    for k in range(num_classes):
        members = [(w, f) for w, f, y in zip(weights, features, classes, strict=True) if y == k and w]
        mass = sum(w for w, _ in members)
        p.append([sum(w * f[d] for w, f in members) / (mass or 1) for d in range(len(features[0]))])
        present.append(bool(members))
    return p, present


def ref_cos(p, q):
    dot = sum(a * b for a, b in zip(p, q, strict=True))
    return dot / math.sqrt(sum(a * a for a in p)) / math.sqrt(sum(b * b for b in q))


def ref_alignment(p, q, tau, valid, include_positive, reduction):
    """Eq. 9 over the valid classes."""
    ks = [k for k in range(len(p)) if valid[k]]
    if len(ks) < 2:
        return 0.0
    total = 0.0
    for k in ks:
        positive = math.exp(ref_cos(p[k], q[k]) / tau)
        rest = [j for j in ks if j != k or include_positive]
        total -= math.log(positive / sum(math.exp(ref_cos(p[k], q[j]) / tau) for j in rest))
        total -= math.log(positive / sum(math.exp(ref_cos(p[j], q[k]) / tau) for j in rest))
    return total if reduction == "sum" else total / len(ks)


def ref_mixup_loss(logits, y_m, reduction):
    """Eq. 12."""
    total = 0.0
    for z, y in zip(logits, y_m, strict=True):
        norm = sum((h - t) ** 2 for h, t in zip(ref_softmax(z), y, strict=True))
        total += norm if reduction == "sum" else norm / len(y)
    return total / len(logits)


@check
@given(seed=seeds, n=sizes, c=class_counts, domain=st.integers(0, 1))
def test_labels_expand_into_their_domain_half(seed, n, c, domain):
    y = distributions(seed, n, c)
    expected = [[0.0] * c + row if domain else row + [0.0] * c for row in y.tolist()]
    close(losses.expand_labels(y, c, domain), expected)
    close(losses.expand_labels(y[0], c, domain), expected[0])


@check
@given(seed=seeds, n=sizes, c=class_counts, beta=unit)
def test_wma_is_equation_5(seed, n, c, beta):
    previous, prediction = distributions(seed, n, 2 * c), distributions(seed + 1, n, 2 * c)
    rows = zip(previous.tolist(), prediction.tolist(), strict=True)
    expected = [[beta * a + (1 - beta) * b for a, b in zip(*pair, strict=True)] for pair in rows]
    close(losses.wma_update(previous, prediction, beta), expected)


@check
@given(seed=seeds, n=sizes, c=class_counts, epsilon=unit, at_a_label=st.booleans())
def test_pseudo_label_loss_is_equation_6(seed, n, c, epsilon, at_a_label):
    logits, y_hat = normal(seed, n, 2 * c), distributions(seed + 1, n, 2 * c)
    if at_a_label:  # the only way to meet the strictness of > with random labels
        epsilon = y_hat[0].max().item()
    expected = ref_pseudo_label_loss(logits.tolist(), y_hat.tolist(), epsilon)
    close(pseudo_label_loss(logits, y_hat, epsilon), expected)


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_pseudo_label_loss_at_thresholds_never_and_always_reached(n, scale):
    logits = (scale * normal(0, n, 4)).requires_grad_()
    y_hat = distributions(1, n, 4).requires_grad_()
    never = pseudo_label_loss(logits, y_hat, 1.0)
    assert never.item() == 0 and not any(g.any() for g in gradients(never, logits, y_hat))
    always = pseudo_label_loss(logits, y_hat, 0.0)
    to_logits, to_targets = gradients(always, logits, y_hat)
    assert always > 0 and not to_targets.any()
    # The known gradient of a soft cross-entropy.
    torch.testing.assert_close(to_logits, (logits.softmax(-1) - y_hat).detach() / n)


@check
@given(data=st.data(), seed=seeds, n=sizes, c=class_counts, d=sizes)
def test_prototypes_are_the_class_means_of_equations_7_and_8(data, seed, n, c, d):
    features = normal(seed, n, d)
    classes = data.draw(st.lists(st.integers(-1, c), min_size=n, max_size=n))
    trust, share = (st.lists(kind, min_size=n, max_size=n) for kind in (st.booleans(), unit))
    weights = data.draw(st.none() | trust | share)
    as_tensor = torch.tensor(weights) if weights else None
    p, present = prototypes(features, torch.tensor(classes), c, as_tensor)
    expected, expected_present = ref_prototypes(features.tolist(), classes, c, weights or [1.0] * n)
    close(p, expected)
    assert present.dtype == torch.bool and present.tolist() == expected_present


@check
@given(st.data(), seeds, class_counts, sizes, st.floats(0.05, 5), st.booleans(), reductions)
def test_alignment_is_equation_9(data, seed, c, d, tau, include_positive, reduction):
    p, q = normal(seed, c, d), normal(seed + 1, c, d)
    valid = data.draw(st.none() | st.lists(st.booleans(), min_size=c, max_size=c))
    mask = None if valid is None else torch.tensor(valid)
    if mask is not None:  # a class absent from one domain has a zero prototype there
        p[~mask] = 0
    p.requires_grad_(), q.requires_grad_()
    options = {"include_positive": include_positive, "reduction": reduction}
    loss = losses.prototype_alignment_loss(p, q, tau, mask, **options)
    close(loss, ref_alignment(p.tolist(), q.tolist(), tau, valid or [True] * c, include_positive, reduction))
    for gradient in gradients(loss, p, q):
        assert gradient.isfinite().all()
        assert mask is None or not gradient[~mask].any()


def test_alignment_defaults_are_the_printed_sum_without_the_positive():
    eye = torch.eye(3, dtype=torch.float64)
    # cos is 1 for the pair and 0 for each of the two negatives: every term is log 2 - 1 / tau.
    close(losses.prototype_alignment_loss(eye, eye, 0.5), 3 * 2 * (math.log(2) - 2))
    close(losses.prototype_alignment_loss(5 * eye[:2], eye[:2], 0.5), 2 * 2 * (0 - 2))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("valid", [None, [0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 1]])
@pytest.mark.parametrize("include_positive", [False, True])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("tau", [0.5, 1e-3])
def test_alignment_stays_finite_with_zero_prototypes(dtype, valid, include_positive, reduction, tau):
    p, q = normal(0, 4, 3), normal(1, 4, 3)
    p[0], p[2], q[2] = 0, 0, 0
    p, q = p.to(dtype).requires_grad_(), q.to(dtype).requires_grad_()
    mask = None if valid is None else torch.tensor(valid, dtype=torch.bool)
    options = {"include_positive": include_positive, "reduction": reduction}
    loss = losses.prototype_alignment_loss(p, q, tau, mask, **options)
    found = gradients(loss, p, q)
    assert loss.isfinite() and all(g.isfinite().all() for g in found)
    if valid is not None and sum(valid) < 2:
        assert loss.item() == 0 and not any(g.any() for g in found)


def test_no_gradient_reaches_samples_outside_the_aligned_classes():
    f_l, f_u = normal(0, 5, 3).requires_grad_(), normal(1, 5, 3).requires_grad_()
    p, in_l = prototypes(f_l, torch.tensor([0, 0, 1, 2, 9]), 4)
    trusted = torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0])
    q, in_u = prototypes(f_u, torch.tensor([0, 1, 1, 3, -1]), 4, trusted)
    to_l, to_u = gradients(losses.prototype_alignment_loss(p, q, 0.5, in_l & in_u), f_l, f_u)
    assert to_l.any(1).tolist() == [True, True, True, False, False] and to_l.isfinite().all()
    assert to_u.any(1).tolist() == [True, True, False, False, False] and to_u.isfinite().all()


@check
@given(seed=seeds, total=st.integers(1, 10**6), done=unit, alpha=st.floats(0.1, 10), n=st.integers(0, 64))
def test_mixup_ratio_stays_below_psi_and_repeats(seed, total, done, alpha, n):
    step = int(done * total)
    psi = 0.5 + step / (2 * total)
    before = torch.random.get_rng_state()

    def draw(**options):
        generator = torch.Generator().manual_seed(seed)
        return losses.progressive_mixup_ratio(step, total, alpha, n, generator, **options)

    one, two, plain = draw(), draw(), draw(progressive=False)
    assert one.shape == (n,) and torch.equal(one, two)
    assert ((one >= 0) & (one <= psi + 1e-6)).all() and ((plain >= 0) & (plain <= 1)).all()
    torch.testing.assert_close(one, psi * plain)
    assert torch.equal(before, torch.random.get_rng_state())  # the global stream is left alone


@pytest.mark.parametrize("alpha", [0.2, 0.75, 1.0, 4.0])
@pytest.mark.parametrize(("step", "psi"), [(0, 0.5), (30, 0.65), (100, 1.0)])
def test_mixup_ratio_has_the_moments_of_equation_11(alpha, step, psi):
    n, generator = 200_000, torch.Generator().manual_seed(0)
    ratio = losses.progressive_mixup_ratio(step, 100, alpha, n, generator).double()
    variance = psi**2 / (4 * (2 * alpha + 1))
    assert abs(ratio.mean().item() - psi / 2) < 5 * math.sqrt(variance / n)
    # |ratio - psi / 2| <= psi / 2 bounds the fourth moment, hence the error of the sample variance.
    assert abs(ratio.var().item() - variance) < 5 * (psi / 2) * math.sqrt(variance / n)


@check
@given(data=st.data(), seed=seeds, n=sizes, c=class_counts, inner=st.sampled_from([(3,), (1, 2, 2)]))
def test_mixup_is_equation_10(data, seed, n, c, inner):
    x_l, x_u = normal(seed, n, *inner), normal(seed + 1, n, *inner)
    y_l = losses.expand_labels(distributions(seed + 2, n, c), c, 0)
    y_hat = distributions(seed + 3, n, 2 * c)
    ratio = data.draw(unit | st.lists(unit, min_size=n, max_size=n).map(x_l.new_tensor))
    x_m, y_m = losses.interpolate(x_l, x_u, ratio), losses.interpolate(y_l, y_hat, ratio)
    for mixed, labeled, unlabeled in ((x_m, x_l, x_u), (y_m, y_l, y_hat)):
        assert mixed.shape == labeled.shape
        for i in range(n):
            lam = ratio if isinstance(ratio, float) else ratio[i].item()
            pairs = zip(labeled[i].flatten().tolist(), unlabeled[i].flatten().tolist(), strict=True)
            close(mixed[i].flatten(), [lam * u + (1 - lam) * v for v, u in pairs])


@check
@given(seed=seeds, n=sizes, c=class_counts, reduction=reductions)
def test_mixup_loss_is_equation_12(seed, n, c, reduction):
    logits, y_m = normal(seed, n, 2 * c).requires_grad_(), distributions(seed + 1, n, 2 * c).requires_grad_()
    loss = losses.mixup_loss(logits, y_m, reduction=reduction)
    close(loss, ref_mixup_loss(logits.tolist(), y_m.tolist(), reduction))
    to_logits, to_targets = gradients(loss, logits, y_m)
    assert to_logits.isfinite().all() and not to_targets.any()
    if reduction == "sum":
        assert torch.equal(loss, losses.mixup_loss(logits, y_m))


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_mixup_loss_without_some_samples_is_a_mean_over_all(reduction):
    logits, y_m, kept = normal(0, 5, 4), distributions(1, 5, 4), torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0])
    whole = [losses.mixup_loss(logits[i : i + 1], y_m[i : i + 1], reduction=reduction) for i in range(5)]
    expected = (whole[0] + whole[2] + whole[3]) / 5
    torch.testing.assert_close(losses.mixup_loss(logits, y_m, weights=kept, reduction=reduction), expected)


def test_mixup_ratio_without_a_generator_follows_the_global_seed():
    torch.manual_seed(3)
    first = losses.progressive_mixup_ratio(1, 2, 1.0, 4)
    torch.manual_seed(3)
    assert torch.equal(first, losses.progressive_mixup_ratio(1, 2, 1.0, 4)) and first.device.type == "cpu"


@pytest.mark.parametrize(("n", "c"), [(1, 2), (4, 2), (5, 3)])
def test_gradients_are_those_of_finite_differences(n, c):
    logits, y = normal(0, n, 2 * c).requires_grad_(), distributions(1, n, 2 * c)
    f_l, f_u = normal(2, n, 3).requires_grad_(), normal(3, n, 3).requires_grad_()
    classes = torch.arange(n) % c
    p, q = normal(4, c, 3).requires_grad_(), normal(5, c, 3).requires_grad_()
    assert gradcheck(lambda z: pseudo_label_loss(z, y, 0.3), logits)
    assert gradcheck(lambda z: losses.mixup_loss(z, y), logits)
    assert gradcheck(lambda f: prototypes(f, classes, c)[0], f_l)
    assert gradcheck(lambda a, b: losses.interpolate(a, b, 0.3), (f_l, f_u))
    for valid in (None, torch.arange(c) != 1):
        assert gradcheck(partial(losses.prototype_alignment_loss, temperature=0.5, valid=valid), (p, q))


@pytest.mark.parametrize(("classes", "domain", "named"), [(5, 0, r"\(2, 5\)"), (4, 2, "got 2"), (4, -1, "got -1")])
def test_expansion_misuse_names_the_offending_value(classes, domain, named):
    with pytest.raises(ValueError, match=named):
        losses.expand_labels(torch.zeros(2, classes), 4, domain)


@pytest.mark.parametrize(
    ("step", "total", "alpha", "named"),
    [(0, 10, alpha, f"got {alpha}") for alpha in (0.0, -0.5, math.nan, math.inf)]
    + [(t, total, 0.75, f"got {t} of {total}") for t, total in ((11, 10), (-1, 10), (0, 0), (math.nan, 10))],
)
def test_mixup_ratio_misuse_names_the_offending_value(step, total, alpha, named):
    with pytest.raises(ValueError, match=named):
        losses.progressive_mixup_ratio(step, total, alpha, 3)


def test_mixing_refuses_whole_numbers_and_ratios_for_other_samples():
    images = torch.zeros(3, 2, 2)
    with pytest.raises(ValueError, match=r"floating-point samples, got torch\.uint8"):
        losses.interpolate(images.to(torch.uint8), images, 0.5)
    with pytest.raises(ValueError, match="one for each of 3 samples, got 2"):
        losses.interpolate(images, images, torch.zeros(2))


def test_weights_leave_samples_out_of_mixup_but_not_out_of_its_mean():
    logits, targets = normal(0, 4, 6), distributions(1, 4, 6)
    weights = torch.tensor([1.0, 0, 1, 0], dtype=logits.dtype)
    kept = losses.mixup_loss(logits[::2], targets[::2]).item()
    close(losses.mixup_loss(logits, targets, weights=weights), kept / 2)


@pytest.mark.parametrize("kept", [[True, False, True], [False, True, False], [False, False, False]])
def test_the_mean_over_trusted_rows_alone(kept):
    logits, targets = torch.randn(3, 4), torch.softmax(torch.randn(3, 4), 1)
    rows = [-sum(targets[i, c] * torch.log_softmax(logits[i], 0)[c] for c in range(4)) for i in range(3) if kept[i]]
    found = losses.trusted_cross_entropy(logits, targets, torch.tensor(kept), kept_only=True)
    torch.testing.assert_close(found, sum(rows) / len(rows) if rows else torch.tensor(0.0))

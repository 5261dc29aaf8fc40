"""The baselines' losses and memories, against other libraries and slow loops written from their papers."""

import importlib
import math
from collections import OrderedDict
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from unihssl.config import Settings
from unihssl.methods import biadapt, cdan, flexmatch, mcc, simmatch
from unihssl.methods.base import Task
from unihssl.methods.ema import EMA

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(2, 9)
some = settings(max_examples=25, deadline=None, derandomize=True)


@pytest.fixture(scope="module")
def skada() -> SimpleNamespace:
    losses = pytest.importorskip("skada.deep.losses", reason="needs skada and skorch (the dev extra)")
    return SimpleNamespace(losses=losses, adversarial=importlib.import_module("skada.deep._adversarial"))


@pytest.fixture(scope="module")
def layers():
    """pytorch-adapt's."""
    return pytest.importorskip("pytorch_adapt.layers", reason="needs pytorch-adapt (the dev extra)")


def close(found: Tensor, expected: Tensor | float, tolerance: float = 1e-5) -> None:
    expected = torch.as_tensor(expected, dtype=found.dtype)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def draw(seed: int, *shape: int, scale: float = 3.0) -> Tensor:
    return scale * torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def encoder(width: int):
    """An encoder that passes its input on: features are then whatever a test gives as images."""
    return lambda: (nn.Identity(), width)


def batch_of(
    x: Tensor,
    u: Tensor,
    y: Tensor | None = None,
    step: int = 0,
    strong: Tensor | None = None,
    weak: Tensor | None = None,
):
    """Vectors as a step's batch, the first samples of each domain in their order; `weak` are views of labeled ones."""
    labels = torch.zeros(len(x), dtype=torch.long) if y is None else y
    weak = torch.full_like(x, torch.nan) if weak is None else weak
    labeled = SimpleNamespace(weak=weak, labeled_view=x, y=labels, rows=torch.arange(len(x)))
    unlabeled = SimpleNamespace(weak=u, strong=u if strong is None else strong, rows=torch.arange(len(u)))
    return SimpleNamespace(labeled=labeled, all_labeled=labeled, unlabeled=unlabeled, step=torch.tensor(step))


@some
@given(seed=seeds, batch=sizes, classes=sizes, temperature=st.floats(0.5, 5))
def test_class_confusion_against_skada_pytorch_adapt_and_a_loop(seed, batch, classes, temperature, skada, layers):
    logits = draw(seed, batch, classes).requires_grad_()
    found = mcc.class_confusion(logits, temperature)
    close(found, skada.losses.mcc_loss(logits, T=temperature, eps=1e-5))
    # Its own entropy lacks the authors' 1e-5 in the logarithm: first with it, then as it comes.
    normalise = layers.SumNormalizer(scale_by_batch_size=True)
    theirs = layers.MCCLoss(
        temperature, lambda p: normalise(1 + (-layers.entropy_loss.entropy_after_softmax(p, eps=1e-5)).exp())
    )(logits)
    close(found, theirs)
    close(found, layers.MCCLoss(temperature)(logits), 1e-4)
    close(*(torch.autograd.grad(loss, logits, retain_graph=True)[0] for loss in (found, theirs)))
    close(found, confusion_loop(logits.detach(), temperature))


def confusion_loop(logits: Tensor, temperature: float) -> float:
    batch, classes = logits.shape
    p = (logits / temperature).softmax(1).tolist()
    certainty = [1 + math.exp(sum(v * math.log(v + 1e-5) for v in row)) for row in p]
    weight = [batch * c / sum(certainty) for c in certainty]
    total = 0.0
    for c in range(classes):
        row = [sum(weight[i] * p[i][c] * p[i][d] for i in range(batch)) for d in range(classes)]
        total += sum(row[d] / sum(row) for d in range(classes) if d != c)
    return total / classes


def test_a_class_that_nobody_believes_in_confuses_nothing():
    logits = draw(0, 6, 4).index_fill(1, torch.tensor(2), -1e6).requires_grad_()
    loss = mcc.class_confusion(logits, 2.5)
    loss.backward()
    assert loss.isfinite() and logits.grad.isfinite().all()
    close(loss, mcc.class_confusion(logits.detach()[:, [0, 1, 3]], 2.5) * 3 / 4)


def test_confusion_is_highest_for_guesses_and_gone_for_certainty():
    close(mcc.class_confusion(torch.zeros(6, 4), 2.5), 3 / 4)
    close(mcc.class_confusion(1e3 * torch.eye(4), 2.5), 0.0)


def make_cdan(width: int, classes: int, seed: int = 0, **knobs) -> cdan.CDAN:
    torch.manual_seed(seed)
    params = cdan.CDANParams(bottleneck=0, discriminator_dropout=True, **knobs)
    return cdan.CDAN(encoder(width), params, Task(classes, 4, 4), Settings()).eval()


def adversarial_loss(method: cdan.CDAN, x: Tensor, u: Tensor, step: int) -> Tensor:
    return method.step(batch_of(x, u, step=step)).terms["adversarial"]


@some
@given(seed=seeds, batch=sizes, classes=sizes, width=sizes)
def test_the_multilinear_map_against_skada_and_a_loop(seed, batch, classes, width, skada):
    method = make_cdan(width, classes)
    f, g = draw(seed, batch, width), draw(seed + 1, batch, classes).softmax(1)
    found = method.multilinear(f, g)
    expected = [[g[i, c] * f[i, d] for c in range(classes) for d in range(width)] for i in range(batch)]
    close(found, expected)
    beside = nn.Sequential(OrderedDict(f=nn.Identity(), g=_Beside(g)))
    close(found, skada.adversarial.CDANModule(beside, "f", nn.Identity())(f)[1])


class _Beside(nn.Module):
    """A head with these predictions, whatever the features."""

    def __init__(self, predictions: Tensor) -> None:
        super().__init__()
        self.predictions = predictions

    def forward(self, _: Tensor) -> Tensor:
        return self.predictions


@some
@given(seed=seeds, batch=sizes, classes=sizes, width=sizes, d=st.integers(1, 12))
def test_the_randomised_map_against_skada_pytorch_adapt_and_a_loop(seed, batch, classes, width, d, skada, layers):
    method = make_cdan(width, classes, randomized=d).double()
    by_feature, by_class = method.random_features, method.random_classes
    assert by_feature.shape == (width, d) and by_class.shape == (classes, d)
    assert {"random_features", "random_classes"} <= method.state_dict().keys()  # drawn once, kept in checkpoints
    f, g = draw(seed, batch, width), draw(seed + 1, batch, classes).softmax(1)
    found = method.multilinear(f, g)

    def entry(i: int, k: int) -> float:
        of_f = sum(float(f[i, j] * by_feature[j, k]) for j in range(width))
        return of_f * sum(float(g[i, c] * by_class[c, k]) for c in range(classes)) / math.sqrt(d)

    close(found, [[entry(i, k) for k in range(d)] for i in range(batch)])
    theirs = layers.RandomizedDotProduct([width, classes], d)
    theirs.set_rand_mat(0, by_feature)
    theirs.set_rand_mat(1, by_class)
    close(found, theirs(f, g))
    random_layer = skada.adversarial._RandomLayer(0, [width, classes], d)
    random_layer.random_matrix = [by_feature, by_class]
    close(found, random_layer([f, g]))


@pytest.mark.parametrize(("step", "value"), [(0, 0), (1000, 0.46), (5000, 0.987), (10_000, 0.9999)])
def test_the_reversal_rises_as_published(step, value):
    coefficient = float(cdan.reversal_coefficient(torch.tensor(step), 10_000))
    assert coefficient == pytest.approx(value, abs=5e-3 if step == 1000 else 5e-4)
    assert coefficient == pytest.approx(2 / (1 + math.exp(-step / 1000)) - 1)


@some
@given(seed=seeds, coefficient=st.floats(0, 2))
def test_gradients_are_reversed_and_values_are_not(seed, coefficient):
    x = draw(seed, 4, 3).requires_grad_()
    reversed_ = cdan.reverse_gradient(x, coefficient)
    assert torch.equal(reversed_, x)
    (reversed_**2).sum().backward()
    close(x.grad, -coefficient * 2 * x.detach())


def test_reversal_against_pytorch_adapt(layers):
    x = draw(0, 4, 3).requires_grad_()
    for reverse in (lambda x: cdan.reverse_gradient(x, 0.3), layers.GradientReversal(0.3)):
        gradient = torch.autograd.grad(reverse(x).pow(3).sum(), x)[0]
        close(gradient, -0.3 * 3 * x.detach() ** 2)


@some
@given(seed=seeds, batch=st.tuples(sizes, sizes), classes=sizes, width=sizes)
def test_the_plain_adversarial_loss(seed, batch, classes, width, skada):
    """Against a loop, and, for batches of one size, skada's sum of the two domains' means (ours is their mean)."""
    method = make_cdan(width, classes, seed % 1000)
    x, u = draw(seed, batch[0], width).float(), draw(seed + 1, batch[1], width).float()
    found = adversarial_loss(method, x, u, 1000)
    d_labeled, d_unlabeled = (discriminate(method, part) for part in (x, u))
    loop = [-math.log(p) for p in d_labeled.tolist()] + [-math.log(1 - p) for p in d_unlabeled.tolist()]
    close(found, sum(loop) / len(loop))
    if batch[0] == batch[1]:
        theirs = skada.adversarial.CDANLoss()(1 - d_labeled, 1 - d_unlabeled, x, u)  # its 1 is our 0
        close(2 * found, theirs)


def discriminate(method: cdan.CDAN, x: Tensor) -> Tensor:
    """D's probability of the labeled domain, from the discriminator's input spelt out."""
    g = method.network.head(x).softmax(1)
    joint = torch.stack([torch.outer(g[i], x[i]).flatten() for i in range(len(x))])
    return method.discriminator(joint).sigmoid().squeeze(1)


@some
@given(seed=seeds, batch=sizes, classes=sizes, width=sizes, kind=st.sampled_from(["official", "tllib"]))
def test_the_entropy_conditioned_loss_against_a_loop(seed, batch, classes, width, kind):
    method = make_cdan(width, classes, seed % 1000, entropy=kind)
    domains = draw(seed, batch, width).float(), draw(seed + 1, batch, width).float()
    weights, losses = [], []
    for domain, x in enumerate(domains):
        guess, g = discriminate(method, x).tolist(), method.network.head(x).softmax(1).tolist()
        own = [1 + math.exp(sum(v * math.log(v + 1e-5) for v in row)) for row in g]
        weights += [w / sum(own) for w in own] if kind == "official" else own
        losses += [-math.log(1 - p if domain else p) for p in guess]
    expected = sum(w * x for w, x in zip(weights, losses, strict=True)) / sum(weights)
    close(adversarial_loss(method, *domains, 2000), expected)


@some
@given(seed=seeds, batch=sizes, classes=sizes)
def test_entropy_weights_against_pytorch_adapt(seed, batch, classes, layers):
    g = draw(seed, 2 * batch, classes).softmax(1)
    weigh = layers.EntropyWeights(after_softmax=True, normalizer=layers.SumNormalizer(scale_by_batch_size=True))
    close(cdan.entropy_weights(g, batch, "tllib", 1.0), weigh(g), 1e-4)  # its logarithm lacks our 1e-5
    per_domain = torch.cat([weigh(g[:batch]), weigh(g[batch:])])
    close(cdan.entropy_weights(g, batch, "official", 1.0), per_domain, 1e-4)


@pytest.mark.parametrize("kind", ["none", "official", "tllib"])
def test_which_way_the_adversarial_gradients_flow(kind):
    """D descends at full strength; the features ascend, scaled by the coefficient; predictions are conditions.

    With the official entropy weights the head is pushed too, reversed; through the map it never is.
    """
    method = make_cdan(5, 3, entropy=kind)
    x, u = (draw(seed, 6, 5).float().requires_grad_() for seed in (1, 2))
    step, coefficient = 1000, float(cdan.reversal_coefficient(torch.tensor(1000), 10_000))
    found = torch.autograd.grad(
        adversarial_loss(method, x, u, step),
        [method.discriminator[0].weight, x, method.network.head.weight],
        allow_unused=True,
    )

    both = torch.cat([x, u])
    g = method.network.head(both).softmax(1)
    joint = torch.einsum("ic,id->icd", g.detach(), both).flatten(1)
    truth = torch.tensor([1.0] * 6 + [0.0] * 6)
    per_sample = F.binary_cross_entropy_with_logits(method.discriminator(joint)[:, 0], truth, reduction="none")
    certainty = 1 + (g * (g + 1e-5).log()).sum(1).exp()
    share = {
        "none": torch.full((12,), 1 / 12),
        "official": certainty / certainty.detach().view(2, 6).sum(1).repeat_interleave(6) / 2,
        "tllib": (certainty / certainty.sum()).detach(),
    }[kind]
    expected = torch.autograd.grad(
        (share * per_sample).sum(), [method.discriminator[0].weight, x, method.network.head.weight], allow_unused=True
    )
    close(found[0], expected[0])
    close(found[1], -coefficient * expected[1])
    if kind == "official":
        close(found[2], -coefficient * expected[2])
    else:
        assert found[2] is None and expected[2] is None


def counts_of(learnt: list[int], classes: int) -> Tensor:
    """How many samples have no class yet, and how many each class has."""
    return torch.tensor([sum(s == c for s in learnt) for c in range(-1, classes)], dtype=torch.float32)


def thresholds_loop(learnt: list[int], classes: int, tau: float, warm_up: bool) -> list[float]:
    sigma = [sum(s == c for s in learnt) for c in range(classes)]
    if not any(sigma):
        return [0.0] * classes
    most = max(*sigma, sum(s == -1 for s in learnt)) if warm_up else max(sigma)
    beta = [s / most for s in sigma]
    return [tau * b / (2 - b) for b in beta]


@some
@given(learnt=st.lists(st.integers(-1, 4), min_size=1, max_size=40), tau=st.floats(0.1, 1), warm_up=st.booleans())
def test_curriculum_thresholds_against_a_loop(learnt, tau, warm_up):
    found = flexmatch.curriculum_thresholds(counts_of(learnt, 5), tau, warm_up)
    close(found.double(), thresholds_loop(learnt, 5, tau, warm_up))


@pytest.mark.parametrize(
    ("learnt", "warm_up", "expected"),
    [
        ([-1] * 6, True, [0, 0, 0]),
        ([-1] * 6, False, [0, 0, 0]),
        ([0, -1, -1, -1], True, [0.95 * (1 / 3) / (2 - 1 / 3), 0, 0]),
        ([0, -1, -1, -1], False, [0.95, 0, 0]),
        ([0, 0, 1, 2, 2, -1], True, [0.95, 0.95 * 0.5 / 1.5, 0.95]),
    ],
)
def test_curriculum_thresholds_by_hand(learnt, warm_up, expected):
    close(flexmatch.curriculum_thresholds(counts_of(learnt, 3), 0.95, warm_up), expected)


def test_flexmatch_learns_a_sample_when_it_passes_the_fixed_threshold_and_never_forgets_it():
    params = flexmatch.FlexMatchParams(threshold=0.8, bottleneck=0)
    method = flexmatch.FlexMatch(encoder(3), params, Task(3, 4, 5), Settings())
    assert method.learnt.tolist() == [-1] * 5
    method.observe(torch.tensor([1, 3, 4]), torch.tensor([0.81, 0.79, 0.95]), torch.tensor([2, 0, 1]))
    assert method.learnt.tolist() == [-1, 2, -1, -1, 1]
    method.observe(torch.tensor([1, 3, 4]), torch.tensor([0.5, 0.9, 0.99]), torch.tensor([0, 0, 2]))
    assert method.learnt.tolist() == [-1, 2, -1, 0, 2]
    assert torch.equal(method.counts, counts_of(method.learnt.tolist(), len(method.counts) - 1))


@some
@given(seed=seeds, flexible=st.booleans())
def test_the_masked_loss_against_a_loop(seed, flexible):
    """Sections 3 and 4: divided by all unlabeled samples, thresholds from the state before this step."""
    kind = flexmatch.FlexMatch if flexible else flexmatch.FixMatch
    torch.manual_seed(seed % 1000)
    method = kind(encoder(4), kind.Params(threshold=0.6, bottleneck=0, lambda_u=2.0), Task(3, 6, 8), Settings())
    learnt = torch.randint(-1, 3, (8,))
    if flexible:
        method.learnt.copy_(learnt)
        method.counts.copy_(counts_of(learnt.tolist(), 3))
    x, weak, strong = (draw(seed + i, n, 4, scale=1.5).float() for i, n in enumerate((6, 8, 8)))
    y = torch.arange(6) % 3
    taus = thresholds_loop(learnt.tolist(), 3, 0.6, True) if flexible else [0.6] * 3
    losses = method.step(batch_of(x, weak, y, strong=strong))
    q, p, p_labeled = (method.network.head(v).softmax(1).tolist() for v in (weak, strong, x))
    pseudo = sum(-math.log(p[i][q[i].index(max(q[i]))]) for i in range(8) if max(q[i]) > taus[q[i].index(max(q[i]))])
    labeled = sum(-math.log(p_labeled[i][y[i]]) for i in range(6)) / 6
    close(losses.terms["labeled"], labeled)
    close(losses.terms["pseudo"], pseudo / 8)
    close(losses.total(), labeled + 2 * pseudo / 8)


@some
@given(seed=seeds, batch=sizes, classes=sizes, slots=st.integers(1, 12), alpha=st.floats(0, 1))
def test_propagation_against_a_loop(seed, batch, classes, slots, alpha):
    p = draw(seed, batch, classes).softmax(1)
    w = draw(seed + 1, batch, slots).softmax(1)
    labels = torch.randint(classes, (slots,), generator=torch.Generator().manual_seed(seed))
    pseudo, instance = simmatch.propagate(p, w, labels, alpha)
    for i in range(batch):
        v = [sum(float(w[i, j]) for j in range(slots) if labels[j] == c) for c in range(classes)]
        close(pseudo[i], [alpha * float(p[i, c]) + (1 - alpha) * v[c] for c in range(classes)])
        unfolded = [float(w[i, j] * p[i, labels[j]]) for j in range(slots)]
        close(instance[i], [value / sum(unfolded) for value in unfolded])


def make_simmatch(classes: int = 3, labeled: int = 5, **knobs) -> simmatch.SimMatch:
    torch.manual_seed(0)
    params = simmatch.SimMatchParams(projection=4, **knobs)
    return simmatch.SimMatch(encoder(6), params, Task(classes, labeled, 8), Settings())


def test_alignment_divides_by_the_mean_of_the_last_batches():
    """A zero-initialised queue needs no correction, since rows are normalised; the oldest batch is overwritten."""
    method = make_simmatch(queue=3)
    past: list[list[float]] = []
    for step in range(7):
        p = draw(step, 4, 3).softmax(1).float()
        past.append([sum(float(row[c]) for row in p) / 4 for c in range(3)])
        recent = past[-3:]
        mean = [sum(row[c] for row in recent) / len(recent) for c in range(3)]
        ratios = [[float(row[c]) / mean[c] for c in range(3)] for row in p]
        close(method._aligned(p, torch.tensor(step)), [[r / sum(row) for r in row] for row in ratios])
    unaligned = make_simmatch(align=False)
    assert torch.equal(unaligned._aligned(p, torch.tensor(0)), p) and not unaligned.means.any()


def test_alignment_survives_a_class_that_nobody_believes_in():
    ratios = torch.tensor([[0.5 / 0.375, 0.5 / 0.625, 0], [0.25 / 0.375, 0.75 / 0.625, 0]])
    aligned = make_simmatch()._aligned(torch.tensor([[0.5, 0.5, 0], [0.25, 0.75, 0]]), torch.tensor(0))
    close(aligned, ratios / ratios.sum(1, keepdim=True))


@pytest.mark.parametrize("threshold", [0.0, 0.5])
def test_a_simmatch_step_against_section_5(threshold):
    method = make_simmatch(threshold=threshold, align=False, teacher_ema=0.5, temperature=0.2, smoothing=0.7)
    for parameter in method.teacher.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)  # the teacher is another network
    x, weak, strong, x_weak = (draw(i, n, 6, scale=1.0).float() for i, n in enumerate((5, 8, 8, 5)))
    y = torch.tensor([0, 1, 2, 0, 1])
    first = method.step(batch_of(x, weak, y, strong=strong, weak=x_weak))
    network, projector = method.teacher.network

    def unit(projector: nn.Module, x: Tensor) -> Tensor:
        return F.normalize(projector(x), dim=1)

    p = network.head(weak).softmax(1)
    trusted = p.amax(1) >= threshold
    student = method.network.head(strong).log_softmax(1)
    close(first.terms["pseudo"], -(p * student).sum(1)[trusted].sum() / 8)  # the bank is not full: p as it is
    assert first.terms["instance"] == 0
    keys = unit(projector, x_weak)
    method.after_step()
    assert torch.allclose(method.bank, keys) and method.bank_labels.tolist() == y.tolist()

    network, projector = method.teacher.network  # after its update
    second = method.step(batch_of(x, weak, y, strong=strong, weak=x_weak))
    p = network.head(weak).softmax(1)
    w = (unit(projector, weak) @ keys.T / 0.2).softmax(1)
    s = (unit(method.projector, strong) @ keys.T / 0.2).log_softmax(1)
    pseudo, instance = simmatch.propagate(p, w, y, 0.7)
    trusted = pseudo.amax(1) >= threshold
    close(second.terms["labeled"], F.cross_entropy(method.network.head(x), y))
    close(second.terms["pseudo"], -(pseudo * student).sum(1)[trusted].sum() / 8)
    close(second.terms["instance"], -(instance * s).sum(1).mean())
    terms = second.terms
    close(second.total(), terms["labeled"] + 10 * terms["pseudo"] + 5 * terms["instance"])


def test_the_average_follows_parameters_and_copies_buffers():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    average = EMA(network, 0.9)
    expected = [p.detach().clone() for p in network.parameters()]
    assert not any(p.requires_grad for p in average.parameters())
    for step in range(4):
        with torch.no_grad():
            for p in network.parameters():
                p += torch.randn_like(p)
        network(draw(step, 8, 3).float())
        average.update(network)
        expected = [0.9 * old + 0.1 * p.detach() for old, p in zip(expected, network.parameters(), strict=True)]
    for found, value in zip(average.network.parameters(), expected, strict=True):
        close(found.detach(), value)
    for found, live in zip(average.network.buffers(), network.buffers(), strict=True):
        assert torch.equal(found, live)
    average.copy_to(network)
    for found, value in zip(network.parameters(), expected, strict=True):
        close(found.detach(), value)


@some
@given(seed=seeds, first=sizes, second=sizes, width=sizes)
def test_mmd_against_a_loop(seed, first, second, width):
    a, b = draw(seed, first, width), draw(seed + 1, second, width)
    both = torch.cat([a, b]).tolist()
    n = len(both)
    squared = [[sum((x - y) ** 2 for x, y in zip(i, j, strict=True)) for j in both] for i in both]
    s = sum(map(sum, squared)) / (n**2 - n) / 4

    def mean_kernel(rows: range, columns: range) -> float:
        values = [sum(math.exp(-squared[i][j] / (s * 2**k)) for k in range(5)) for i in rows for j in columns]
        return sum(values) / len(values)

    labeled, unlabeled = range(first), range(first, n)
    within = mean_kernel(labeled, labeled) + mean_kernel(unlabeled, unlabeled)
    close(biadapt.mmd(a, b), within - mean_kernel(labeled, unlabeled) - mean_kernel(unlabeled, labeled))


def test_mmd_holds_its_scale_constant_and_is_nothing_for_equal_batches():
    a, b = draw(0, 5, 3).requires_grad_(), draw(1, 6, 3)
    both = torch.cat([a, b])
    distances = (both[:, None] - both[None]).square().sum(2)
    s = distances.detach().sum() / (11 * 10) / 4
    kernel = sum((-distances / (s * 2**k)).exp() for k in range(5))
    expected = kernel[:5, :5].mean() + kernel[5:, 5:].mean() - 2 * kernel[:5, 5:].mean()
    close(*(torch.autograd.grad(loss, a, retain_graph=True)[0] for loss in (biadapt.mmd(a, b), expected)))
    close(biadapt.mmd(b, b), 0.0)
    alike = torch.ones(4, 3, requires_grad=True)
    biadapt.mmd(alike, torch.ones(4, 3)).backward()
    assert alike.grad.isfinite().all()


@some
@given(seed=seeds, first=sizes, second=sizes, width=st.integers(2, 9))
def test_coral_against_skada_and_pytorch_adapt(seed, first, second, width, skada, layers):
    a, b = draw(seed, first, width), draw(seed + 1, second, width)
    close(biadapt.coral(a, b), skada.losses.deepcoral_loss(a, b))
    close(biadapt.coral(a, b), layers.CORALLoss()(a, b))


@some
@given(
    labels=st.lists(st.integers(0, 3), min_size=1, max_size=30),
    pseudo=st.lists(st.integers(0, 3), min_size=1, max_size=30),
)
def test_class_weights_against_a_loop(labels, pseudo):
    expected = [
        (labels.count(c) / len(labels)) / (max(pseudo.count(c), 1) / len(pseudo)) for c in range(4)
    ]  # no pseudo-label of a class counts as one
    close(biadapt.class_weights(torch.tensor(labels), torch.tensor(pseudo), 4), expected)


def make_biadapt(**knobs) -> biadapt.BiAdapt:
    torch.manual_seed(0)
    return biadapt.BiAdapt(encoder(4), biadapt.BiAdaptParams(bottleneck=0, **knobs), Task(3, 6, 8), Settings())


@some
@given(data=st.lists(st.lists(st.tuples(st.floats(0.01, 1), st.integers(0, 2)), min_size=1, max_size=6), max_size=5))
def test_sample_weights_against_a_loop(data):
    """Cumulative means over everything seen so far, this batch with it; mean 1 over the batch."""
    method = make_biadapt()
    seen: list[tuple[float, int]] = []
    for batch in data:
        seen += batch
        overall = sum(r for r, _ in seen) / len(seen)
        of_class = {c: [r for r, k in seen if k == c] for c in range(3)}
        omega = [r * overall / (sum(of_class[c]) / len(of_class[c])) for r, c in batch]
        belief, hard = torch.tensor([r for r, _ in batch]), torch.tensor([c for _, c in batch])
        found = method._sample_weights(belief, hard)
        close(found, [o / (sum(omega) / len(omega)) for o in omega])
        close(found.mean(), 1.0)


def test_a_step_back_against_section_8():
    method = make_biadapt(lambda_s=0.3)
    soft = draw(3, 8, 3).softmax(1).float()
    method.soft_labels.copy_(soft)
    kappa = torch.tensor([0.5, 1.0, 2.0])
    method.class_weights.copy_(kappa)
    x, u, y = draw(1, 6, 4).float(), draw(2, 8, 4).float(), torch.arange(6) % 3
    losses = method.come_back(batch_of(x, u, y))
    p, hard = method.network.head(u).softmax(1), soft.argmax(1)
    r = p[torch.arange(8), hard].detach()
    omega = torch.stack([r[i] * r.mean() / r[hard == hard[i]].mean() for i in range(8)])
    omega = omega / omega.mean()
    pseudo = sum(-omega[i] * kappa[hard[i]] * (soft[i] * p[i].log()).sum() for i in range(8)) / 8
    close(losses.terms["pseudo"], pseudo)
    close(losses.total(), F.cross_entropy(method.network.head(x), y) + 0.3 * pseudo)
    gradients = [torch.autograd.grad(v, method.network.head.weight)[0] for v in (losses.terms["pseudo"], pseudo)]
    close(*gradients)  # weights are constants


@pytest.mark.parametrize("transfer", ["mmd", "coral", "adv"])
def test_a_step_there_against_section_8(transfer):
    method = make_biadapt(transfer=transfer, lambda_t=0.7).eval()
    x, u, y = draw(1, 6, 4).float(), draw(2, 6, 4).float(), torch.arange(6) % 3
    losses = method.adapt(batch_of(x, u, y, step=500))
    truth = torch.tensor([1.0] * 6 + [0.0] * 6).unsqueeze(1)
    expected = {
        "mmd": lambda: biadapt.mmd(x, u),
        "coral": lambda: biadapt.coral(x, u),
        "adv": lambda: F.binary_cross_entropy_with_logits(method.discriminator(torch.cat([x, u])), truth),
    }[transfer]()
    close(losses.terms["transfer"], expected)
    close(losses.total(), F.cross_entropy(method.labeler.head(x), y) + 0.7 * expected)


@pytest.mark.parametrize("joint", [True, False])
def test_domains_share_their_batch_statistics_or_do_not(joint):
    """BiAdapt's first stage passes them separately; CDAN and FixMatch as their knob says."""

    def normalising():
        return nn.BatchNorm1d(4, affine=False), 4

    x, u, strong = (draw(seed, 6, 4).float() + seed for seed in (1, 2, 3))
    batch, task = batch_of(x, u, torch.arange(6) % 3, strong=strong), Task(3, 6, 6)

    def normalised(*parts: Tensor) -> list[Tensor]:
        groups = [torch.cat(parts)] if joint else parts
        return list(torch.cat([F.batch_norm(g, None, None, training=True) for g in groups]).split(6))

    method = cdan.CDAN(
        normalising, cdan.CDANParams(bottleneck=0, batch_norm="joint" if joint else "separate"), task, Settings()
    )
    labeled = method.network.head(normalised(x, u)[0])
    close(method.step(batch).terms["labeled"], F.cross_entropy(labeled, batch.labeled.y))
    params = flexmatch.FixMatchParams(threshold=0.0, bottleneck=0, batch_norm="joint" if joint else "separate")
    method = flexmatch.FixMatch(normalising, params, task, Settings())
    labeled, weak, hard = (method.network.head(part) for part in normalised(x, u, strong))
    terms = method.step(batch).terms
    close(terms["labeled"], F.cross_entropy(labeled, batch.labeled.y))
    close(terms["pseudo"], F.cross_entropy(hard, weak.argmax(1)))
    if not joint:
        method = biadapt.BiAdapt(normalising, biadapt.BiAdaptParams(bottleneck=0), task, Settings())
        close(method.adapt(batch).terms["transfer"], biadapt.mmd(*normalised(x, u)))


def test_running_statistics_are_kept_while_the_batch_normalises():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(3, 4), nn.BatchNorm1d(4, momentum=0.3), nn.ReLU(), nn.BatchNorm1d(4, momentum=None)
    )
    for seed in range(3):
        network(draw(seed, 8, 3).float())
    before = {name: value.clone() for name, value in network.named_buffers() if "running" in name}
    x = draw(9, 8, 3).float() + 5
    with biadapt.keep_running_statistics(network):
        inside = network(x)
    for name, value in before.items():
        assert torch.equal(network.get_buffer(name), value), name
    hidden = network[0](x)
    normal = (hidden - hidden.mean(0)) / (hidden.var(0, correction=0) + 1e-5).sqrt()
    rectified = normal.relu()
    close(inside, (rectified - rectified.mean(0)) / (rectified.var(0, correction=0) + 1e-5).sqrt(), 1e-4)
    assert [network[1].momentum, network[3].momentum] == [0.3, None]
    with pytest.raises(ZeroDivisionError), biadapt.keep_running_statistics(network):
        raise ZeroDivisionError
    assert [network[1].momentum, network[3].momentum] == [0.3, None]
    network(x)
    assert not any(torch.equal(network.get_buffer(name), value) for name, value in before.items())

"""What every method in the registry must do, whatever it is: learn, stop and resume, be saved, stay finite."""

import ast
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import unihssl
from unihssl import methods
from unihssl.config import Settings, knob_fields
from unihssl.data.batches import PairedData, TrainingDomain
from unihssl.data.store import Store
from unihssl.data.views import Views
from unihssl.evaluation.model import Model
from unihssl.methods.base import Task
from unihssl.methods.recipe import resolve
from unihssl.models.backbones import EncoderFactory
from unihssl.run_folder import RunFolder
from unihssl.training.loop import Trainer

KNOBS = {"backbone": "small_cnn", "device": "cpu", "batch_size": 16, "lr": 0.02, "sup_lr": 0.02}
KNOBS |= {"epochs": 12, "sup_epochs": 12, "pretrain_epochs": 6, "router_epochs": 8}
KNOBS |= {"test_fraction": 0.25, "log_every": 1, "checkpoint_seconds": 0, "tensorboard": False}


def patches(count: int, seed: int, contrast: float, brightness: float) -> tuple[np.ndarray, np.ndarray]:
    """Noisy patches of three colours, `count` of each; contrast and brightness are the domain."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), count)
    noise = rng.normal(scale=40, size=(3 * count, 12, 12, 3)) + rng.normal(scale=12, size=(3 * count, 1, 1, 3))
    x = contrast * (90 + 60 * np.eye(3)[y][:, None, None] + noise) + brightness
    return np.clip(x, 0, 255).astype(np.uint8), np.array(["red", "green", "blue"])[y]


CASES = [(name, {}) for name in methods.available()]
CASES += [  # options with a memory, a network or random draws of their own
    ("fixmatch", {"ema": 0.9, "batch_norm": "joint"}),
    ("cdan", {"entropy": "official", "randomized": 16, "discriminator_dropout": True}),
    ("cdan", {"entropy": "tllib", "batch_norm": "separate"}),
    ("biadapt", {"transfer": "coral"}),
    ("biadapt", {"transfer": "adv"}),
    ("mcc+sup", {"router": "frozen"}),
    ("unihssl", {"preset": "paper"}),
    ("unihssl", {"sampling": "shuffle", "unlabeled_sampling": "shuffle"}),
]
every_case = {"argvalues": CASES, "ids": ["-".join([name, *map(str, knobs.values())]) for name, knobs in CASES]}
LABELED, UNLABELED = patches(24, 0, 1.0, 0), patches(24, 1, 0.7, 50)


@dataclass(frozen=True)
class Run:
    name: str
    knobs: dict
    folder: Path
    model: Model

    @property
    def rows(self) -> list[dict]:
        """The log, less what depends on the clock."""
        return [
            {k: v for k, v in row.items() if k != "images_per_second"} for row in RunFolder(self.folder).read_metrics()
        ]

    @property
    def stages(self) -> list[list[dict]]:
        names = dict.fromkeys(row["stage"] for row in self.rows)
        return [[row for row in self.rows if row["stage"] == name] for name in names]


def train(name: str, folder: Path, resume: bool = False, **more) -> Run:
    known = knob_fields(Settings, methods.get(name).Params)
    knobs = {knob: value for knob, value in KNOBS.items() if knob in known}
    return Run(name, more, folder, unihssl.fit(LABELED, UNLABELED, folder, method=name, **knobs | more, resume=resume))


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=every_case["argvalues"], ids=every_case["ids"])
def run(request, tmp_path_factory) -> Run:
    name, knobs = request.param
    return train(name, tmp_path_factory.mktemp("run") / name, **knobs)


def test_it_learns(run):
    for rows in run.stages:
        losses = [row["terms"].get("labeled", row["loss"]) for row in rows]
        first, last = np.mean(losses[:4]), np.mean(losses[-4:])
        frozen = (
            run.knobs.get("router") == "frozen" and "domain" in rows[0]["terms"]
        )  # on features that were never trained
        # Pre-trained, and now told apart by domain as well. Strong views, of half of the samples, hide some colours:
        # guessing among three of them would be 1.1.
        kept = run.name == "unihssl" and "preset" not in run.knobs and rows[0]["stage"] == "adapt"
        assert frozen or last < (0.7 if kept else 0.5 * first), (rows[0]["stage"], first, last)
        assert all(np.isfinite(v) for row in rows for v in [*row["terms"].values(), *row["stats"].values()])
    result = run.model.result
    assert result["pooled"]["n"] == 36 and result["pooled"]["accuracy"] >= 0.8
    assert min(result[part]["accuracy"] for part in ("labeled", "unlabeled")) >= 0.7


def test_a_saved_model_says_the_same(run, tmp_path):
    run.model.save(tmp_path / "saved")
    for x in (LABELED[0], UNLABELED[0]):
        expected = run.model.predictions(x)
        np.testing.assert_allclose(run.model.predict_proba(x).sum(1), 1, atol=1e-5)
        for folder in (tmp_path / "saved", run.folder):
            found = unihssl.load(folder).predictions(x)
            assert found.probabilities.keys() == expected.probabilities.keys()
            for rule, probabilities in expected.probabilities.items():
                assert np.array_equal(found.probabilities[rule], probabilities)
            if expected.unlabeled_domain is not None:
                assert np.array_equal(found.unlabeled_domain, expected.unlabeled_domain)


class KilledError(Exception):
    pass


def interrupt(monkeypatch, stage: int, step: int, error: type[BaseException]) -> None:
    """Once this step is done, ask the run to save and stop, or kill it before it can save."""
    take_step = Trainer._step

    def take_step_and_end(trainer: Trainer, index: int, number: int) -> None:
        take_step(trainer, index, number)
        if (index, number + 1) == (stage, step):
            if error is KilledError:
                raise KilledError
            trainer.guard.requested = True

    monkeypatch.setattr(Trainer, "_step", take_step_and_end)


def test_interrupted_anywhere_it_ends_the_same(run, tmp_path, monkeypatch):
    """In each stage: stopped in mid-epoch, killed some steps later (losing those), stopped after the last step."""
    rng = np.random.default_rng(zlib.crc32(run.name.encode()))
    again = tmp_path / "again"
    for stage, total in enumerate(len(rows) for rows in run.stages):
        stop, kill = np.sort(rng.choice(np.arange(1, total), 2, replace=False))
        for step, error in ((stop, KeyboardInterrupt), (kill, KilledError), (total, KeyboardInterrupt)):
            with monkeypatch.context() as patch, pytest.raises(error):
                interrupt(patch, stage, step, error)
                train(run.name, again, resume=True, **run.knobs)
    resumed = train(run.name, again, resume=True, **run.knobs)
    assert (again / "model.safetensors").read_bytes() == (run.folder / "model.safetensors").read_bytes()
    assert resumed.rows == run.rows and resumed.model.result == run.model.result


def test_averaged_weights_are_the_ones_that_predict(tmp_path):
    """An average that never moves predicts with the first weights, whatever was learnt."""
    average, still = (train("fixmatch", tmp_path / str(lr), epochs=1, lr=lr, ema=1.0) for lr in (0.02, 0.0))
    for (name, found), expected in zip(
        average.model.network.named_parameters(), still.model.network.parameters(), strict=True
    ):
        assert torch.equal(found, expected), name


@pytest.mark.parametrize("sharpness", [1, 1e3])  # at 1e3 every softmax is 0 or 1 to the last digit
@pytest.mark.parametrize(("name", "knobs"), **every_case)
def test_gradients_are_finite_in_float64(name, knobs, sharpness):
    torch.manual_seed(0)
    settings, params = resolve({"method": name, "backbone": "mlp", "batch_size": 8} | knobs)
    method = methods.get(name)(EncoderFactory("mlp", "none", 5), params, Task(3, 24, 24), settings).double()
    labels = torch.arange(24) % 3
    x, u = torch.randn(2, 24, 5, dtype=torch.float64) + 3 * torch.eye(5)[labels]
    views = Views(None, (), ())
    source = TrainingDomain(Store(x), np.arange(24), views, 8, 1, labels)
    truth = labels if method.needs_truth else None
    data = PairedData(source, TrainingDomain(Store(u), np.arange(24), views, 8, 2, truth, name="unlabeled"), 0)
    for index, stage in enumerate(method.stages()):
        method.eval()
        if stage.begin:
            stage.begin(data)
        method.train()
        heads = [m for m in method.modules() if isinstance(m, torch.nn.Linear) and m.out_features <= 6]
        for head in heads:
            head.weight.data *= sharpness
        for step in range(4):  # one more than a pass: memories are full by then
            data.reseed(index, step)
            if step == 0 and stage.each_epoch:
                stage.each_epoch(data, 0)
            data.load(index, step, step / 4)
            loss, readings = method(stage.step, data.batch())
            assert loss.dtype == torch.float64
            assert all(value.isfinite() for value in readings.values()), readings
            method.zero_grad()
            loss.backward()
            trained = [p for p in (stage.trains or method).parameters() if p.requires_grad]
            gradients = [p.grad for p in trained if p.grad is not None]
            assert len(gradients) == sum(p.grad is not None for p in method.parameters())  # none is left untrained
            assert gradients and all(g.dtype == torch.float64 and g.isfinite().all() for g in gradients)
            if sharpness == 1:
                assert any(g.abs().max() > 0 for g in gradients)
            torch.optim.SGD(trained, 1e-3).step()
            method.after_step()


SOURCE = Path(unihssl.__file__).parent
# What is compared, and its rows.
MAY_NAME_METHODS = {SOURCE / "cli" / "demo.py", SOURCE / "cli" / "compare.py", SOURCE / "experiments" / "paper.py"}


def names_in_code(tree: ast.AST) -> set[str]:
    """Every word of the code: identifiers, imported modules and strings, docstrings apart."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, documented) and _has_doc(node)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            found |= {node.value, *node.value.replace(".", " ").replace(",", " ").split()}
        for attribute in ("id", "attr", "name", "module", "arg"):
            if isinstance(getattr(node, attribute, None), str):
                found |= set(getattr(node, attribute).split("."))
    return found


def _has_doc(node: ast.AST) -> bool:
    return bool(node.body) and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)


def asks_for_a_method(tree: ast.AST, names: set[str]) -> bool:
    """Whether a comparison, a dict's keys, a subscript or a match has one of these strings."""

    def has(*nodes: ast.AST | None) -> bool:
        inner = [n for node in nodes if node for n in ast.walk(node)]
        return any(isinstance(n, ast.Constant) and n.value in names for n in inner)

    return any(
        (isinstance(node, ast.Compare) and has(node.left, *node.comparators))
        or (isinstance(node, ast.Dict) and has(*node.keys))
        or (isinstance(node, ast.Subscript) and has(node.slice))
        or (isinstance(node, ast.match_case) and has(node.pattern))
        for node in ast.walk(tree)
    )


def test_no_method_is_named_outside_its_room():
    """`unihssl` and `oracle` are words of their own as well, so these only must not decide anything."""
    names = set(methods.available())
    assert {"unihssl", "supervised"} <= names
    others = [p for p in SOURCE.rglob("*.py") if SOURCE / "methods" not in p.parents and p not in MAY_NAME_METHODS]
    assert len(others) > 20
    for path in others:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not names_in_code(tree) & (names - {"unihssl", "oracle"}), path
        assert not asks_for_a_method(tree, {"unihssl"}), path

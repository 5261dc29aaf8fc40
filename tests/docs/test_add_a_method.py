"""The example of docs/add-a-method.md works as printed, from a package of the user's own."""

import json
import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import unihssl
from unihssl import methods
from unihssl.data import catalog
from unihssl.experiments.designs import benchmark_runs
from unihssl.experiments.protocol import Protocol
from unihssl.methods.recipe import resolve

GUIDE = Path(__file__).parents[2] / "docs" / "add-a-method.md"


@pytest.fixture
def entropy_package(tmp_path, monkeypatch):
    code = re.search(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL).group(1)
    (tmp_path / "my_entropy.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    entry = EntryPoint("entropy", "my_entropy:EntropyMinimisation", "unihssl.methods")
    monkeypatch.setattr(methods, "entry_points", lambda group: [entry])
    methods.available.cache_clear()
    yield code
    methods.available.cache_clear()
    sys.modules.pop("my_entropy", None)


def test_the_example_trains_through_the_public_api(entropy_package, tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 30)
    x = rng.normal(size=(90, 6)) + 4 * np.eye(6)[y]
    knobs = {"method": "entropy", "lambda_entropy": 0.3, "epochs": 10, "tensorboard": False}
    model = unihssl.fit((x, y), (x + 0.5, y), out=tmp_path / "run", **knobs)
    assert model.result["pooled"]["accuracy"] > 0.8
    assert (unihssl.load(tmp_path / "run").predict(x) == model.predict(x)).all()
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["row"] == "entropy" and environment["asked"]["lambda_entropy"] == 0.3


def test_the_presets_of_another_packages_method_apply(entropy_package):
    settings, params = resolve({"method": "entropy"})
    assert (settings.preset, settings.lr, params.lambda_entropy) == ("finetune", 1e-3, 0.1)
    assert resolve({"method": "entropy", "dataset": "office-31"})[0].lr == 3e-4
    protocol = Protocol(catalog.get("office-31"))
    names = protocol.methods("entropy,entropy:certain")
    plain, certain = (resolve(run.knobs) for run in benchmark_runs(protocol, ["A/W"], names, 1))
    assert (plain[0].lr, plain[1].lambda_entropy) == (3e-4, 0.1)
    assert (certain[0].preset, certain[1].lambda_entropy) == ("certain", 1.0)
    with pytest.raises(unihssl.UserError, match="entropy has no preset 'robust': it has finetune, certain"):
        protocol.methods("entropy:robust")


def test_the_example_is_about_thirty_lines(entropy_package):
    assert len([line for line in entropy_package.splitlines() if line.strip()]) <= 32

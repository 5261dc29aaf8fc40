"""Files of a run that were damaged, or made to hurt: one line that names the file, and nothing allocated for it."""

import json
import os
import resource
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

import unihssl
from unihssl import UserError
from unihssl.evaluation.novelty import Reference
from unihssl.run_folder import RunFolder
from unihssl.tensor_files import write_tensors

FINISHED = Path(__file__).parents[1] / "fixtures" / "run-0.1.0-finished"
HUGE = 2**40
NESTED = [[[1]]]
BAD_MODELS = {
    f"{name}={value!r}"[:60]: {name: value}
    for name, values in {
        "format": [2, "1", None, NESTED],
        "method": [None, 3, "../x", NESTED],
        "params": [
            None,
            [],
            "x",
            {"bottleneck": -1},
            {"bottleneck": HUGE},
            {"bottleneck": "x"},
            {"bottleneck": NESTED},
        ],
        "classes": [None, [], "abc", 5, HUGE, NESTED, [None], [{}], ["a"] * 10, list(range(100_000))],
        "stored_size": [None, [], [16], [16, 16, 16], [-1, 16], [0, 16], [HUGE, HUGE], ["16", 16], NESTED, 16],
        "windows": [5, {"labeled": 5}, {"labeled": {"PNG": 5}}, {"labeled": {"PNG": {"low": "x", "high": [1]}}}],
        "data": [5, [1], {"labeled": NESTED}],
        "result": [5, []],
        "architecture": [None, [], "small_cnn", {}],
    }.items()
    for value in values
}
BAD_ARCHITECTURES = {
    f"{name}={value!r}"[:60]: {name: value}
    for name, values in {
        "name": [None, 5, "none_such", "mlp", NESTED],
        "side": [-1, 0, HUGE, "16", NESTED],
        "mean": [[], ["x", 0, 0], [float("nan")] * 3, 5],
        "std": [[0, 0, 0], [-1, 1, 1], None, NESTED],
        "channels": [0, -3, HUGE, "3"],
        "vector_size": [-1, 5, HUGE, "5"],
        "more": [1],
    }.items()
    for value in values
}


@pytest.fixture
def run(tmp_path):
    return RunFolder(shutil.copytree(FINISHED, tmp_path / "run"))


def refusal(run, *named):
    """What loading says; it must name one of the files."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError) as refused:
        unihssl.load(run.path)
    message = str(refused.value)
    assert "\n" not in message and str(run.path) in message and any(name in message for name in named or ("model",))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**19  # KiB
    return message


@pytest.mark.parametrize("change", BAD_MODELS.values(), ids=BAD_MODELS.keys())
def test_descriptions_of_no_model(change, run):
    run.model.write_text(json.dumps(json.loads(run.model.read_text()) | change))
    refusal(run, "model", "method")


@pytest.mark.parametrize("change", BAD_ARCHITECTURES.values(), ids=BAD_ARCHITECTURES.keys())
def test_architectures_that_cannot_be(change, run):
    saved = json.loads(run.model.read_text())
    run.model.write_text(json.dumps(saved | {"architecture": saved["architecture"] | change}))
    refusal(run)


def test_a_description_that_lacks_an_entry_says_which(run):
    saved = json.loads(run.model.read_text())
    for name in ("method", "params", "classes", "stored_size", "architecture"):
        run.model.write_text(json.dumps({key: value for key, value in saved.items() if key != name}))
        assert f"it has no {name}; use an undamaged copy" in refusal(run)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_numbers(value, run):
    weights = load_file(run.weights)
    weights["head.weight"][0, 0] = value
    save_file(weights, run.weights)
    assert "head.weight holds NaN or infinity" in refusal(run)


def test_weights_of_another_shape_are_not_loaded(run):
    save_file({"head.weight": torch.zeros(3, 5)}, run.weights)
    assert "model.safetensors does not fit its model.json" in refusal(run)


def test_pipes_in_a_run(run):
    for file in (run.model, run.weights, run.config, run.result):
        content = file.read_bytes()
        file.unlink()
        os.mkfifo(file)
        if file != run.config:  # a pipe of this name makes it no run, as it always did
            assert "not a regular file" in refusal(run, file.name)
        file.unlink()
        file.write_bytes(content)


@pytest.mark.parametrize(
    "change", [{"epochs": "many"}, {"seed": NESTED}, {"seed": 16**5000}], ids=["text", "list", "huge"]
)
def test_settings_of_another_type_name_their_file(change, run):
    run.config.write_text("".join(f"{k}: {v if type(v) is not int else hex(v)}\n" for k, v in change.items()))
    assert "config.yaml: " in refusal(run, "config.yaml")


@pytest.mark.parametrize(
    "change", [None, 5, {}, {"source": 3}, {"train": "abc"}, {"test": [1]}, {"test": None}], ids=str
)
def test_a_split_that_lacks_something(change, run):
    split = json.loads(run.split.read_text())
    split["unlabeled"] = split["unlabeled"] | change if isinstance(change, dict) and change else change
    run.split.write_text(json.dumps(split))
    with pytest.raises(UserError, match=r"split\.json: not the split of a run: .*unlabeled"):
        run.read_split()


def test_the_whole_ones_load(run):
    assert len(unihssl.load(run.path).classes_) == 10
    assert yaml.safe_load(run.config.read_text())["method"] == "unihssl"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model saved by this version, with features."""
    folder = tmp_path_factory.mktemp("saved")
    model = unihssl.load(FINISHED)
    model.reference = Reference.of(torch.rand(20, 64, generator=torch.Generator().manual_seed(0)))
    model.save(folder)
    return RunFolder(folder)


def flipped(content, seed):
    """The content with one bit changed at random."""
    random = np.random.default_rng(seed)
    changed = bytearray(content)
    changed[random.integers(len(changed))] ^= 1 << int(random.integers(8))
    return bytes(changed)


@pytest.mark.parametrize("name", ["model.safetensors", "features.safetensors"])
def test_a_changed_bit_in_the_tensors_is_noticed(name, saved, tmp_path):
    copy = RunFolder(shutil.copytree(saved.path, tmp_path / "copy"))
    whole = unihssl.load(saved.path).network.state_dict()
    content = (saved.path / name).read_bytes()
    for seed in range(60):
        (copy.path / name).write_bytes(flipped(content, seed))
        try:
            loaded = unihssl.load(copy.path).network.state_dict()
        except UserError as error:
            assert name in str(error)
        else:  # a bit of the header that says nothing, such as the name of the checksum
            assert all(torch.equal(loaded[key], whole[key]) for key in whole)


@pytest.mark.parametrize("name", ["weights", "features"])
def test_parts_of_two_models_are_not_taken_for_one(name, saved, tmp_path):
    """As a kill while a model is saved over another leaves them."""
    copy = RunFolder(shutil.copytree(saved.path, tmp_path / "copy"))
    other = {part: tensor + 1 for part, tensor in load_file(getattr(copy, name)).items()}
    write_tensors(getattr(copy, name), other)
    with pytest.raises(UserError, match=f"not the {name} that model.json describes; .*save it again"):
        unihssl.load(copy.path)


def test_a_changed_bit_in_a_checkpoint_is_noticed(tmp_path):
    folder = RunFolder(tmp_path)
    content = {"fingerprint": "x", "weights": torch.rand(5000, generator=torch.Generator().manual_seed(0))}
    folder.write_checkpoint(content)
    whole = folder.checkpoint.read_bytes()
    refused = 0
    for seed in range(60):
        folder.checkpoint.write_bytes(flipped(whole, seed))
        try:
            assert torch.equal(folder.read_checkpoint()["weights"], content["weights"])  # padding between the parts
        except UserError as error:
            assert "damaged; delete it to start again" in str(error)
            refused += 1
    assert refused > 50

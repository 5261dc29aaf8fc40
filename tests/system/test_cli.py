"""The commands as a user types them."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from PIL import Image
from warm_cli import FAST, LIMIT, Finished, Started, train_args, unihssl

import unihssl as package
from unihssl import methods as registry
from unihssl.cli import app
from unihssl.cli.methods import methods
from unihssl.config import Settings, knob_fields
from unihssl.methods.recipe import BACKBONE_KNOBS
from unihssl.methods.supervised import Supervised
from unihssl.methods.unihssl_params import ROBUST, UniHSSLParams

COMMAND = Path(sys.executable).with_name("unihssl")
RATE = BACKBONE_KNOBS["small_cnn"]["lr"]


def cold(*args: object) -> Finished:
    """The installed command itself, started afresh."""
    done = subprocess.run([COMMAND, *map(str, args)], capture_output=True, text=True, timeout=LIMIT)
    return Finished(done.returncode, done.stdout, done.stderr)


class Run(NamedTuple):
    folder: Path
    printed: Finished

    def json(self, name: str) -> dict:
        return json.loads((self.folder / name).read_text())


@pytest.fixture(scope="module")
def run(tmp_path_factory, image_folders) -> Run:
    """A run long enough to learn something, with a third of the images held out."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    knobs = {"test_fraction": 0.3, "epochs": 4, "tensorboard": True}
    return Run(folder, cold(*train_args(*image_folders, folder, **knobs), "--json"))


def test_train_prints_one_json_object_and_nothing_else(run):
    assert run.printed.stderr == ""
    assert len(run.printed.stdout.splitlines()) == 1
    assert run.printed.result == run.json("result.json") | {"run": str(run.folder)}


def test_training_learns_the_labeled_domain(image_folders, tmp_path):
    knobs = {"test_fraction": 0.3, "epochs": 30, "pretrain_epochs": 20}  # every one of four seeds is then all right
    result = unihssl(*train_args(*image_folders, tmp_path / "run", **knobs), "--json").result
    assert result["labeled"]["accuracy"] >= 0.9


def test_run_directory_holds_the_whole_run(run):
    files = {p.name for p in run.folder.iterdir() if not p.name.startswith(".")}
    assert files == {
        "config.yaml",
        "environment.json",
        "features.safetensors",
        "metrics.jsonl",
        "model.json",
        "model.safetensors",
        "result.json",
        "split.json",
        "tensorboard",
    }
    assert not list(run.folder.glob(".*.tmp"))
    assert [p.name.startswith("events.out") for p in (run.folder / "tensorboard").iterdir()] == [True]
    config = yaml.safe_load((run.folder / "config.yaml").read_text())
    assert set(config) == set(knob_fields(Settings, UniHSSLParams))
    assert (config["epochs"], config["beta"], config["lr"]) == (4, 0.5, RATE)  # --set, the preset, the recipe
    environment = run.json("environment.json")
    assert environment["packages"]["unihssl"] == package.__version__ and "train" in environment["command"]
    assert "commit" in environment  # of a checkout; None for an installed package


def test_split_file_shows_that_no_test_image_trained(run, image_folders):
    split = run.json("split.json")
    for role, folder in zip(("labeled", "unlabeled"), image_folders, strict=True):
        names = {p.relative_to(folder).as_posix() for p in folder.rglob("*.png")}
        train, test = split[role]["train"], split[role]["test"]
        assert set(train) | set(test) == names and len(train) + len(test) == len(names)
        assert [sum(name.startswith(c) for name in test) for c in ("blue", "green", "red")] == [6, 6, 6]
        assert run.json("result.json")[role]["n"] == 18


def test_metrics_tell_losses_mask_rate_lr_throughput_and_the_oracle(run):
    rows = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert [(r["stage"], r["epoch"]) for r in rows] == [("pretrain", 1), *(("adapt", e) for e in (1, 2, 3, 4))]
    steps = 6  # 42 training images in batches of 8, rounded up
    assert [r["global_step"] for r in rows] == [steps * (i + 1) for i in range(5)]
    assert {"labeled", "pseudo", "prototype", "mixup"} <= set(rows[-1]["terms"])
    assert {"mask_rate", "pseudo_agreement", "oracle_pseudo_accuracy"} <= set(rows[-1]["stats"])
    assert {"loss", "lr", "images_per_second"} <= set(rows[-1])
    assert rows[-1]["lr"] < rows[1]["lr"] < rows[0]["lr"] == RATE


def test_tensorboard_has_the_rows_of_the_metrics_file(run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run.folder / "tensorboard"))
    events.Reload()
    rows = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    for name in ("loss", "terms/pseudo", "stats/mask_rate", "stats/oracle_pseudo_accuracy", "lr", "images_per_second"):
        logged = [(e.step, e.value) for e in events.Scalars(f"adapt/{name}")]
        group, _, own_name = name.rpartition("/")
        values = [(r["global_step"], (r[group] if group else r)[own_name]) for r in rows if r["stage"] == "adapt"]
        assert logged == [(step, pytest.approx(value)) for step, value in values]


def test_evaluate_reproduces_the_result_exactly(run):
    printed = unihssl("evaluate", run.folder, "--json")
    measured = run.json("result.json")
    assert measured.pop("warnings") == []  # of the training, not of the model
    assert 0 <= measured.pop("unlabeled_training")["accuracy"] <= 1
    assert measured.pop("unlabeled_check")  # of training images
    assert printed.result == measured
    assert set(printed.result["pooled"]["accuracy_by_rule"]) == {"argmax", "sum"}
    assert 0 <= printed.result["domain_accuracy"] <= 1


def test_evaluate_measures_the_images_it_is_given(run, image_folders):
    result = unihssl("evaluate", run.folder, "--labeled", image_folders[0], "--json").result
    assert result["labeled"]["n"] == 60
    assert "pooled" not in result and "unlabeled" not in result
    assert "not measured" not in unihssl("evaluate", run.folder, "--labeled", image_folders[0]).stdout


def test_evaluate_says_which_images_trained_the_model_or_leaves_them_out(run, image_folders, tmp_path):
    """Whether the data has moved or not."""
    moved = [shutil.copytree(folder, tmp_path / folder.name) for folder in image_folders]
    given = ["--labeled", moved[0], "--unlabeled", moved[1]]
    notes = unihssl("evaluate", run.folder, *given, "--json").result["notes"]
    assert len(notes) == 2 and "42 of 60 images are named like images that the run was trained on" in notes[0]
    held_out = unihssl("evaluate", run.folder, *given, "--held-out", "--json").result
    assert held_out == package.evaluate(str(run.folder)) and held_out["pooled"]["n"] == 36


def test_tables_show_both_rules_and_both_domains(run):
    printed = unihssl("evaluate", run.folder)
    assert printed.code == 0 and printed.stderr == ""
    for word in (
        "argmax",
        "sum",
        "pooled",
        "labeled",
        "unlabeled",
        f"{100 * run.printed.result['pooled']['accuracy']:.1f}",
    ):
        assert word in printed.stdout


def test_predict_writes_a_row_for_each_image(run, image_folders, tmp_path):
    out = tmp_path / "preds.csv"
    summary = unihssl("predict", run.folder, image_folders[1], "--out", out, "--json").result
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    classes = ["blue", "green", "red"]
    probabilities = [f"p({c})" for c in classes]
    assert list(rows[0]) == ["path", "class", "confidence", "novelty", *probabilities, "p(unlabeled domain)"]
    assert [row["path"] for row in rows] == [str(p) for p in sorted(image_folders[1].rglob("*.png"))]
    for row in rows:
        probabilities = {c: float(row[f"p({c})"]) for c in classes}
        assert sum(probabilities.values()) == pytest.approx(1, abs=3e-6)
        assert row["class"] == max(probabilities, key=probabilities.get)
        assert float(row["confidence"]) == probabilities[row["class"]]
        assert 0 <= float(row["p(unlabeled domain)"]) <= 1
    assert summary["images"] == 60 and summary["out"] == str(out)
    assert summary["classes"] == {c: n for c in classes if (n := sum(row["class"] == c for row in rows))}


def test_predictions_agree_with_the_reported_accuracy(run, tmp_path):
    for role in ("labeled", "unlabeled"):
        split = run.json("split.json")[role]
        images = [Path(split["source"], name) for name in split["test"]]
        out = tmp_path / f"{role}.csv"
        unihssl("predict", run.folder, *images, "--out", out)
        with out.open(newline="") as file:
            right = [row["class"] == Path(row["path"]).parent.name for row in csv.DictReader(file)]
        assert sum(right) / len(right) == run.printed.result[role]["accuracy"]


def test_predict_leaves_out_and_names_what_is_no_image(run, image_folders, tmp_path):
    good = tmp_path / "good.png"
    Image.open(next(image_folders[0].rglob("*.png"))).save(good)
    (tmp_path / "broken.jpg").write_bytes(b"not an image")
    printed = unihssl("predict", run.folder, good, tmp_path / "broken.jpg", "--out", tmp_path / "p.csv")
    assert printed.code == 0
    assert "broken.jpg" in printed.stderr and "1 of 2" in printed.stderr
    assert "1 images" in printed.stdout
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 2


def test_a_supervised_run_has_no_domain_posterior(image_folders, tmp_path):
    knobs = [f"--set={name}={value}" for name, value in FAST.items() if name != "pretrain_epochs"]
    data = ["--labeled", image_folders[0], "--unlabeled", image_folders[1]]
    result = unihssl("train", *data, "--out", tmp_path / "run", "--method", "supervised", *knobs, "--json").result
    assert "domain_accuracy" not in result and set(result["pooled"]["accuracy_by_rule"]) == {"argmax"}
    unihssl("predict", tmp_path / "run", image_folders[1], "--out", tmp_path / "p.csv")
    with (tmp_path / "p.csv").open(newline="") as file:
        assert {row["p(unlabeled domain)"] for row in csv.DictReader(file)} == {""}


@pytest.mark.parametrize("command", ["", *(command.callback.__name__ for command in app.registered_commands)])
def test_help_explains_every_command(command):
    printed = cold(*command.split(), "--help")
    assert printed.code == 0 and printed.stderr == ""
    assert "Usage:" in printed.stdout and len(printed.stdout) > 400


def test_version_and_module_entry():
    done = subprocess.run([sys.executable, "-m", "unihssl", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{package.__version__}\n", "")


def test_every_knob_of_a_method_is_listed():
    listed = unihssl("methods", "unihssl", "--json").result
    assert {row["name"] for row in listed} == set(knob_fields(Settings, UniHSSLParams))
    assert all(row["help"] for row in listed)


def test_options_win_over_set_and_set_over_the_config_file(image_folders, tmp_path):
    (tmp_path / "my.yaml").write_text("epochs: 7\nseed: 1\nlr: 0.011\nbeta: 0.6\nflip: no\n")
    settings = [f"--set={s}" for s in ("epochs=1", "seed=2", "pretrain_epochs=1", "batch_size=8", "tensorboard=false")]
    data = ["--labeled", image_folders[0], "--unlabeled", image_folders[1], "--out", tmp_path / "run"]
    choices = ["--config", tmp_path / "my.yaml", *settings, "--seed", "3", "--backbone", "small_cnn", "--json"]
    unihssl("train", *data, *choices).result  # noqa: B018
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert {k: config[k] for k in ("epochs", "seed", "lr", "beta", "flip")} == {
        "epochs": 1,
        "seed": 3,
        "lr": 0.011,
        "beta": 0.6,
        "flip": False,
    }


def test_steps_beside_epochs_are_noted(image_folders, tmp_path):
    done = unihssl(*train_args(*image_folders, tmp_path / "run", epochs=3, steps=2))
    assert "note: --set steps=2 says how long to train, so --set epochs=3 does nothing" in done.stderr


def test_a_former_name_is_read_from_files_and_named_elsewhere(image_folders, tmp_path):
    (tmp_path / "old.yaml").write_text(f"home: host\nlabeled: {image_folders[0]}\nunlabeled: elsewhere\n")
    arguments = train_args(*image_folders, tmp_path / "run", epochs=1)
    assert unihssl(*arguments, "--config", tmp_path / "old.yaml").code == 0
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["placement"] == "host"
    asked = json.loads((tmp_path / "run" / "environment.json").read_text())["asked"]
    assert not {"labeled", "unlabeled"} & set(asked)
    assert "'home': it is now called 'placement'" in unihssl(*arguments, "--set", "home=host").error


def test_a_runs_own_config_repeats_it_bit_for_bit(run, tmp_path):
    again = unihssl("train", "--config", run.folder / "config.yaml", "--out", tmp_path / "again", "--json")
    assert again.result | {"run": ""} == run.printed.result | {"run": ""}
    weights = [(folder / "model.safetensors").read_bytes() for folder in (run.folder, tmp_path / "again")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["--set", "lambda_mixip=1"], ["unknown setting 'lambda_mixip'", "did you mean 'lambda_mixup'?"]),
        (["--set", "xyzzy=1"], ["unknown setting 'xyzzy'", "the knobs are", "batch_size"]),
        (["--set", "beta=1.5"], ["beta must be between 0 and 1, got 1.5", "nearest valid value is 1"]),
        (["--set", "batch_size=1"], ["batch_size must be at least 2, got 1", "nearest valid value is 2"]),
        (["--set", "epochs=many"], ["epochs must be a whole number, got 'many'"]),
        (["--set", "epochs=1.5"], ["epochs must be a whole number, got '1.5'"]),
        (["--set", "lr=nan"], ["lr must be a finite number, got 'nan'"]),
        (["--set", "flip=maybe"], ["flip must be true or false, got 'maybe'"]),
        (["--set", "prototypes=batches"], ["prototypes must be one of memory, batch, epoch, full", "nearest: batch"]),
        (["--set", "lr"], ["--set takes NAME=VALUE, got 'lr'"]),
        (["--seed", "-1"], ["seed must be at least 0, got -1"]),
        (["--method", "unihsl"], ["unknown method 'unihsl'", "did you mean 'unihssl'?"]),
        (["--backbone", "resnet5"], ["unknown backbone 'resnet5'", "resnet50"]),
        (["--backbone", "mlp"], ["mlp takes feature vectors", "small_cnn"]),
        (["--weights", "pretrained"], ["no pretrained weights for small_cnn"]),
        (["--weights", "missing.pt"], ["missing.pt: no such weights file"]),
        (["--config", "missing.yaml"], ["missing.yaml: cannot be read"]),
    ],
)
def test_settings_that_cannot_be_are_refused_with_the_way_out(image_folders, tmp_path, settings, message):
    printed = unihssl(*train_args(*image_folders, tmp_path / "run"), *settings)
    for part in message:
        assert part in printed.error
    assert printed.stdout == ""


@pytest.mark.parametrize(
    "text", ["- a list\n", "just text\n", "a: [1\n", "1: 2\n", "beta: [3]\n", "prototypes: null\n"]
)
def test_config_files_that_are_none_are_refused(image_folders, tmp_path, text):
    (tmp_path / "my.yaml").write_text(text)
    assert unihssl(*train_args(*image_folders, tmp_path / "run"), "--config", tmp_path / "my.yaml").error


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["train", "--bogus"], "--bogus"),
        (["demo", "--seed", "many"], "--seed"),
        (["trian"], "trian"),
        (["evaluate"], "run"),
        (["predict", "."], "images"),
    ],
)
def test_a_mistyped_command_is_one_line_too(args, message):
    assert message in cold(*args).error


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["train", "--labeled", "a", "--unlabeled", "b"], "pass --out RUN"),
        (["evaluate", "missing"], "missing: no such run directory"),
        (["suggest", "missing", "--out", "-"], "--out -: only unihssl predict prints on standard output"),
        (["predict", "missing", "x.png"], "missing: no such run directory"),
        (["evaluate", "{empty}"], "is {empty} a run directory?"),
        (["predict", "{run}", "missing.png"], "missing.png: no such image or folder"),
        (["predict", "{run}", "{empty}"], "{empty}: no images found"),
        (["predict", "{run}", "{images}", "--device", "gpu"], "device must be one of auto, cpu, cuda, got 'gpu'"),
        (["predict", "{run}", "{images}", "--out", "{file}/p.csv"], "{file}: cannot be made a folder"),
        (["predict", "{run}", "{images}", "--out", "{empty}"], "{empty}: is a folder; --out names a CSV file"),
        (["evaluate", "{run}", "--labeled", "{empty}"], "{empty}: no images found"),
        (["evaluate", "{run}", "--labeled", "{other}"], "classes do not match"),
    ],
)
def test_commands_name_what_is_wrong(run, image_folders, tmp_path, args, message):
    places = {"run": run.folder, "images": image_folders[0], "other": tmp_path / "other"}
    places |= {"empty": tmp_path / "empty", "file": tmp_path / "file"}
    places["empty"].mkdir()
    places["file"].write_text("")
    for name in ("cat", "dog"):
        (places["other"] / name).mkdir(parents=True)
        Image.new("RGB", (16, 16)).save(places["other"] / name / "1.png")
    assert message.format(**places) in unihssl(*(a.format(**places) for a in args)).error


@pytest.mark.parametrize("name", ["model.json", "model.safetensors", "config.yaml", "split.json"])
def test_a_damaged_run_is_named(run, tmp_path, name):
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in run.folder.glob("*.*"):
        (copy / file.name).write_bytes(file.read_bytes())
    (copy / name).write_bytes(b"\x00\xff damaged \xfe")
    assert str(copy) in unihssl("evaluate", copy).error


def test_predictions_on_standard_output(run, image_folders):
    printed = unihssl("predict", run.folder, image_folders[1], "--out", "-")
    rows = list(csv.DictReader(printed.stdout.splitlines()))
    assert len(rows) == len(list(image_folders[1].rglob("*.png"))) and rows[0]["class"]
    found = json.loads(unihssl("predict", run.folder, image_folders[1], "--json").stdout)
    assert [row["path"] for row in found["predictions"]] == [row["path"] for row in rows] and found["out"] is None
    assert not (Path.cwd() / "preds.csv").exists()


def test_predict_reads_a_csv_as_it_is_told(run, image_folders, tmp_path):
    image = next(image_folders[1].rglob("*.png"))
    (tmp_path / "new.csv").write_text(f"file\n{image}\n")
    assert "no column 'path'" in unihssl("predict", run.folder, tmp_path / "new.csv", "--json").error
    told = ["--set", "path_column=file", "--json"]
    assert json.loads(unihssl("predict", run.folder, tmp_path / "new.csv", *told).stdout)["images"] == 1
    refused = unihssl("predict", run.folder, tmp_path / "new.csv", "--set", "lr=1").error
    assert "lr cannot be set here, only how a source is read: path_column" in refused


def test_predict_does_not_replace_a_file_that_was_not_named(run, image_folders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "preds.csv").write_text("precious")
    assert "preds.csv exists already" in unihssl("predict", run.folder, image_folders[0]).error
    assert (tmp_path / "preds.csv").read_text() == "precious"


def test_a_saved_model_is_measured_on_images_it_is_given(run, image_folders, tmp_path):
    package.load(run.folder).save(tmp_path / "model")
    result = unihssl("evaluate", tmp_path / "model", "--labeled", image_folders[0], "--json").result
    assert result["labeled"]["n"] == 60
    assert "give some with --labeled" in unihssl("evaluate", tmp_path / "model").error


def test_the_demo_takes_settings_each_method_those_it_knows(tmp_path):
    settings = ("max_steps=2", "unlabeled_view=weak", "preset=paper")
    done = unihssl(
        "demo", "--json", "--out", tmp_path, *(word for requested in settings for word in ("--set", requested))
    )
    assert [run["method"] for run in json.loads(done.stdout)["runs"]] == ["supervised", "unihssl"]
    found = yaml.safe_load((tmp_path / "unihssl-0" / "config.yaml").read_text())
    assert (found["max_steps"], found["unlabeled_view"], found["preset"]) == (2, "weak", "paper")
    assert yaml.safe_load((tmp_path / "supervised-0" / "config.yaml").read_text())["max_steps"] == 2
    assert unihssl("plot", "confusion", tmp_path / "unihssl-0", "--out", tmp_path / "plots").code == 0
    assert unihssl("suggest", tmp_path / "unihssl-0", "--n", 5, "--out", tmp_path / "a.csv").code == 0
    assert unihssl("audit", tmp_path / "unihssl-0", "--n", 5, "--out", tmp_path / "b.csv").code == 0
    for requested, printed in (("unlabeled_vew=weak", "did you mean 'unlabeled_view'"), ("seed=1", "use --seeds")):
        refused = unihssl("demo", "--set", requested)
        assert refused.code == 1 and printed in refused.stderr


def test_a_stopped_demo_goes_on_where_it_was(tmp_path):
    command = ["demo", "--json", "--out", tmp_path, "--set", "max_steps=45", "--set", "checkpoint_seconds=0"]
    stopped = Started(*command)
    stopped.wait_for(tmp_path / "supervised-0" / "checkpoint.pt")  # after an epoch of 43 steps
    os.kill(stopped.process.pid, signal.SIGINT)
    done = stopped.finish()
    assert done.code == 130 and done.stderr.splitlines()[-1] == "stopped; rerun to continue"
    assert [run["method"] for run in unihssl(*command).result["runs"]] == ["supervised", "unihssl"]
    refused = unihssl("demo", "--json", "--out", tmp_path)  # else the runs of 45 steps would pass for whole ones
    assert "a resumed run keeps its settings, but max_steps was 45, now 0" in refused.error
    assert unihssl(*command, "--reverse").code == 0 and (tmp_path / "reverse-unihssl-0" / "result.json").exists()


def test_the_demo_refuses_a_value_before_it_trains(tmp_path):
    refused = unihssl("demo", "--out", tmp_path / "demo", "--set", "lambda_pa=-1")
    assert "lambda_pa must be at least 0" in refused.error and not (tmp_path / "demo").exists()


@pytest.mark.parametrize("group", ["plot", "data"])
def test_a_group_of_commands_by_itself_shows_its_help(group):
    printed = unihssl(group)
    assert printed.code == 2 and "Usage" in printed.stdout + printed.stderr and "error" not in printed.stderr


def test_a_methods_other_presets_are_told_by_what_they_change():
    printed = " ".join(unihssl("methods", "unihssl").stdout.split())
    printed = printed[printed.index("preset=paper: ") :]
    assert (
        all(f"{knob}=" in printed for knob in ROBUST) and "unlabeled_view=weak" in printed and "epsilon" not in printed
    )
    assert "preset=original: steps=50004" in " ".join(unihssl("methods", "mcc").stdout.split())


@pytest.mark.parametrize(
    ("call", "printed"),
    [
        ("benchmark digits --epochs 3", "; that is a knob: --set epochs=VALUE. See: unihssl benchmark --help"),
        ("train --epohcs 3", "No such option: --epohcs. Did you mean --epochs? See: unihssl train --help"),
        ("train --bogus", "No such option: --bogus, or its value is missing. See: unihssl train --help"),
        ("train scans_a", "Got unexpected argument 'scans_a'. See: unihssl train --help"),
        ("data report --group-by x", "; that is a knob: --set group_by=VALUE. See: unihssl data report --help"),
        ("evaluate --epochs 3", "No such option: --epochs. See: unihssl evaluate --help"),
        (
            "benchmark digits --preset fast",
            "No such option: --preset; a method's preset is --set preset=NAME, the length of training --schedule. "
            "See: unihssl benchmark --help",
        ),
    ],
)
def test_an_option_that_is_a_knob(call, printed):
    done = unihssl(*call.split())
    assert done.code == 2 and done.stderr.rstrip("\n").endswith(printed)


@pytest.mark.parametrize(
    ("call", "printed"),
    [
        (
            "train --set method=mcc --set beta=0.3 --labeled . --unlabeled . --out run",
            "beta is a knob of unihssl, not of mcc",
        ),
        ("train --seed one --labeled . --unlabeled . --out run", "seed must be a whole number, got 'one'"),
        ("train --method mcc --beta 0.3 --labeled . --unlabeled . --out run", "beta is a knob of unihssl, not of mcc"),
    ],
)
def test_misplaced_and_misspelled_values(call, printed):
    assert unihssl(*call.split()).error.endswith(printed)


def test_the_list_of_methods_fits_80_columns():
    shown = unihssl("methods").stdout
    assert all(name in shown for name in registry.available()) and max(map(len, shown.splitlines())) <= 80


def test_a_method_need_not_describe_itself(monkeypatch, capsys):
    class Silent(Supervised):
        name = "silent"

    monkeypatch.setattr(registry, "available", lambda: {"silent": Silent})
    monkeypatch.setattr(registry, "get", lambda name: Silent)
    methods(name="", json=True)
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["name"] == "silent" and listed["summary"] == ""

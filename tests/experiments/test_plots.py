"""Figures: the numbers behind them, the files they become, and what is printed when they cannot be drawn."""

import json
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from matplotlib.figure import Figure
from PIL import Image
from typer.testing import CliRunner

import unihssl
from unihssl.cli import app
from unihssl.errors import UserError
from unihssl.experiments.plots import (
    RunFilter,
    confusion_matrices,
    feature_map,
    learning_curves,
    run_features,
    run_result,
    select_runs,
    sensitivity_curve,
)
from unihssl.experiments.plots.confusion import count_confusions, normalise_rows, top_confusions
from unihssl.experiments.plots.features import balanced_subsample
from unihssl.experiments.plots.from_run import classifier_of, starting_encoder
from unihssl.experiments.plots.learning import Curve, curves, draw_curves, histories, loss_terms, stage_starts
from unihssl.experiments.plots.sensitivity import in_percent, knob_axis
from unihssl.run_folder import RunFolder

FAST = {"backbone": "small_cnn", "epochs": 2, "batch_size": 8, "tensorboard": False, "test_fraction": 0.3}


@pytest.fixture(scope="module")
def run(tmp_path_factory, image_folders) -> Path:
    folder = tmp_path_factory.mktemp("plots") / "run"
    unihssl.fit(*image_folders, out=folder, pretrain_epochs=1, **FAST)
    return folder


@pytest.fixture(scope="module")
def array_run(tmp_path_factory, vector_arrays) -> Path:
    """A routed method on arrays, which no run keeps."""
    folder = tmp_path_factory.mktemp("plots") / "arrays"
    short = {"epochs": 1, "sup_epochs": 1, "router_epochs": 1, "max_steps": 3, "tensorboard": False}
    unihssl.fit(*vector_arrays, out=folder, method="mcc+sup", test_fraction=0.3, **short)
    return folder


def fake_run(folder: Path, rows: list[dict], **config: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump({"method": "fixmatch", "seed": 0, "lr": 0.1} | config))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def row(step: int, loss: float, stage: str = "fixmatch", start: int = 0, **stats: float) -> dict:
    place = {"stage": stage, "epoch": 1, "step": step - start, "global_step": step, "lr": 0.1}
    return {**place, "loss": loss, "terms": {"labeled": loss}, "stats": stats, "images_per_second": 3.0}


def texts(files: tuple[Path, Path]) -> str:
    """What is written in a figure; fails unless both files are whole."""
    png, svg = files
    assert (png.suffix, svg.suffix) == (".png", ".svg") and png.stem == svg.stem
    with Image.open(png) as image:
        image.load()
        assert image.format == "PNG" and min(image.size) > 300
    return "\n".join(e.text or "" for e in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text"))


def draw_twice(draw, folder: Path) -> str:
    """The texts of a figure that must come out the same again."""
    first, again = draw(folder / "a" / "figure"), draw(folder / "b" / "figure")
    assert first[0].read_bytes() == again[0].read_bytes() and first[1].read_bytes() == again[1].read_bytes()
    return texts(first)


def test_curves_are_means_over_seeds_at_common_steps_and_break_between_stages(tmp_path):
    first = [row(10, 1.0), row(20, 2.0), row(30, 9.0), row(40, 5.0, "late", 30, mask_rate=0.5)]
    second = [row(10, 3.0), row(20, 2.0), row(40, 7.0, "late", 30)]
    runs = [fake_run(tmp_path / str(seed), rows, seed=seed) for seed, rows in enumerate([first, second])]
    ((name, rows),) = histories(runs).items()
    early, late = curves(rows, "loss")
    assert name == "fixmatch"
    assert early.steps.tolist() == [10, 20] and early.mean.tolist() == [2.0, 2.0]
    assert early.std.tolist() == [pytest.approx(2**0.5), 0.0]
    assert (late.steps.tolist(), late.mean.tolist()) == ([40], [6.0])
    (masked,) = curves(rows, "stats/mask_rate")
    assert (masked.steps.tolist(), masked.mean.tolist(), masked.std.tolist()) == ([40], [0.5], [0.0])
    assert stage_starts(rows) == {"fixmatch": 0, "late": 30}
    assert curves(rows, "nothing") == []


def test_runs_are_repetitions_only_if_their_seeds_alone_differ(tmp_path):
    configs = [{"seed": 0}, {"seed": 1, "device": "cuda"}, {"lr": 0.5}, {"method": "mcc", "lr": 0.5}]
    runs = [fake_run(tmp_path / str(i), [row(1, i)], **c) for i, c in enumerate(configs)]
    grouped = histories(runs)
    assert {name: len(rows) for name, rows in grouped.items()} == {
        "fixmatch, lr=0.1": 2,
        "fixmatch, lr=0.5": 1,
        "mcc": 1,
    }
    with pytest.raises(UserError, match="no step in common"):
        curves([[row(1, 1.0)], [row(2, 1.0)]], "loss")


def test_metrics_of_0_1_0_are_read_with_terms_and_statistics_apart(tmp_path):
    flat = {"stage": "adapt", "epoch": 1, "step": 1, "global_step": 1, "lr": 0.1, "loss": 1.0, "images_per_second": 3.0}
    flat |= {"labeled": 0.5, "pseudo": 0.25, "mask_rate": 0.75, "belief": 1.0, "router_accuracy": 1.0}
    (runs,) = histories([fake_run(tmp_path / "old", [flat])]).values()
    assert loss_terms(runs) == ["labeled", "pseudo"]
    names = ("loss", "terms/pseudo", "stats/mask_rate")
    assert [curves(runs, name)[0].mean.tolist() for name in names] == [[1.0], [0.25], [0.75]]
    assert curves(runs, "images_per_second") == []


def test_sensitivity_numbers_and_axes():
    assert in_percent([0.5, 0.7]) == (pytest.approx(60), pytest.approx(200**0.5))
    assert in_percent([0.5]) == (50.0, 0.0)
    assert knob_axis([0.9, 0.1, 0.5]).scale == "linear"
    assert list(knob_axis([0.9, 0.1]).position.items()) == [(0.1, 0.1), (0.9, 0.9)]
    assert knob_axis([1, 0.001, 0.1])[1:] == ("log", 0.001)
    assert knob_axis([0, 0.01, 1])[1:] == ("log and 0", 0.01)
    assert knob_axis([-1, 100]).scale == "linear" and knob_axis([0]).scale == "linear"
    assert knob_axis(["wma", "previous"]) == ({"wma": 0.0, "previous": 1.0}, "names", 0.0)
    assert knob_axis([True, False]).scale == "names"


def test_confusions_are_counted_by_row():
    names, found = count_confusions({"labeled": {"confusion": {"a": {"a": 1, "b": 2, "c": 1}, "b": {"a": 1, "b": 1}}}})
    counts = found["labeled"]
    assert names == ["a", "b", "c"] and counts.tolist() == [[1, 2, 1], [1, 1, 0], [0, 0, 0]]
    shares = normalise_rows(counts)
    assert shares[:2].tolist() == [[25, 50, 25], [50, 50, 0]] and np.isnan(shares[2]).all()
    assert top_confusions(counts, 2) == [(0, 1, 2, 50.0), (1, 0, 1, 50.0)]


def test_a_subsample_takes_as_many_of_each_group_as_there_are_or_fit():
    group = np.repeat([3, 5, 8], [100, 50, 4])
    rows = balanced_subsample(group, 44, seed=0)
    assert np.bincount(group[rows])[[3, 5, 8]].tolist() == [20, 20, 4]
    assert (np.diff(rows) > 0).all() and (rows == balanced_subsample(group, 44, seed=0)).all()
    assert (rows != balanced_subsample(group, 44, seed=1)).any()
    assert balanced_subsample(group, 154, seed=0).tolist() == list(range(154))
    assert len(balanced_subsample(np.arange(9), 5, seed=0)) == 5


def test_learning_curves_of_a_real_run_and_of_several_methods(run, tmp_path):
    printed = draw_twice(lambda out: learning_curves([run], out), tmp_path)
    for text in ("unihssl", "pretrain", "adapt", "prototype", "mixup", "mask rate (%)", "oracle (%)", "training step"):
        assert text in printed
    seeds = [fake_run(tmp_path / f"s{s}", [row(1, 2.0 + s), row(2, 1.0)], seed=s) for s in range(3)]
    printed = texts(learning_curves([run, *seeds], tmp_path / "both"))
    assert (
        "fixmatch" in printed
        and "unihssl" in printed
        and "mean ± std of 1 to 3 runs" in printed
        and "prototype" not in printed
    )


def test_ticks_of_a_logarithmic_axis_are_numbers(tmp_path):
    run = fake_run(tmp_path / "run", [row(1, 20.0), row(2, 0.05)])
    printed = texts(learning_curves([run], tmp_path / "plot"))
    assert "log scale" in printed and "0.1" in printed and "$" not in printed


def test_a_stage_with_one_line_in_the_log_is_seen():
    axis = Figure().add_subplot()
    point, line = (Curve(np.arange(n), np.ones(n), np.zeros(n)) for n in (1, 2))
    draw_curves(axis, [point, line], {"color": "black"})
    assert [drawn.get_marker() for drawn in axis.lines] == ["o", ""]


def test_a_sensitivity_curve_marks_the_papers_value(tmp_path):
    points = {0.0: [0.7, 0.8], 0.01: [0.9, 0.8], 1.0: [0.6], 2.0: []}
    options = {"knob": "lambda_pa", "paper_value": 0.01, "title": "mnist/uci"}
    printed = draw_twice(lambda out: sensitivity_curve(points, out, **options), tmp_path)
    for text in ("lambda_pa (log scale)", "the paper's value, 0.01", "mnist/uci", "accuracy (%)"):
        assert text in printed
    printed = texts(sensitivity_curve({"wma": [0.5], "previous": [0.6]}, tmp_path / "v0.5", knob="pseudo_update"))
    assert "wma" in printed and "previous" in printed and (tmp_path / "v0.5.svg").exists()
    assert "the paper's value, 0.3" in texts(
        sensitivity_curve({0.1: [0.5], 0.5: [0.6]}, tmp_path / "off.png", knob="tau", paper_value=0.3)
    )
    with pytest.raises(UserError, match="tau: no accuracy to plot"):
        sensitivity_curve({1.0: []}, tmp_path / "none", knob="tau")


def test_confusion_matrices_hold_numbers_or_a_list_of_the_worst(tmp_path):
    mixed, clean = {"cat": {"cat": 2, "dog": 1}, "dog": {"dog": 1}}, {"cat": {"cat": 3}, "dog": {"dog": 1}}
    result = {"rule": "argmax", "labeled": {"confusion": mixed}, "unlabeled": {"confusion": clean}}
    printed = draw_twice(lambda out: confusion_matrices(result, out, title="mcc"), tmp_path)
    for text in ("cat", "dog", "67", "33", "labeled domain: 75.0% of 4 right", "unlabeled domain: 100.0%", "mcc"):
        assert text in printed
    many = {f"class {i}": {f"class {i}": 1} for i in range(20)}
    many["class 0"] = {"class 0": 2, "class 1": 1}
    printed = texts(confusion_matrices({"labeled": {"confusion": many}}, tmp_path / "many"))
    assert "class 0 → class 1: 1 (33%)" in printed and "67" not in printed.split()
    with pytest.raises(UserError, match="no test images of known class"):
        confusion_matrices({}, tmp_path / "none")


def test_a_feature_map_shows_classes_and_domains(tmp_path):
    rng = np.random.default_rng(0)
    label, domain = np.arange(60) % 3, np.arange(60) % 2
    before = rng.normal(size=(60, 60))
    after = before + 5 * np.eye(60)[label]
    names = ["blue", "green", "red"]
    printed = draw_twice(lambda out: feature_map(before, after, domain, label, out, class_names=names), tmp_path)
    for text in (*names, "labeled domain", "unlabeled domain", "before training", "after training", "t-SNE 1"):
        assert text in printed
    with pytest.raises(UserError, match="same samples"):
        feature_map(before[1:], after, domain, label, tmp_path / "x")
    with pytest.raises(UserError, match="4 samples or more"):
        feature_map(before[:3], after[:3], domain[:3], label[:3], tmp_path / "x")
    with pytest.raises(UserError, match="not finite"):
        feature_map(before * np.inf, after, domain, label, tmp_path / "x")
    with pytest.raises(UserError, match="all features are the same: the network has collapsed"):
        feature_map(before, np.full((60, 60), 3.3), domain, label, tmp_path / "x")
    with pytest.raises(UserError, match="all features are the same"):
        feature_map(before, np.zeros((60, 3)), domain, label, tmp_path / "x")


def test_what_a_run_saved_is_drawn_without_model_or_data(run, tmp_path):
    for name in ("config.yaml", "result.json"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    saved, made = run_result(tmp_path), run_result(run, *sources_of(run), held_out=True)
    for part in ("labeled", "unlabeled"):
        assert saved[part]["confusion"] == made[part]["confusion"]
    assert "of 18 right" in texts(plot("confusion", tmp_path, "--out", tmp_path))


def test_a_result_of_an_older_version_is_evaluated_again(run, tmp_path):
    shutil.copytree(run, tmp_path / "old")
    result = json.loads((run / "result.json").read_text())
    for part in ("pooled", "labeled", "unlabeled"):
        del result[part]["confusion"]
    (tmp_path / "old" / "result.json").write_text(json.dumps(result))
    saved, made = run_result(run), run_result(tmp_path / "old")
    for part in ("labeled", "unlabeled"):
        assert saved[part]["confusion"] == made[part]["confusion"]


def sources_of(run: Path) -> tuple[str, str]:
    config = yaml.safe_load((run / "config.yaml").read_text())
    return config["labeled"], config["unlabeled"]


def test_arrays_given_again_are_cut_down_to_what_was_held_out(array_run, vector_arrays):
    result = json.loads((array_run / "result.json").read_text())
    again, whole = (run_result(array_run, *vector_arrays, held_out=held_out) for held_out in (True, False))
    for role in ("labeled", "unlabeled"):
        assert [again[role][name] for name in ("n", "accuracy")] == [result[role][name] for name in ("n", "accuracy")]
        assert whole[role]["n"] == 60
    with pytest.raises(UserError, match=r"labeled array: the labeled data of this run is not there.* with labeled"):
        run_features(array_run)


def test_features_are_those_of_the_adapted_network_and_of_the_encoder_at_the_start(array_run, vector_arrays):
    model = unihssl.load(array_run)
    features = run_features(array_run, *vector_arrays)
    x = np.concatenate([vector_arrays[0][0], vector_arrays[1][0]])
    batch = model.views.test(torch.from_numpy(x.astype(np.float32)))
    adapted = model.network["adapted"].eval()
    assert np.allclose(features.after, adapted.features(batch).detach().numpy(), rtol=1e-4, atol=1e-4)
    assert features.domain.tolist() == [0] * 60 + [1] * 60
    assert features.label.tolist() == ([0] * 20 + [1] * 20 + [2] * 20) * 2
    start = starting_encoder(RunFolder(array_run), model)
    assert np.allclose(features.before, start(batch).detach().numpy(), rtol=1e-4, atol=1e-4)


def test_the_encoder_at_the_start_is_the_very_one_that_was_trained(image_arrays, tmp_path):
    knobs = FAST | {"epochs": 1, "pretrain_epochs": 0, "lr": 1e-30, "weight_decay": 0, "seed": 3}
    model = unihssl.fit(*image_arrays, out=tmp_path / "run", **knobs)
    start = starting_encoder(RunFolder(tmp_path / "run"), model)
    trained = dict(model.network.encoder.named_parameters())
    assert all((p - trained[name]).abs().max() < 1e-20 for name, p in start.named_parameters())


def plot(*args: object) -> list[Path]:
    done = CliRunner().invoke(app, ["plot", *map(str, args), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return [Path(file) for file in json.loads(done.stdout)["files"]]


def test_the_commands_draw_a_run(run, image_folders, tmp_path):
    assert "adapt" in texts(plot("learning", run, "--out", tmp_path / "new" / "folder"))
    own = plot("confusion", run, "--out", tmp_path, "--device", "cpu")
    assert own == [tmp_path / "confusion.png", tmp_path / "confusion.svg"] and "of 18 right" in texts(own)
    given = ["--labeled", image_folders[0], "--unlabeled", image_folders[1]]
    assert "of 60 right" in texts(plot("confusion", run, *given, "--out", tmp_path))
    assert "of 18 right" in texts(plot("confusion", run, *given, "--held-out", "--out", tmp_path))
    assert "after training (unihssl)" in texts(plot("features", run, "--out", tmp_path))
    assert not list(tmp_path.glob(".*"))


def grid_run(folder: Path, pair: str, variant: str = "", experiment: str = "benchmark", **config: object) -> Path:
    """A finished run of a grid."""
    fake_run(folder, [row(1, 1.0, mask_rate=0.5)], **config)
    confused = {"a": {"a": 3, "b": 1}, "b": {"b": 4}}
    part = {"n": 8, "accuracy": 0.875}
    result = {"pooled": part, "labeled": part | {"confusion": confused}}
    (folder / "result.json").write_text(json.dumps(result))
    role = {"experiment": experiment, "variant": variant or config.get("method", "fixmatch")}
    (folder / "run.json").write_text(json.dumps({"dataset": "digits", "pair": pair, "roles": [role]}))
    return folder


def test_the_runs_of_a_grid_are_drawn_each_by_itself(tmp_path):
    grid = tmp_path / "grid"
    for number, (pair, seed) in enumerate([("a/b", 0), ("a/b", 1), ("b/a", 0)]):
        grid_run(grid / str(number), pair, seed=seed)
    grid_run(grid / "3", "a/b", "mcc:original", method="mcc")
    (grid / "figures").mkdir()
    (grid / "table.md").write_text("")
    fake_run(grid / "unfinished", [row(1, 1.0)])
    files = plot("learning", grid, "--out", tmp_path)
    every = ["a-b-fixmatch-0", "a-b-fixmatch-1", "b-a-fixmatch-0", "a-b-mcc-original-0"]
    assert files == [tmp_path / f"learning-{name}.{kind}" for name in every for kind in ("png", "svg")]
    assert "fixmatch\ndigits b/a, seed 0" in texts(tuple(files[4:6]))
    names = [file.stem for file in plot("confusion", *grid.iterdir(), "--pair", "a/b", "--seed", 0, "--out", tmp_path)]
    assert set(names) == {"confusion-a-b-fixmatch-0", "confusion-a-b-mcc-original-0"}
    one = plot("confusion", grid, "--method", "mcc:original", "--out", tmp_path)
    assert one[0].name == "confusion.png" and "mcc, digits a/b, seed 0" in texts(tuple(one))
    with pytest.raises(UserError, match=r"grid: not a run directory, nor is there a finished run with seed=7 below"):
        plot("learning", grid, "--seed", 7)
    with pytest.raises(UserError, match=r"x: no such folder"):
        plot("confusion", grid, tmp_path / "x")


def test_runs_of_one_name_are_told_apart_by_their_folders(tmp_path):
    for folder, lr in (("one", 0.1), ("two", 0.2)):
        grid_run(tmp_path / "grid" / folder, "a/b", lr=lr)
    files = plot("learning", tmp_path / "grid", "--out", tmp_path)
    assert [f.stem for f in files[::2]] == ["learning-a-b-fixmatch-0-grid-one", "learning-a-b-fixmatch-0-grid-two"]


def test_run_directories_become_one_figure_that_names_their_seeds(tmp_path):
    runs = [grid_run(tmp_path / str(seed), "a/b", seed=seed) for seed in (10, 2)]
    files = plot("learning", *runs, "--out", tmp_path)
    assert files[0].name == "learning.png"
    printed = texts(tuple(files))
    assert "fixmatch; mean ± std of 2 runs" in printed and "digits a/b, seeds 2, 10" in printed


def test_sensitivity_curves_are_drawn_again_from_runs(tmp_path):
    for value in (0.5, 0.8):
        settings = {"method": "unihssl", "preset": "paper", "beta": value}
        grid_run(tmp_path / "runs" / str(value), "a/b", f"beta={value}", "sensitivity", **settings)
    files = plot("sensitivity", tmp_path / "runs", "--out", tmp_path / "new")
    assert [f.name for f in files] == ["sensitivity-beta.png", "sensitivity-beta.svg"]
    assert "the paper's value, 0.8" in texts(tuple(files))
    grid_run(tmp_path / "other", "a/b")
    with pytest.raises(UserError, match="no run of a sensitivity study"):
        plot("sensitivity", tmp_path / "other")
    note = tmp_path / "runs" / "0.5" / "run.json"
    note.write_text(note.read_text().replace("digits", "pacs"))
    with pytest.raises(UserError, match="runs on digits and pacs; draw one data set at a time"):
        plot("sensitivity", tmp_path / "runs")


def test_what_is_missing_is_said(run, image_folders, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="no run to plot"):
        learning_curves([], tmp_path / "x")
    with pytest.raises(UserError, match=r"silent: no metrics .* train it first"):
        learning_curves([fake_run(tmp_path / "silent", [])], tmp_path / "x")
    with pytest.raises(UserError, match=r"not a run directory"):
        plot("learning", tmp_path, "--out", tmp_path)
    with pytest.raises(UserError, match=r"no class of any unlabeled test image is known; give some with unlabeled"):
        plot("features", run, "--labeled", image_folders[0], "--out", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be made a folder"):
        plot("learning", run, "--out", tmp_path / "file")
    unihssl.load(run).save(tmp_path / "saved")
    with pytest.raises(UserError, match="not a run directory"):
        plot("features", tmp_path / "saved", "--labeled", image_folders[0], "--unlabeled", image_folders[1])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for figure in ("learning", "confusion", "features"):
        with pytest.raises(UserError, match=r"pip install 'unihssl\[plots\]'"):
            plot(figure, run, "--out", tmp_path)


def test_without_known_classes_the_unlabeled_domain_has_no_matrix_and_is_grey_on_the_map(vector_arrays, tmp_path):
    (x, y), (u, _) = vector_arrays
    np.savez(tmp_path / "a.npz", x=x, y=y)
    np.savez(tmp_path / "b.npz", x=u)
    knobs = {"method": "supervised", "max_steps": 2, "tensorboard": False}
    unihssl.fit(tmp_path / "a.npz", tmp_path / "b.npz", tmp_path / "run", **knobs)
    assert list(count_confusions(run_result(tmp_path / "run"))[1]) == ["labeled"]
    with pytest.raises(UserError, match="nothing was held out of the unlabeled domain"):
        unihssl.evaluate(tmp_path / "run", unlabeled=tmp_path / "b.npz", held_out=True)
    features = run_features(tmp_path / "run")
    unknown = features.domain == 1
    assert (features.label[unknown] == -1).all() and (features.label[~unknown] >= 0).all()
    network = classifier_of(unihssl.load(tmp_path / "run"))
    expected = network.features(torch.from_numpy(u.astype(np.float32))).detach().numpy()
    np.testing.assert_allclose(features.after[unknown], expected, rtol=1e-4, atol=1e-4)
    assert "unlabeled domain" in texts(tuple(plot("features", tmp_path / "run", "--out", tmp_path)))


def test_neither_the_users_backend_nor_settings_are_touched(tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path"}):
        styled = sensitivity_curve({1: [0.5]}, tmp_path / "styled", knob="k")[1].read_bytes()
    assert styled == sensitivity_curve({1: [0.5]}, tmp_path / "plain", knob="k")[1].read_bytes()
    assert dict(matplotlib.rcParams) == before


def test_a_run_by_itself_is_selected_by_its_row(tmp_path):
    for name, row_name in (("a", "mcc:original"), ("b", "mcc")):
        fake_run(tmp_path / name, [row(1, 1.0)], method="mcc", seed=0)
        (tmp_path / name / "environment.json").write_text(json.dumps({"row": row_name}))
    folders = [tmp_path / "a", tmp_path / "b"]
    assert select_runs(folders, RunFilter(method="mcc:original")) == folders[:1]
    assert select_runs(folders, RunFilter(method="mcc")) == folders


def test_figures_go_into_the_run_s_own_folder_and_never_over_another_s(run, tmp_path):
    first, second = shutil.copytree(run, tmp_path / "first"), shutil.copytree(run, tmp_path / "second")
    for folder in (first, second):
        assert plot("confusion", folder)[0] == folder / "plots" / "confusion.png"
        assert plot("learning", folder)[0] == folder / "plots" / "learning.png"
    assert plot("learning", first, second)[0] == tmp_path / "plots" / "learning-first-second.png"
    assert {file.parent.parent for file in plot("confusion", tmp_path)} == {first, second}

"""The written report: read as text, and opened in a real browser."""

import csv
import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import unihssl
from colour_domains import colour_images
from unihssl.cli.display import TerminalDisplay
from unihssl.cli.report import add_report
from unihssl.errors import UserError
from unihssl.report.answer import next_steps
from unihssl.report.charts import matrix
from unihssl.report.compare import write_comparison
from unihssl.report.facts import RunFacts
from unihssl.report.page import write_report
from unihssl.run_folder import RunFolder

SCRIPT = "<script>alert(1)</script>"
NAMES = {"blue": SCRIPT, "green": "a \"b\" & 'c'", "red": "red"}
FILE = "\"quoted\" 'n'<b>.png"
QUICK = {"backbone": "small_cnn", "epochs": 2, "pretrain_epochs": 1, "batch_size": 16, "tensorboard": False}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def write_csv(folder: Path, seed: int, brightness: int, *, labels: bool = True) -> Path:
    """Images in one folder, their classes in a CSV: names that no folder could have."""
    folder.mkdir()
    x, y = colour_images(12, brightness, seed)
    rows = [(f"{i} {FILE}", NAMES[name]) for i, name in enumerate(y)]
    for pixels, (name, _) in zip(x, rows, strict=True):
        Image.fromarray(pixels).save(folder / name)
    with (folder / "images.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label"), *((name, label if labels else "") for name, label in rows)])
    return folder / "images.csv"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("report")
    sources = write_csv(root / "a", 0, 0), write_csv(root / "b", 1, 60)
    unihssl.fit(*sources, out=root / "run", test_fraction=0.5, log_every=1, **QUICK)
    return root / "run"


@pytest.fixture(scope="module")
def page(run) -> Path:
    return unihssl.load(run).report()


@pytest.mark.parametrize("method", ["supervised+adabn", "mcc+sup", "cdan+sup", "biadapt"])
def test_methods_with_several_networks_have_a_report(image_folders, tmp_path, method):
    quick = {"method": method, "steps": 2, "backbone": "small_cnn", "tensorboard": False}
    model = unihssl.fit(*map(str, image_folders), out=tmp_path / "run", **quick)
    assert model.report().read_text().count("data:image") > 20


def test_the_report_is_one_file_that_needs_nothing_else(page, run):
    text = page.read_text()
    assert page == run / "report.html" and page.stat().st_size < 10e6
    assert not re.findall(r'(?:href|src)="(?!data:)', text) and "url(" not in text and "@import" not in text
    assert "<script" not in text and "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "On B it is" in text and "95% interval" in text and "Supervised" in text
    for title in ("Domain B, no labels needed", "What to do next", "Where it is right and wrong", "How sure it is"):
        assert title in text
    for title in ("Class proportions", "Features of both domains", "Images of domain B", "How it learnt", "Loss"):
        assert title in text
    assert "fingerprint" in text and "Environment" in text
    asked = text.split("Settings that were asked for")[1]
    names = ["test_fraction", "epochs", "batch_size", "log_every", "tensorboard", "pretrain_epochs"]
    assert re.findall(r"<b><code>(\w+)</code>", asked) == names
    assert "most confident, right" in text and "The classes take turns" in text
    assert 'class="thumb far"' in text and 'class="thumb near"' in text
    assert "Trusted pseudo-labels take part in the loss" in text


LOOK = """() => ({
    width: document.documentElement.scrollWidth,
    scripts: document.scripts.length,
    text: document.querySelector('main').textContent,
    cut: [...document.querySelectorAll('main *')].filter(
        e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === 'auto'
    ).map(e => e.className),
    copied: [...document.querySelectorAll('code.block')].map(e => {
        getSelection().selectAllChildren(e);
        return getSelection().toString();
    }),
    dark: getComputedStyle(document.body).backgroundColor === 'rgb(20, 23, 26)',
    images: [...document.images].map(image => image.complete && image.naturalWidth > 0),
    figures: [...document.querySelectorAll('figure')].map(figure => {
        const box = figure.querySelector('svg').getBoundingClientRect();
        const marks = figure.querySelectorAll('polyline, rect, polygon, circle, path').length;
        return box.width > 100 && box.height > 20 && marks > 0;
    }),
})"""


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")
def test_a_browser_draws_every_figure_runs_nothing_and_fetches_nothing(page, run, tmp_path):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    comparison, facts = write_comparison([run], tmp_path / "comparison.html"), RunFacts.read(run)
    with playwright.sync_playwright() as api:
        browser = api.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for file, width, scheme in ((page, 1280, "light"), (page, 390, "dark"), (comparison, 390, "light")):
            tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            fetched: list[str] = []
            problems: list[str] = []
            tab.on("console", lambda message, to=problems: to.append(message.text))
            tab.on("pageerror", lambda error, to=problems: to.append(str(error)))
            tab.on("dialog", lambda dialog, to=problems: (to.append(dialog.message), dialog.dismiss()))
            tab.on("request", lambda request, to=fetched: to.append(request.url))
            tab.goto(file.as_uri())
            seen = tab.evaluate(LOOK)
            assert problems == [] and [url for url in fetched if not url.startswith("data:")] == [file.as_uri()]
            assert seen["width"] == width and seen["cut"] == []  # nothing sticks out
            assert seen["scripts"] == 0 and SCRIPT in seen["text"] and seen["dark"] == (scheme == "dark")
            assert all(seen["figures"]) and all(seen["images"])
            if file == page:
                commands = [line for _, command in next_steps(facts, None) for line in command.splitlines()]
                copied = [shlex.split(text.replace("\\\n", "")) for text in seen["copied"]]
                assert len(commands) == 4 and copied[:4] == [shlex.split(command) for command in commands]
                assert len(seen["figures"]) == 10 and len(seen["images"]) > 8 and FILE in seen["text"]
            tab.close()
        browser.close()


def test_without_images_nothing_of_a_sample_is_shown(run, tmp_path):
    text = write_report(run, tmp_path / "new" / "plain.html", images=False).read_text()
    assert "data:image" not in text and "quoted" not in text and "Images are left out" in text
    assert "Where it is right and wrong" in text
    shutil.copytree(run, tmp_path / "noted")
    result = json.loads((tmp_path / "noted" / "result.json").read_text())
    noted = {"notes": ["patient_smith.png is damaged"], "sampling": "drawn equally often"}
    (tmp_path / "noted" / "result.json").write_text(json.dumps(result | noted))
    for images in (True, False):
        text = write_report(tmp_path / "noted", images=images).read_text()
        assert ("patient_smith" in text) == images and ("Notes are left out" in text) != images
        top, _, rest = text.partition("What to do next")
        assert "Notes on the data" in top and "drawn equally often" in rest and "Notes" not in rest


def test_a_matrix_of_many_classes_draws_what_there_is() -> None:
    counts = np.diag(np.arange(450))
    drawn = str(matrix(counts, [f"class {i}" for i in range(450)], numbers=False))
    assert drawn.count("<rect") == 450 and 'width="-' not in drawn  # the ground, and 449 cells


def test_an_unlabeled_domain_stays_unknown_in_every_part(tmp_path):
    """Nothing that holds on A may be shown as if it held on B."""
    a, b = write_csv(tmp_path / "a", 0, 0), write_csv(tmp_path / "b", 1, 60, labels=False)
    unihssl.fit(a, b, out=tmp_path / "run", test_fraction=0.5, **QUICK)
    text = write_report(tmp_path / "run").read_text()
    assert "On B it is unknown" in text and text.count('<p class="number unknown">unknown</p>') == 2
    assert "Domain B, unlabeled" not in text and "Domain A, labeled" in text  # confusion matrices
    assert text.index("Class proportions") < text.index("How sure it is")  # beside the one matrix
    assert "domain B (" not in text and "domain A (18 held-out samples)" in text  # reliability
    assert "For B both are unknown" in text and "Their classes are not known" in text
    assert "B&#39;s predicted one" in text and '<br><span class="bad">is' not in text.split("Images of domain B")[1]


def test_vectors_and_arrays_have_reports_too(vector_arrays, tmp_path):
    model = unihssl.fit(*vector_arrays, out=tmp_path / "run", epochs=2, pretrain_epochs=1, tensorboard=False)
    assert "No samples of the labeled domain are shown" in model.report().read_text()
    text = model.report(tmp_path / "given.html", labeled=vector_arrays[0], unlabeled=vector_arrays[1]).read_text()
    assert "The samples are vectors" in text and "Features of both domains" in text
    with pytest.raises(UserError, match="train with out"):
        unihssl.fit(*vector_arrays, epochs=1, pretrain_epochs=1, tensorboard=False).report()


def test_a_report_that_fails_loses_nothing(run, tmp_path, monkeypatch, capsys):
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "report.html").unlink(missing_ok=True)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with TerminalDisplay() as display:
        assert add_report(tmp_path / "run", display) is None
        monkeypatch.setattr("unihssl.report.page.write_report", lambda *_, **__: {}["no such key"])
        assert add_report(tmp_path / "run", display) is None
    printed = capsys.readouterr().err
    assert "the report was not written (ModuleNotFoundError: " in printed and "the run is complete" in printed
    assert "(KeyError: " in printed and "Traceback" not in printed
    assert not (tmp_path / "run" / "report.html").exists() and RunFolder(tmp_path / "run").is_finished


def test_a_comparison_says_how_many_steps_a_run_took(run, tmp_path):
    steps = RunFolder(run).read_metrics()[-1]["global_step"]
    assert steps and f", {steps} steps<" in write_comparison([run], tmp_path / "comparison.html").read_text()


def test_every_row_of_the_log_adds_up_to_its_loss_and_knows_its_classes(run):
    rows = RunFolder(run).read_metrics()
    assert rows and all(sum(row["weighted"].values()) == pytest.approx(row["loss"], rel=1e-4) for row in rows)
    adapted = [row for row in rows if row["stage"] == "adapt"]
    assert all(np.isclose(sum(row["pseudo_shares"]), 1) for row in adapted) and "pseudo_shares" not in rows[0]
    assert any(row["weighted"]["prototype"] != row["terms"]["prototype"] for row in adapted)

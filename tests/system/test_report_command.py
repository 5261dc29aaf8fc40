"""`unihssl report`, and the report at the end of `unihssl train`."""

import json
import shutil

from warm_cli import train_args, unihssl


def test_train_ends_with_a_report_and_says_what_it_knows_of_the_unlabeled_domain(image_folders, tmp_path):
    run = tmp_path / "run"
    arguments = [a for a in train_args(*image_folders, run, test_fraction=0.3) if a != "--no-report"]
    printed = unihssl(*arguments)
    assert printed.code == 0 and f"Report: {run / 'report.html'}" in printed.stderr
    assert (
        "domain B (unlabeled), no labels needed:" in printed.stderr
        and "mean confidence on training samples of B" in printed.stderr
    )
    result = json.loads((run / "result.json").read_text())
    assert result["unlabeled_check"]["n"] == 42 and result["unlabeled_check"]["view_agreement"] is not None
    assert set(json.loads((run / "environment.json").read_text())["data"]) == {"labeled", "unlabeled"}

    (run / "report.html").unlink()
    moved = [shutil.copytree(folder, tmp_path / f"moved-{folder.name}") for folder in image_folders]
    where = ["--labeled", moved[0], "--unlabeled", moved[1]]
    assert unihssl("report", run, *where, "--no-images", "--json").result == {"out": str(run / "report.html")}
    assert "data:image" not in (run / "report.html").read_text()

    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "config.yaml").write_text("- no settings")
    (tmp_path / "damaged" / "result.json").write_text("{}")
    other = shutil.copytree(run, tmp_path / "other")
    config = (other / "config.yaml").read_text().replace("seed: 0", "seed: 1")
    (other / "config.yaml").write_text(config)
    compared = unihssl("report", run, other, "--out", tmp_path / "both.html")
    assert compared.code == 0 and "Comparison of 2 runs" in (tmp_path / "both.html").read_text()


def test_what_is_no_finished_run_is_refused(tmp_path):
    assert "no such run directory" in unihssl("report", tmp_path / "none").error
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "config.yaml").write_text("method: unihssl\n")
    assert "has not finished" in unihssl("report", tmp_path / "begun").error

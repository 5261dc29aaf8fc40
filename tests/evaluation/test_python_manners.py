"""`fit` behaves as Python users expect: arguments, errors, interrupts, logging, progress."""

import logging
import os
import signal

import numpy as np
import pytest
import yaml

import unihssl

RNG = np.random.default_rng(0)
Y = np.repeat([0, 1], 20)
X, U = RNG.normal(size=(2, 40, 4)) + 3 * np.eye(4)[Y]
SHORT = {"epochs": 1, "pretrain_epochs": 1, "tensorboard": False}


def weights(model) -> list[np.ndarray]:
    return [p.detach().numpy() for p in model.network.parameters()]


def test_three_arrays_are_x_y_and_the_unlabeled_x(tmp_path):
    expected = weights(unihssl.fit((X, Y), U, **SHORT))
    for model in (
        unihssl.fit(X, Y, U, **SHORT),
        unihssl.fit(X, Y, U, tmp_path / "a", **SHORT),
        unihssl.fit(X, Y, U, out=tmp_path / "b", **SHORT),
        unihssl.fit((X, Y), U, tmp_path / "c", **SHORT),
        unihssl.fit(labeled=(X, Y), unlabeled=U, **SHORT),
    ):
        assert all(map(np.array_equal, weights(model), expected))
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "c"}


def test_too_many_arguments_are_a_type_error():
    with pytest.raises(TypeError, match="two domains"):
        unihssl.fit(X, Y, U, "runs/a", "runs/b")


def test_a_user_error_is_a_value_error_in_python_words():
    with pytest.raises(ValueError, match="resume=True needs out"):
        unihssl.fit(X, Y, U, resume=True)


class Interrupt(unihssl.Callback):
    def on_step(self, stage, step, total):
        os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_is_a_keyboard_interrupt_that_says_how_to_resume(tmp_path):
    with pytest.raises(KeyboardInterrupt, match=r"Resume with: fit\(.*run', resume=True\)"):
        unihssl.fit(X, Y, U, out=tmp_path / "run", callbacks=[Interrupt()], **SHORT)
    assert unihssl.fit(X, Y, U, out=tmp_path / "run", resume=True, **SHORT).result["labeled"]["n"] == 4


def test_an_interrupt_without_a_folder_advises_none():
    with pytest.raises(KeyboardInterrupt, match=r"^stopped; nothing is kept without out$"):
        unihssl.fit(X, Y, U, callbacks=[Interrupt()], **SHORT)


def test_notes_go_to_the_log_and_nothing_is_printed_where_nobody_watches(capsys, caplog):
    with caplog.at_level(logging.INFO, logger="unihssl"):
        unihssl.fit(X, Y, U, **SHORT)
    assert "2 classes, 36 labeled and 40 unlabeled training samples" in caplog.text
    assert "adapt" in caplog.text and "loss" in caplog.text
    assert capsys.readouterr() == ("", "")


def test_progress_is_shown_if_asked_for(capsys):
    unihssl.fit(X, Y, U, verbose=True, **SHORT)
    shown = capsys.readouterr()
    assert shown.out == "" and "2 classes, 36 labeled" in shown.err and "adapt" in shown.err


def test_help_lists_every_setting():
    text = unihssl.fit.__doc__
    assert "epochs = 100: Epochs of the main training stage" in text and "group_by = ''" in text


def test_a_model_scores_and_is_evaluated_on_what_is_given(tmp_path):
    model = unihssl.fit(X, Y, U, out=tmp_path / "run", **SHORT)
    accuracy = model.score(U, Y)
    assert accuracy == np.mean(model.predict(U) == Y)
    assert unihssl.evaluate(model, unlabeled=(U, Y))["unlabeled"]["accuracy"] == pytest.approx(accuracy)
    with pytest.raises(ValueError, match="40 samples but 39 labels"):
        model.score(U, Y[1:])
    with pytest.raises(ValueError, match="no labeled test images were held out here; give some with labeled"):
        unihssl.evaluate(unihssl.fit(X, Y, U, **SHORT))


def test_predictions_are_a_table_and_a_csv_that_no_spreadsheet_runs(tmp_path):
    names = np.array(["=cmd()", "plain"])[Y]
    found = unihssl.fit(X, names, U, **SHORT).predictions(U)
    pytest.importorskip("pandas")
    frame = found.to_frame()
    assert list(frame.columns) == [
        "path",
        "class",
        "confidence",
        "novelty",
        "p(=cmd())",
        "p(plain)",
        "p(unlabeled domain)",
    ]
    assert len(frame) == 40 and set(frame["class"]) <= {"=cmd()", "plain"}
    found.to_csv(tmp_path / "preds.csv")
    cells = {line.split(",")[1] for line in (tmp_path / "preds.csv").read_text().splitlines()[1:]}
    assert cells <= {"'=cmd()", "plain"}


def test_a_saved_model_carries_its_results_settings_and_card(tmp_path):
    model = unihssl.fit(X, Y, U, path_column="file", **SHORT)
    model.save(tmp_path / "model")
    loaded = unihssl.load(tmp_path / "model")
    assert loaded.result == model.result and loaded.settings.path_column == "file"
    card = (tmp_path / "model" / "README.md").read_text()
    header = yaml.safe_load(card.split("---")[1])
    assert header["library_name"] == "unihssl" and header["pipeline_tag"] == "tabular-classification"
    (measured,) = header["model-index"][0]["results"]
    assert measured["metrics"][0] == {"type": "accuracy", "value": round(model.result["labeled"]["accuracy"], 4)}
    assert "The accuracy on the unlabeled domain is not known." in card

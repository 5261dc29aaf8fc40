"""Callbacks see a run from its start to its end, and trackers pass its readings on."""

import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import unihssl

RNG = np.random.default_rng(0)
Y = np.repeat([0, 1], 20)
X, U = RNG.normal(size=(2, 40, 4)) + 3 * np.eye(4)[Y]
SHORT = {"epochs": 2, "pretrain_epochs": 1, "tensorboard": False, "verbose": False}


class Witness(unihssl.Callback):
    def __init__(self, stop_at: int = 0):
        self.calls, self.stop_at = [], stop_at

    def on_start(self, run, settings, steps_done):
        self.calls.append(("start", settings["epochs"], steps_done))

    def on_step(self, stage, step, total):
        self.calls.append(("step", stage, step, total))
        if step == self.stop_at:
            raise RuntimeError("enough")

    def on_epoch(self, row):
        self.calls.append(("epoch", row["stage"], row["epoch"]))

    def on_end(self, model):
        self.calls.append(("end", model))


def test_a_callback_sees_every_step_every_epoch_and_the_model():
    witness = Witness()
    model = unihssl.fit(X, Y, U, method="mcc", callbacks=[witness], epochs=2, tensorboard=False, verbose=False)
    kinds = [call[0] for call in witness.calls]
    steps = [call for call in witness.calls if call[0] == "step"]
    assert witness.calls[0] == ("start", 2, 0) and witness.calls[-1] == ("end", model)
    assert [step[2] for step in steps] == list(range(1, steps[0][3] + 1))
    assert kinds.count("epoch") == 2


def test_a_run_that_fails_ends_every_callback_that_was_started():
    first, second = Witness(), Witness(stop_at=1)
    with pytest.raises(RuntimeError, match="enough"):
        unihssl.fit(X, Y, U, callbacks=[first, second], **SHORT)
    assert first.calls[-1] == second.calls[-1] == ("end", None)


class Tracker(SimpleNamespace):
    """Stands in for a module of MLflow or of Weights & Biases: notes every call."""

    def __init__(self):
        super().__init__(called=[], summary={})

    def __getattr__(self, name):
        return lambda *args, **options: self.called.append((name, args, options)) or self


@pytest.mark.parametrize(
    ("package", "methods"),
    [("mlflow", ["start_run", "log_params", "log_metrics", "end_run"]), ("wandb", ["init", "log", "finish"])],
)
def test_trackers_get_settings_readings_and_results(package, methods, monkeypatch):
    tracker = Tracker()
    monkeypatch.setitem(sys.modules, package, tracker)
    unihssl.fit(X, Y, U, track=package, **SHORT)
    names = [name for name, _, _ in tracker.called]
    assert set(names) == set(methods) and names[0] == methods[0] and names[-1] == methods[-1]
    sent = {key for _, args, _ in tracker.called for arg in args if isinstance(arg, dict) for key in arg}
    assert {"adapt/loss", "adapt/terms/labeled", "adapt/stats/mask_rate"} <= sent
    assert "test/labeled/accuracy" in sent | set(tracker.summary)


def test_a_tracker_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(unihssl.UserError, match="track='wandb' needs the package wandb: pip install wandb"):
        unihssl.fit(X, Y, U, track="wandb", **SHORT)


def test_two_fits_in_two_threads_give_what_each_gives_alone():
    def weights(seed: int) -> np.ndarray:
        model = unihssl.fit(X, Y, U, seed=seed, **SHORT)
        return np.concatenate([p.detach().numpy().ravel() for p in model.network.parameters()])

    alone = [weights(seed) for seed in (0, 1)]
    together: dict[int, np.ndarray] = {}
    threads = [threading.Thread(target=lambda s=s: together.update({s: weights(s)})) for s in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in (0, 1):
        assert np.array_equal(together[seed], alone[seed])


def test_a_fit_inside_a_callback_does_not_wait_for_itself():
    class Nested(unihssl.Callback):
        def on_end(self, model):
            self.inner = unihssl.fit(X, Y, U, method="supervised", epochs=1, tensorboard=False, verbose=False)

    nested = Nested()
    unihssl.fit(X, Y, U, callbacks=[nested], **SHORT)
    assert nested.inner.method == "supervised"

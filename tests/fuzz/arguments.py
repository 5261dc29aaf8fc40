"""Bad arguments of the Python interface: wrong types, shapes, dtypes and values, nested, NaN, huge, negative."""

import contextlib
import io
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import unihssl
from unihssl.config import Settings, knob_fields
from unihssl.errors import UserError

Random = np.random.Generator
ROWS, WIDTH = 12, 3
Y = np.repeat([0, 1, 2], 4)
X = (np.random.default_rng(0).normal(size=(ROWS, WIDTH)) + 3 * np.eye(3)[Y]).astype(np.float32)
QUICK = {"epochs": 1, "max_steps": 2, "tensorboard": False, "device": "cpu", "backbone": "mlp", "batch_size": 4}
NUMBERS = [0, -1, 1, 2, 2**31, 2**70, -(2**63), 1e300, -1e300, 1e-300, float("nan"), float("inf"), True, 0.5, 1j]
THINGS: list[Any] = [None, "", "x", "../../etc", "\x1b[2J", "a\0b", "é\u202e", "9" * 400, b"x", b"", Path(), ...]
THINGS += [[], {}, (), set(), [[]], [[[]]], [None], ["a", None], {"a": {"a": 1}}, [[1, 2], [3]], (1, 2), "catalog:x"]
THINGS += [object, Fraction(1, 3), range(3), slice(None), print, Image.new("L", (2, 2)), [Image.new("RGB", (1, 1))]]
THINGS += ["|", "/dev/null", "a" * 5000, "nan", "-1", "column", np.nan, np.datetime64("NaT"), Ellipsis]
DTYPES = ["f2", "f8", "i1", "u8", "i8", "c8", "?", "U4", "S4", "O", "M8[s]", "m8[s]", "V2"]
SHAPES = [(), (0,), (ROWS,), (0, WIDTH), (ROWS, 0), (1, WIDTH), (ROWS, WIDTH + 1), (2, 2, 2), (2, 2, 2, 2), (1,) * 6]
SHAPES += [(ROWS, 5, 5, 3), (ROWS, 5, 5), (ROWS, 1, 1), (2, WIDTH), (ROWS - 1, WIDTH), (3, 5, 5, 600)]
KNOBS = [name for name in knob_fields(Settings) if name not in ("labeled", "unlabeled")]


def array(random: Random) -> Any:
    """Samples of which something is wrong, mostly."""
    how = random.integers(8)
    if how == 0:
        return X
    if how == 1:
        return np.ones(SHAPES[random.integers(len(SHAPES))], np.float32)
    if how == 2:
        return np.zeros((ROWS, WIDTH), DTYPES[random.integers(len(DTYPES))])
    spoilt = X.astype(np.float64)
    spoilt[random.integers(ROWS), random.integers(WIDTH)] = random.choice([np.nan, np.inf, -np.inf, 1e300, 1e39])
    if how == 3:
        return spoilt
    if how == 4:
        return spoilt.tolist() if random.random() < 0.5 else X.tolist()
    if how == 5:
        return torch.from_numpy(spoilt)
    if how == 6:
        return [*X.tolist(), thing(random)]
    return np.ma.masked_less(X, 0) if random.random() < 0.3 else np.full(ROWS, "a.png")


def labels(random: Random) -> Any:
    how = random.integers(6)
    if how == 0:
        return Y
    if how == 1:
        return Y.astype(DTYPES[random.integers(8)])
    if how == 2:
        return random.choice([-1, 0, 1, 2, 7], ROWS)
    if how == 3:
        return [thing(random) for _ in range(ROWS)]
    if how == 4:
        listed = Y.astype(object)
        listed[random.integers(ROWS)] = thing(random)
        return listed if random.random() < 0.5 else listed.tolist()
    return Y[: random.integers(ROWS)] if random.random() < 0.5 else np.stack([Y, Y])


def thing(random: Random) -> Any:
    return [*NUMBERS, *THINGS][random.integers(len(NUMBERS) + len(THINGS))]


def any_of(random: Random, *makers: Callable[[Random], Any]) -> Any:
    return makers[random.integers(len(makers))](random)


def knobs(random: Random) -> dict[str, Any]:
    """Settings that end soon, and a strange one."""
    name = str(random.choice(KNOBS)) if random.random() < 0.9 else str(thing(random))
    slow = {"devices", "nodes", "backbone", "weights", "track", "cache", "max_steps", "feature_views"}
    return QUICK | ({name: thing(random)} if name not in slow and random.random() < 0.7 else {})


@cache
def model() -> unihssl.Model:
    return unihssl.fit(X, Y, X, method="unihssl", **QUICK | {"pretrain_epochs": 1})


@cache
def classifier() -> unihssl.HSSLClassifier:
    return unihssl.HSSLClassifier("supervised", settings=QUICK).fit(X, Y)


def fit(random: Random) -> None:
    more = {"method": "supervised"} | knobs(random)
    if random.random() < 0.2:
        more["target_labels"] = any_of(random, labels, thing, lambda r: {thing_key(r): thing(r)})
    if random.random() < 0.1:
        more[str(random.choice(["out", "verbose", "callbacks", "resume"]))] = thing(random)
    if random.random() < 0.5:
        unihssl.fit(X, Y, X, **more)
    else:
        labeled = any_of(random, thing, lambda r: (array(r), labels(r)), lambda r: (X, labels(r)))
        unihssl.fit(labeled, any_of(random, array, thing, lambda r: (X, labels(r))), **more)


def thing_key(random: Random) -> Any:
    found = thing(random)
    return found if type(found).__hash__ and not isinstance(found, slice) else 0


def predict(random: Random) -> None:
    ask = str(random.choice(["predict", "predict_proba", "predict_domain", "novelty", "predictions"]))
    getattr(model(), ask)(any_of(random, array, array, thing))


def audit(random: Random) -> None:
    how = random.integers(4)
    if how == 0:
        model().audit(any_of(random, array, thing), labels(random), max_risk=thing(random))
    elif how == 1:
        model().audit(X, any_of(random, labels, thing), domain=any_of(random, array, thing))
    elif how == 2:
        model().score(any_of(random, array, lambda r: X), any_of(random, labels, thing))
    else:
        model().suggest(X, thing(random), by=str(random.choice(["clusters", "margin", "x"])), seed=thing(random))


def evaluate(random: Random) -> None:
    given = {role: any_of(random, array, thing, lambda r: (X, labels(r))) for role in ("labeled", "unlabeled")}
    unihssl.evaluate(model() if random.random() < 0.8 else thing(random), **given)


def estimator(random: Random) -> None:
    """What scikit-learn refuses for us is a ValueError or TypeError, as everywhere in scikit-learn."""
    try:
        if random.random() < 0.5:
            ask = str(random.choice(["predict", "predict_proba"]))
            getattr(classifier(), ask)(any_of(random, array, thing))
            return
        named = {
            str(random.choice(["method", "epochs", "lr", "batch_size", "settings", "random_state"])): thing(random)
        }
        asked = unihssl.HSSLClassifier(**{"method": "supervised", "settings": QUICK} | named)
        asked.fit(array(random), labels(random), any_of(random, lambda r: None, labels))
    except (ValueError, TypeError) as error:
        raise UserError(str(error).partition("\n")[0]) from error


def files(random: Random) -> None:
    how = random.integers(3)
    if how == 0:
        unihssl.load(thing(random))
    elif how == 1:
        unihssl.export_run(thing(random), thing(random))
    else:
        unihssl.select(thing(random))


CALLS = [fit, fit, predict, predict, audit, evaluate, estimator, files]


def arguments(random: Random, folder: Path) -> None:
    """A call with arguments that it was not made for."""
    with contextlib.redirect_stderr(io.StringIO()):
        CALLS[random.integers(len(CALLS))](random)

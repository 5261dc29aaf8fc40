"""Values from outside become settings, or one sentence that says how to put them right."""

import dataclasses
from dataclasses import dataclass
from typing import Literal

import pytest

from unihssl.config import (
    Settings,
    changes_result,
    deciding_knobs,
    describe_knobs,
    knob,
    knob_fields,
    parse,
    parse_saved,
)
from unihssl.errors import UserError


@dataclass(frozen=True)
class Params:
    """A method's knobs, declared as methods declare theirs."""

    beta: float = knob(0.8, "Weight of the past.", low=0, high=1)
    rounds: int = knob(3, "Rounds.", low=1)
    most: float = knob(1.0, "At most five.", high=5)
    slow_start: bool = knob(False, "Start slowly.")
    kind: Literal["soft", "hard"] = knob("soft", "Kind of labels.")


def settings(**values):
    return parse(values, [Settings])[0]


def test_defaults():
    assert parse({}, [Settings, Params]) == (Settings(), Params())


def test_values_find_their_dataclass():
    run, params = parse({"beta": 0.5, "epochs": 7, "kind": "hard"}, [Settings, Params])
    assert run == Settings(epochs=7)
    assert params == Params(beta=0.5, kind="hard")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("lr", "5e-4", 5e-4),
        ("lr", "0.01", 0.01),
        ("lr", 1, 1.0),
        ("lr", 0, 0.0),
        ("epochs", "12", 12),
        ("epochs", 12.0, 12),
        ("epochs", "1e3", 1000),
        ("seed", 2**53 + 1, 2**53 + 1),
        ("seed", str(2**53 + 1), 2**53 + 1),
        ("flip", "no", False),
        ("flip", "False", False),
        ("flip", "off", False),
        ("flip", 0, False),
        ("flip", False, False),
        ("tensorboard", "yes", True),
        ("tensorboard", "TRUE", True),
        ("tensorboard", 1, True),
        ("split", "random", "random"),
        ("graph", False, "off"),
        ("backbone", "resnet18", "resnet18"),
        ("group_by", "", ""),
        ("test_fraction", 0, 0.0),
        ("test_fraction", 0.9, 0.9),
        ("image_size", 2048, 2048),
    ],
)
def test_values_are_converted(name, value, expected):
    found = getattr(settings(**{name: value}), name)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("name", "near"),
    [("epoch", "epochs"), ("batchsize", "batch_size"), ("weight-decay", "weight_decay")],
)
def test_unknown_names_suggest_the_nearest(name, near):
    with pytest.raises(UserError, match=rf"^unknown setting '{name}': did you mean '{near}'\?$"):
        settings(**{name: 1})


def test_unknown_names_of_a_method_are_looked_for_in_both():
    with pytest.raises(UserError, match="unknown setting 'slowstart': did you mean 'slow_start'"):
        parse({"slowstart": True}, [Settings, Params])


def test_names_far_from_all_list_the_knobs():
    with pytest.raises(
        UserError, match=r"unknown setting 'zzzz': the knobs are: beta, kind, most, rounds, slow_start$"
    ):
        parse({"zzzz": 1}, [Params])


def test_names_that_are_not_text():
    """As a YAML file with a number for a key gives them."""
    with pytest.raises(UserError, match="unknown setting '3'"):
        parse({3: 1}, [Settings])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("epochs", -1, "epochs must be at least 0, got -1; the nearest valid value is 0"),
        ("batch_size", 1, "batch_size must be at least 2, got 1; the nearest valid value is 2"),
        ("test_fraction", 0.95, "between 0 and 0.9, got 0.95; the nearest valid value is 0.9"),
        ("test_fraction", "-0.1", "between 0 and 0.9, got -0.1; the nearest valid value is 0$"),
        ("momentum", 1, "between 0 and 0.9999, got 1; the nearest valid value is 0.9999"),
        ("image_size", 4096, "between 0 and 2048, got 4096; the nearest valid value is 2048"),
        ("label_shift", 0.5, "at least 1, got 0.5; the nearest valid value is 1"),
        ("beta", 1.5, "beta must be between 0 and 1, got 1.5; the nearest valid value is 1"),
        ("rounds", 0, "rounds must be at least 1, got 0; the nearest valid value is 1"),
        ("most", 6, "most must be at most 5, got 6; the nearest valid value is 5"),
    ],
)
def test_out_of_range(name, value, message):
    with pytest.raises(UserError, match=message):
        parse({name: value}, [Settings, Params])


@pytest.mark.parametrize("value", [-1234567, -12345678])
def test_out_of_range_values_are_quoted_as_given(value):
    with pytest.raises(UserError, match=f"got {value};"):
        settings(epochs=value)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("epochs", "ten", "a whole number"),
        ("epochs", 1.5, "a whole number"),
        ("epochs", None, "a whole number"),
        ("epochs", True, "a whole number"),
        ("epochs", [1], "a whole number"),
        ("epochs", "inf", "a whole number"),
        ("epochs", "1e30", "a whole number"),
        ("lr", "fast", "a finite number"),
        ("lr", "nan", "a finite number"),
        ("lr", float("inf"), "a finite number"),
        pytest.param("lr", 10**400, "a finite number", id="lr-huge"),
        ("lr", "", "a finite number"),
        ("lr", False, "a finite number"),
        ("lr", {"a": 1}, "a finite number"),
        ("flip", "maybe", "true or false"),
        ("flip", 2, "true or false"),
        ("flip", None, "true or false"),
        ("backbone", None, "text"),
        ("group_by", None, "text"),
        ("weights", ["a"], "text"),
        ("labeled", {"a": 1}, "text"),
    ],
)
def test_wrong_types(name, value, kind):
    with pytest.raises(UserError, match=f"{name} must be {kind}, got ") as raised:
        settings(**{name: value})
    assert repr(value) in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "split",
            "stratify",
            r"split must be one of stratified, random, search, reserved, got 'stratify' \(nearest: stratified\)",
        ),
        ("device", "gpu", r"device must be one of auto, cpu, cuda, got 'gpu'$"),
        ("graph", "on", r"graph must be one of auto, network, off, got 'on'$"),
        ("precision", "fp16", r"one of auto, bf16, fp32, got 'fp16' \(nearest: bf16\)"),
        ("kind", "zzz", "kind must be one of soft, hard, got 'zzz'$"),
        ("split", None, "got None"),
        ("split", 3, "got 3"),
        ("split", ["random"], "got "),
    ],
)
def test_choices(name, value, message):
    with pytest.raises(UserError, match=message):
        parse({name: value}, [Settings, Params])


def test_every_knob_is_described():
    rows = {name: (default, allowed, help) for name, default, allowed, help in describe_knobs(Settings, Params)}
    assert list(rows) == [f.name for cls in (Settings, Params) for f in dataclasses.fields(cls)]
    assert all(allowed and help for _, allowed, help in rows.values())
    assert rows["split"][:2] == ("stratified", "stratified|random|search|reserved")
    assert rows["test_fraction"][:2] == ("0.1", "float 0..0.9")
    assert rows["batch_size"][:2] == ("32", "int 2..")
    assert rows["most"][:2] == ("1.0", "float ..5")
    assert rows["flip"][:2] == ("True", "bool")


@pytest.mark.parametrize("cls", [Settings, Params])
def test_defaults_are_valid(cls):
    fields = knob_fields(cls)
    assert parse({name: field.default for name, (field, _) in fields.items()}, [cls]) == (cls(),)
    assert parse({name: str(field.default) for name, (field, _) in fields.items()}, [cls]) == (cls(),)


def test_settings_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().epochs = 3


def test_settings_that_an_earlier_version_wrote_can_be_read():
    saved = {"home": "disk", "schedule": "inverse", "align": "none", "sampling": "auto"}
    (settings,) = parse_saved(saved, (Settings,))
    assert settings == Settings(placement="disk", lr_schedule="inverse")
    with pytest.raises(UserError, match="unknown setting 'align'"):
        parse({"align": "none"}, (Settings,))
    with pytest.raises(UserError, match="placement must be one of"):
        parse_saved({"home": "cellar"}, (Settings,))


def test_what_decides_the_result_is_said_by_the_knobs():
    assert deciding_knobs(Settings(device="cpu", preset="paper", epochs=7)) == {"epochs": 7}
    assert deciding_knobs(Settings(lr_schedule="inverse")) == {"schedule": "inverse"}  # as 0.1.0 called it
    with pytest.raises(UserError, match="'home': it is now called 'placement'"):
        parse({"home": "disk"}, (Settings,))
    assert not changes_result("placement") and changes_result("lr") and changes_result("beta")

"""Every setting of a run as an option of its own: `--batch-size 64` is `--set batch_size=64`."""

import difflib
import functools
import inspect
import typing
from collections.abc import Callable, Container, Sequence
from typing import Any, Literal

import typer

from unihssl.cli.options import UsageError
from unihssl.config import Settings, knob_fields

# Each group of the help begins with this setting, in the order of `Settings`.
GROUPS = {"method": "Method and network", "labeled": "Data", "weak_view": "Views", "epochs": "Training"}
GROUPS |= {"placement": "Machine and log"}
FIRST = ("epochs", "batch_size", "lr", "seed")  # stand among the options that matter most
METAVAR = {int: "<int>", float: "<float>", str: "<str>"}
CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True}  # what is left may be a method's own setting


def with_settings(command: Callable[..., None], hidden: Container[str] = ()) -> Callable[..., None]:
    """Add an option for every setting that the command has none for; it gets those given as its argument `knobs`.

    Those that are `hidden` are not in its help: it refuses them.
    """
    own = dict(inspect.signature(command).parameters)
    del own["knobs"]
    options = {name: option for name, option in _options(hidden).items() if name not in own}
    first = {name: options.pop(name) for name in FIRST if name in options}
    keyword = inspect.Parameter.KEYWORD_ONLY
    context = inspect.Parameter("context", keyword, annotation=typer.Context)
    parameters = [context, *(parameter.replace(kind=keyword) for parameter in own.values())]
    position = 1 + list(own).index("method") + 1 if "method" in own else len(parameters)
    parameters[position:position] = first.values()
    parameters += options.values()

    @functools.wraps(command)
    def run(context: typer.Context, **values: Any) -> None:
        knobs = {name: values.pop(name) for name in (*first, *options)}
        knobs = {name: value for name, value in knobs.items() if value is not None}
        command(**values, knobs=knobs | method_settings(context.args))

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def method_settings(arguments: Sequence[str]) -> dict[str, str]:
    """`--lambda-pl 0.5` of the arguments that are no option here, as {"lambda_pl": "0.5"}.

    Whether the method has such a setting is known only with its code, which is slow to import: who trains finds out.
    """
    found, rest = {}, list(arguments)
    while rest:
        option, equals, value = rest.pop(0).partition("=")
        if not option.startswith("--"):
            raise UsageError(f"Got unexpected argument '{option}'")
        name = option[2:].replace("-", "_")
        if near := difflib.get_close_matches(name, knob_fields(Settings), n=1, cutoff=0.8):
            raise UsageError(f"No such option: {option}. Did you mean --{near[0].replace('_', '-')}?")
        if not equals and not rest:
            raise UsageError(f"No such option: {option}, or its value is missing")
        found[name] = value if equals else rest.pop(0)
    return found


def _options(hidden: Container[str]) -> dict[str, inspect.Parameter]:
    """An optional parameter for each setting, grouped for the help."""
    found, group = {}, ""
    for name, (spec, kind) in knob_fields(Settings).items():
        group = GROUPS.get(name, group)
        choices = "|".join(filter(None, typing.get_args(kind))) if typing.get_origin(kind) is Literal else ""
        option = f"--{name.replace('_', '-')}"
        spelled = f"{option}/--no-{option[2:]}" if kind is bool else option
        shown = f"{spec.default:g}" if isinstance(spec.default, float) else str(spec.default)
        shown = "by preset" if group == "Training" else shown  # where the defaults of `Settings` seldom hold
        about: dict[str, Any] = {"help": spec.metadata["help"], "rich_help_panel": None if name in FIRST else group}
        about |= {"show_default": shown or False, "hidden": name in hidden}
        about |= {} if kind is bool else {"metavar": choices or METAVAR[kind]}
        annotation = bool | None if kind is bool else str | None
        default = typer.Option(None, spelled, **about)
        found[name] = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    return found

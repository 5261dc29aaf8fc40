"""Every command with its options as Markdown, from the command line itself."""

from collections.abc import Iterator
from typing import Any

import typer

from unihssl.cli import app
from unihssl.cli.settings_options import GROUPS

COMMON = {"--help", "--install-completion", "--show-completion"}


def markdown() -> str:
    """A section for each command."""
    group: Any = typer.main.get_command(app)
    return "\n".join(_section(name, command) for name, command in _commands(group, "unihssl"))


def _commands(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


def _section(name: str, command: Any) -> str:
    shown = [p for p in command.params if not getattr(p, "hidden", False) and not COMMON & set(p.opts)]
    arguments = [p for p in shown if p.param_type_name == "argument"]
    options = [p for p in shown if p.param_type_name == "option"]
    settings = [p for p in options if p.rich_help_panel in GROUPS.values()]
    own = [p for p in options if p not in settings]
    called = " ".join([name, *map(_placeholder, arguments), *(["[OPTIONS]"] if options else [])])
    parts = [f"## {name}", f"    {called}", command.help or "", _table(arguments + own)]
    if settings:
        parts.append(f"And every one of the [settings](settings.md) as an option: `{settings[0].opts[0]}` and so on.")
    return "\n\n".join(parts) + "\n"


def _placeholder(argument: Any) -> str:
    name = argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _table(parameters: list[Any]) -> str:
    rows = [f"| {_spelled(p)} | {_default(p)} | {_cell(p.help or '')} |" for p in parameters]
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows]) if rows else ""


def _spelled(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{_placeholder(parameter)}`"
    return ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return str(parameter.show_default)  # in words
    value = parameter.default
    if isinstance(value, bool):
        return "yes" if value else ""
    return "" if value in (None, "", [], ()) or callable(value) else f"`{value}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

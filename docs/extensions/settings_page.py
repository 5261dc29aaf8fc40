"""Every setting as Markdown: those of all runs by group, then those of each method with its presets."""

from unihssl import methods
from unihssl.cli.settings_options import GROUPS
from unihssl.config import Settings, describe_knobs

HEAD = "| setting | default | values | meaning |\n|---|---|---|---|\n"


def markdown() -> str:
    """A table for each group of settings and for each method."""
    return "\n".join([*_groups(), *(_method(name) for name in methods.available())])


def _groups() -> list[str]:
    sections: dict[str, list[str]] = {}
    group = ""
    for row in describe_knobs(Settings):
        group = GROUPS.get(row[0], group)
        sections.setdefault(group, []).append(_row(*row))
    return [f"## {group}\n\n{HEAD}{''.join(rows)}" for group, rows in sections.items()]


def _method(name: str) -> str:
    method = methods.get(name)
    rows = [_row(*knob) for knob in describe_knobs(method.Params)]
    table = HEAD + "".join(rows) if rows else "It has no settings of its own.\n"
    return f"## Method {name}\n\n{method.paper}. Presets: {', '.join(method.presets) or 'none'}.\n\n{table}"


def _row(name: str, default: str, values: str, about: str) -> str:
    cells = (f"`{name}`", f"`{default}`" if default else "", f"`{values.removeprefix('|')}`", about)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"

"""`unihssl methods`"""

from typing import TYPE_CHECKING

import typer

from unihssl.cli.options import JSON

if TYPE_CHECKING:
    from rich.table import Column


def register(app: typer.Typer) -> None:
    app.command()(methods)


def methods(
    name: str = typer.Argument("", help="A method, to list every knob it understands."),
    json: bool = JSON,
) -> None:
    """List the training methods, or the knobs of one, with the values a resnet50 is trained with.

    Below the knobs: what the method's other presets set them to.

    Set a knob with `--set name=value` or in a YAML file for `--config`.
    """
    import json as json_format
    from dataclasses import asdict

    from rich.console import Console
    from rich.table import Table

    from unihssl import methods as registry
    from unihssl.api import resolve
    from unihssl.config import Settings, describe_knobs
    from unihssl.methods.presets import PRESETS

    def values(method: str, preset: str = "") -> dict[str, str]:
        parts = resolve({"method": method, "preset": preset})
        return {k: str(v) for part in parts for k, v in asdict(part).items()}

    if name:
        found = registry.get(name)
        rows = [(k, values(name)[k], *rest) for k, _, *rest in describe_knobs(found.Params, Settings)]
        table = Table(
            *map(_column, ("knob", "default", "values", "meaning")),
            title=f"{name}: {found.paper}",
            title_justify="left",
        )
    else:
        rows = []
        for m in registry.available().values():
            own = ", ".join(f"{k}={values(m.name)[k]}" for k, *_ in describe_knobs(m.Params))
            rows.append((m.name, (m.__doc__ or "").partition("\n")[0], m.paper, own))
        table = Table(*map(_column, ("method", "what it does", "paper", "its own knobs")), show_lines=True)
    if json:
        keys = ("name", "default", "values", "help") if name else ("name", "summary", "paper", "knobs")
        typer.echo(json_format.dumps([dict(zip(keys, row, strict=True)) for row in rows]))
        return
    for row in rows:
        table.add_row(*row)
    console = Console()
    console.print(table)
    default = values(name) if name else {}
    for preset in (p for p in PRESETS if name in PRESETS[p] and p != default["preset"]):
        changed = (f"{k}={v}" for k, v in values(name, preset).items() if k != "preset" and v != default[k])
        console.print(f"preset={preset}: {', '.join(changed)}", highlight=False)


def _column(name: str) -> "Column":
    """A column that breaks long words rather than cutting them: a knob's name must be readable whole."""
    from rich.table import Column

    return Column(name, overflow="fold")

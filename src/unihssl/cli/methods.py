"""`unihssl methods`"""

from typing import TYPE_CHECKING

import typer

from unihssl.cli.options import JSON

if TYPE_CHECKING:
    from rich.table import Column


def methods(
    name: str = typer.Argument("", help="A method, to list every knob it understands."),
    json: bool = JSON,
) -> None:
    """List the training methods, or the knobs of one, with the values that a resnet50 is trained with.

    What the method's other presets change follows below. Set a knob with `--set name=value` or in a YAML file for
    `--config`.
    """
    import json as json_format

    from rich.console import Console
    from rich.table import Table

    from unihssl import methods as registry
    from unihssl.config import Settings, describe_knobs
    from unihssl.methods.recipe import all_knobs, resolve

    def values(method: str, preset: str = "") -> dict[str, str]:
        return {k: str(v) for k, v in all_knobs(*resolve({"method": method, "preset": preset})).items()}

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
    for preset in (p for p in registry.get(name).presets if p != default["preset"]) if name else ():
        changed = (f"{k}={v}" for k, v in values(name, preset).items() if k != "preset" and v != default[k])
        console.print(f"preset={preset}: {', '.join(changed)}", highlight=False)


def _column(name: str) -> "Column":
    """A column that wraps long words, so that the names of knobs are readable whole."""
    from rich.table import Column

    return Column(name, overflow="fold")

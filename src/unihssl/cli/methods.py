"""`unihssl methods`"""

import typer

from unihssl.cli.options import JSON


def register(app: typer.Typer) -> None:
    app.command()(methods)


def methods(
    name: str = typer.Argument("", help="A method, to list every knob it understands."),
    json: bool = JSON,
) -> None:
    """List the training methods, or the knobs of one with the values it would train a resnet50 with.

    Set a knob with `--set name=value` or in a YAML file for `--config`.
    """
    import json as json_format
    from dataclasses import asdict

    from rich.console import Console
    from rich.table import Table

    from unihssl import methods as registry
    from unihssl.api import resolve
    from unihssl.config import Settings, describe_knobs

    if name:
        found = registry.get(name)
        effective = {k: str(v) for part in resolve({"method": name})[::-1] for k, v in asdict(part).items()}
        rows = [(k, effective[k], *rest) for k, _, *rest in describe_knobs(found.Params, Settings)]
        table = Table("knob", "default", "values", "meaning", title=f"{name}: {found.paper}", title_justify="left")
    else:
        rows = [
            (
                m.name,
                (m.__doc__ or "").splitlines()[0],
                m.paper,
                ", ".join(f"{r[0]}={r[1]}" for r in describe_knobs(m.Params)),
            )
            for m in registry.available().values()
        ]
        table = Table("method", "what it does", "paper", "its own knobs", show_lines=True)
    if json:
        keys = ("name", "default", "values", "help") if name else ("name", "summary", "paper", "knobs")
        typer.echo(json_format.dumps([dict(zip(keys, row, strict=True)) for row in rows]))
        return
    for row in rows:
        table.add_row(*row)
    Console().print(table)

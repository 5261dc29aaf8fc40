"""`unihssl methods`"""

import typer

from unihssl.cli.options import JSON, print_json


def methods(
    name: str = typer.Argument("", help="A method, to list every knob it understands."),
    json: bool = JSON,
) -> None:
    """List the training methods, or the knobs of one, with the values that a resnet50 is trained with.

    Below the knobs follows what the method's other presets change. Set a knob with `--set name=value` or in a YAML file
    for `--config`.
    """
    from rich.console import Console
    from rich.table import Column, Table

    from unihssl import methods as registry
    from unihssl.config import Settings, describe_knobs
    from unihssl.methods.recipe import all_knobs, resolve

    def values(method: str, preset: str = "") -> dict[str, str]:
        return {k: str(v) for k, v in all_knobs(*resolve({"method": method, "preset": preset})).items()}

    if name:
        found, default = registry.get(name), values(name)
        rows = [(k, default[k], *rest) for k, _, *rest in describe_knobs(found.Params, Settings)]
        keys, shown = ("name", "default", "values", "help"), ["knob", "default", "values", "meaning"]
        title = f"{name}: {found.paper}"
    else:
        rows = []
        for m in registry.available().values():
            own = ", ".join(f"{k}={values(m.name)[k]}" for k, *_ in describe_knobs(m.Params))
            rows.append((m.name, (m.__doc__ or "").partition("\n")[0], m.paper, own))
        keys, shown = ("name", "summary", "paper", "knobs"), ["method", "what it does"]
        title = "Training methods; `unihssl methods NAME` shows a method's paper and knobs"
    if json:
        return print_json([dict(zip(keys, row, strict=True)) for row in rows])
    columns = [Column(heading, overflow="fold") for heading in shown]  # fold: long names of knobs stay readable
    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row[: len(shown)])
    console = Console()
    console.print(table)
    for preset in (p for p in found.presets if p != default["preset"]) if name else ():
        changed = (f"{k}={v}" for k, v in values(name, preset).items() if k != "preset" and v != default[k])
        console.print(f"preset={preset}: {', '.join(changed)}", highlight=False)

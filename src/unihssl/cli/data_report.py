"""The output of `unihssl data report`: two domains side by side."""

from collections.abc import Callable
from typing import Any

import typer


def show_report(report: dict[str, Any]) -> None:
    """Print what `pair_report` found."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    domains = {role: report[role] for role in ("labeled", "unlabeled")}
    table = Table("", *domains, title="Data", title_justify="left")
    for title, cell in ROWS.items():
        table.add_row(title, *(Text(cell(domain)) for domain in domains.values()))
    targets: dict[str, int] = domains["unlabeled"]["target_labels"]
    titles = [*(f"{role}: train, test" for role in domains), *["target labels"] * bool(targets)]
    classes = Table("class", *titles, title="Images", title_justify="left")
    for name in domains["labeled"]["classes"]:
        counts = [domain["classes"][name] for domain in domains.values()]
        own = [f"{targets[name]:,}"] if targets else []
        classes.add_row(Text(name), *(f"{count['train']:,}, {count['test']:,}" for count in counts), *own)
    classes.add_row("unknown (all train)", "", f"{domains['unlabeled']['unknown']:,}")
    console = Console()
    console.print(table)
    console.print(classes)
    if targets:
        typer.echo(f"Target labels: {sum(targets.values()):,}, trained on")
    across, leaks = report["across"], report["leaks"]
    typer.echo(f"In both domains: {across['copies']:,} byte-identical, {across['near_copies']:,} almost the same")
    typer.echo(
        f"Test images that train: {leaks['exact']:,} byte-identical (never used), {leaks['near']:,} almost the same"
    )
    for test, train in leaks["examples"]:
        typer.echo(f"  {test} (test) is like {train} (trains)")


def _sizes(domain: dict[str, Any]) -> str:
    sizes = domain["sizes"]
    if not sizes["different"]:
        return "unknown"
    text = [f"{sizes[name][1]}x{sizes[name][0]}" for name in ("smallest", "median", "largest")]
    return text[0] if sizes["different"] == 1 else f"{text[0]} to {text[2]}, median {text[1]}"


def _windows(domain: dict[str, Any]) -> str:
    lines = [
        f"{kind}: " + ", ".join(f"{low:g} to {high:g}" for low, high in zip(window["low"], window["high"], strict=True))
        for kind, window in domain["windows"].items()
    ]
    return "\n".join(lines) or "-"


ROWS: dict[str, Callable[[dict[str, Any]], str]] = {
    "images": lambda domain: f"{domain['images']:,}",
    "by source": lambda domain: "\n".join(f"{count:,} {name}" for name, count in domain["sources"].items()) or "-",
    "width x height": _sizes,
    "stored as": lambda domain: ", ".join(f"{count:,} {kind}" for kind, count in domain["stored"].items()),
    "becomes black to white": _windows,
    "grey levels in use": lambda domain: "{low} to {high}, mean {mean:.0f}".format(**domain["grey"]),
    "byte-identical copies": lambda domain: f"{domain['copies']:,}",
    "images almost the same": lambda domain: f"{domain['near_copies']:,}",
    "one colour all over": lambda domain: f"{domain['flat']:,}",
}

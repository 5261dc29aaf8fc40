"""The output of the `unihssl data` commands: counts, and what to do if nothing was found."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from unihssl.data.catalog.check import DomainCheck
    from unihssl.data.catalog.dataset import Dataset


WIDTH = 80


def describe(about: dict[str, Any]) -> str:
    """A data set in a few lines of at most 80 characters."""
    domains = ", ".join(f"{name} ({x['short']}) {x['images']:,}" for name, x in about["domains"].items())
    name, pairs = about["name"], " ".join(about["pairs"])
    parts = {"domains": domains, "pairs of the paper": pairs, "licence": about["licence"], "source": about["source"]}
    if about["download"]:
        parts["get it"] = f"unihssl data download {name}"
    lines = [f"{name}: {about['classes']} classes, {about['images']:,} images"]
    for title, text in parts.items():
        start = f"  {title}: "
        lines += textwrap.wrap(start + text, WIDTH, subsequent_indent="    ", break_long_words=False) if text else []
    return "\n".join(lines)


def row(result: "DomainCheck") -> dict[str, Any]:
    """The result for one domain, for `--json`."""
    found = result.found
    return {
        "images": 0 if found is None else len(found),
        "expected": result.domain.total,
        "place": None if found is None else found.name,
        "problems": list(result.problems),
    }


def show(dataset: "Dataset", root: Path, results: "tuple[DomainCheck, ...]") -> None:
    """Print a line for each domain and each difference and, if nothing was found, what is expected."""
    from unihssl.data.catalog.check import how_to_get, unknown_archives
    from unihssl.data.catalog.dataset import plain
    from unihssl.data.source import counted

    for result in results:
        if result.found is not None:
            counts = row(result)
            state = "as published" if not result.problems else counted(len(result.problems), "difference")
            name = f"{result.domain.name} ({result.domain.short})"
            typer.echo(f"{name}: {counts['images']:,} of {counts['expected']:,} images, {state}: {counts['place']}")
        for problem in result.problems:
            typer.echo(f"  {problem}")
    if any(result.unusable and not result.obstacle for result in results):
        typer.echo(how_to_get(dataset))
        if plain(root.resolve().name) in {plain(folder) for d in dataset.domains for folder in d.folders}:
            typer.echo(f"{root} is named like one of the domains: pass --root {root.resolve().parent}")
        for archive in unknown_archives(dataset, root):
            typer.echo(f"{archive}: not taken for {dataset.title} by its name; if it is, pass --root {archive}")

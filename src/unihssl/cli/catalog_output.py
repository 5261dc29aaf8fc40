"""The output of the `unihssl data` commands: counts, and what to do if nothing was found."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from unihssl.data.catalog.check import DomainCheck
    from unihssl.data.catalog.dataset import Dataset


WIDTH = 80


def summary(dataset: "Dataset") -> dict[str, Any]:
    """A data set for `--json`."""
    return {
        "name": dataset.name,
        "domains": {domain.name: {"short": domain.short, "images": domain.total} for domain in dataset.domains},
        "classes": len(dataset.classes),
        "images": dataset.total,
        "pairs": list(dataset.pairs),
        "licence": dataset.licence,
        "source": dataset.source,
        "download": bool(dataset.downloads),
    }


def describe(about: dict[str, Any]) -> str:
    """A data set's summary in a few lines of at most 80 characters."""
    domains = ", ".join(f"{name} ({x['short']}) {x['images']:,}" for name, x in about["domains"].items())
    parts = {"domains": domains, "pairs of the paper": " ".join(about["pairs"])}
    parts |= {"licence": about["licence"], "source": about["source"]}
    parts["get it"] = f"unihssl data download {about['name']}" if about["download"] else ""
    lines = [f"{about['name']}: {about['classes']} classes, {about['images']:,} images"]
    for title, text in parts.items():
        start = f"  {title}: "
        lines += textwrap.wrap(start + text, WIDTH, subsequent_indent="    ", break_long_words=False) if text else []
    return "\n".join(lines)


def how_to_get(dataset: "Dataset") -> str:
    """The expected tree, the official source and the archives: to show where nothing was found."""
    from unihssl.data.catalog.archives import stem

    tree = "\n".join(f"    {line}" for line in dataset.tree.splitlines())
    kind = "archives" if all(stem(Path(file)) for file in dataset.archives) else "files"
    way = f"unihssl data download {dataset.name}" if dataset.downloads else dataset.get
    return (
        f"{dataset.title}: expected in the folder, in a folder of it, or as the archive\n{tree}\n"
        f"{kind}: {', '.join(dataset.archives)}\nsource: {dataset.source}\nlicence: {dataset.licence}\nget it: {way}"
    )


def row(result: "DomainCheck") -> dict[str, Any]:
    """The result for one domain, for `--json`."""
    found = result.found
    return {
        "images": 0 if found is None else len(found),
        "expected": result.domain.total,
        "place": None if found is None else found.name,
        "problems": list(result.problems),
    }


def show(dataset: "Dataset", root: Path, results: "Sequence[DomainCheck]") -> None:
    """Print a line for each domain and each difference and, if nothing was found, what is expected."""
    from unihssl.data.catalog.check import unknown_archives
    from unihssl.data.catalog.dataset import plain
    from unihssl.data.source import counted

    for result in results:
        name = f"{result.domain.name} ({result.domain.short})"
        if result.may_be_absent:
            typer.echo(f"{name}: absent; only pairs with it need it: unihssl data download {dataset.name}")
            continue
        if result.found is not None:
            counts = row(result)
            state = "as published" if not result.problems else counted(len(result.problems), "difference")
            typer.echo(f"{name}: {counts['images']:,} of {counts['expected']:,} images, {state}: {counts['place']}")
        for problem in result.problems:
            typer.echo(f"  {problem}")
    if any(result.unusable and not result.may_be_absent for result in results):
        typer.echo(how_to_get(dataset))
        if plain(root.resolve().name) in {plain(folder) for d in dataset.domains for folder in d.folders}:
            typer.echo(f"{root} is named like one of the domains: pass --root {root.resolve().parent}")
        for archive in unknown_archives(dataset, root):
            typer.echo(f"{archive}: not taken for {dataset.title} by its name; if it is, pass --root {archive}")

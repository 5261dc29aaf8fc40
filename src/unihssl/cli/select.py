"""`unihssl select`"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from unihssl.cli.options import DEVICE, JSON, one_source, print_json

if TYPE_CHECKING:
    from unihssl.experiments.selection import Candidate


def select(
    runs: list[Path] = typer.Argument(help="Folders of finished runs on one pair of domains, or of folders of them."),
    by: str | None = typer.Option(None, help="Another score to rank by.", show_default="the one that chose best"),
    unlabeled: list[str] = typer.Option([], help="Where the unlabeled domain is now; repeatable."),
    device: str = DEVICE,
    json: bool = JSON,
) -> None:
    """Rank finished runs without any label of the unlabeled domain.

    The runs may differ in method, settings and seed. They are compared by their predictions on unlabeled images that
    trained them all; no test image is looked at. --json prints all scores. How far they can be trusted: docs/select.md.
    """
    from unihssl.experiments.selection import MEASURED, VALIDATOR, select

    by = by or VALIDATOR
    ranked = select(runs, by, unlabeled=one_source(unlabeled), device=device)
    if json:
        rows = [
            {"run": str(c.run), "name": c.name, "seed": c.seed, "score": c.scores[by], "scores": c.scores}
            | {"warnings": c.warnings}
            for c in ranked
        ]
        measured = MEASURED._asdict() if by == VALIDATOR else None
        return print_json({"best": str(ranked[0].run), "by": by, "measured": measured, "runs": rows})
    show_ranking(ranked, by)


def show_ranking(ranked: Sequence["Candidate"], by: str = "") -> None:
    """The runs, best first, and how far such a choice can be trusted."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    from unihssl.experiments.selection import MEASURED, VALIDATOR

    by = by or VALIDATOR
    names = [Column(name, overflow="fold") for name in ("run", "folder")]
    table = Table("", names[0], "seed", by, "warnings", names[1], title="Runs, best first", title_justify="left")
    for place, c in enumerate(ranked, start=1):
        numbers = str(c.seed), f"{c.scores[by]:.3f}", str(len(c.warnings))
        table.add_row(str(place), escape(c.name), *numbers, escape(str(c.run)))
    Console().print(table)
    typer.echo(f"Best by {by}: {ranked[0].run}")
    if by == VALIDATOR:
        typer.echo(
            f"Measured on {MEASURED.pairs} pairs, its choice was {MEASURED.regret:.1f} points below the best run on "
            f"the unlabeled domain, a random choice {MEASURED.random:.1f}, the worst {MEASURED.worst:.1f}. To know the "
            "accuracy, label a sample: unihssl audit"
        )

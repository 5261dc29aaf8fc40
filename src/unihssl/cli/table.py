"""`unihssl table`"""

from pathlib import Path

import typer

from unihssl.cli.options import print_json

JSON = typer.Option(False, "--json", help="Print a JSON list, a row for each pair and method, and nothing else.")


def table(
    runs: list[Path] = typer.Argument(help="Folders of finished runs, or of folders of them."),
    format: str = typer.Option("", help="markdown, csv (every number, one a line) or latex. [default: by --out]"),
    out: Path | None = typer.Option(
        None, help="File to write (.md, .csv or .tex); its folder is created. Without it, print to the terminal."
    ),
    json: bool = JSON,
) -> None:
    """Make every table again from run folders. Nothing is trained.

    Runs of a benchmark, an ablation or a sensitivity study have noted what they are for. Other runs count as a
    benchmark's and are grouped by the names of their sources.
    """
    from unihssl.cli.grid_command import show
    from unihssl.errors import UserError
    from unihssl.experiments.pair_tables import detail_rows
    from unihssl.experiments.report import SUFFIXES, as_text
    from unihssl.experiments.results import read_all
    from unihssl.files import make_folder, write_text

    if out and (out.suffix not in SUFFIXES or format not in ("", SUFFIXES[out.suffix])):
        known = ", ".join(f"{suffix} ({form})" for suffix, form in SUFFIXES.items())
        raise UserError(f"--out {out}: its ending does not fit; tables are written as {known}, and --json prints JSON")
    records = read_all(runs)
    if json:
        return print_json(detail_rows(records))
    form = format or (SUFFIXES[out.suffix] if out else "")
    if not form:
        show(records)
    elif out:
        text = as_text(records, form)
        make_folder(out.parent)
        write_text(out, text)
        typer.echo(f"wrote {out}", err=True)
    else:
        typer.echo(as_text(records, form), nl=False)

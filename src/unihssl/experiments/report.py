"""Everything said of finished runs, written beside them: tables to read, to print and to compute with."""

from collections.abc import Sequence
from pathlib import Path

from unihssl.errors import UserError
from unihssl.experiments.figures import draw_figures
from unihssl.experiments.pair_tables import detail_rows, detail_tables, long_csv
from unihssl.experiments.render import latex, markdown
from unihssl.experiments.results import BENCHMARK, Record
from unihssl.experiments.tables import main_tables
from unihssl.files import write_json, write_text

SUFFIXES = {".md": "markdown", ".csv": "csv", ".tex": "latex"}
FORMATS = tuple(SUFFIXES.values())


def as_text(records: Sequence[Record], form: str) -> str:
    """All tables in a format of FORMATS; `csv` is one long list of numbers."""
    if form == "csv":
        return long_csv(records)
    tables = [*main_tables(records), *detail_tables(records)]
    if form not in FORMATS:
        raise UserError(f"unknown format '{form}': there are {', '.join(FORMATS)}")
    return markdown(tables) if form == "markdown" else latex(tables)


def write_report(records: Sequence[Record], out: Path, experiment: str) -> str:
    """table.md, .tex, .csv and .json of a benchmark (of another experiment, under its name), and figures.

    Returns why there are no figures, if that is so.
    """
    stem = "table" if experiment == BENCHMARK else experiment
    for suffix, form in SUFFIXES.items():
        write_text(out / f"{stem}{suffix}", as_text(records, form))
    write_json(out / f"{stem}.json", detail_rows(records))
    try:
        draw_figures([r for r in records if r.experiment == experiment], out / "figures")
    except UserError as error:
        return f"no figures: {error}"
    return ""

"""The files that an experiment leaves beside its runs: tables to read, to print and to compute with, and figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unihssl.errors import UserError
from unihssl.experiments.designs import KNOB_VALUES
from unihssl.experiments.overview import overview_tables
from unihssl.experiments.pair_tables import detail_rows, detail_tables, long_csv
from unihssl.experiments.paper import AVERAGE, UNIHSSL
from unihssl.experiments.render import latex, markdown
from unihssl.experiments.results import BENCHMARK, SENSITIVITY, Record
from unihssl.experiments.tables import Table, by_pair, group_records, main_tables, row_order
from unihssl.files import write_json, write_text
from unihssl.methods.unihssl_params import UniHSSLParams  # its defaults are the paper's values

SUFFIXES = {".md": "markdown", ".csv": "csv", ".tex": "latex"}
FORMATS = tuple(SUFFIXES.values())


def as_text(records: Sequence[Record], form: str) -> str:
    """All tables in one of FORMATS; `csv` is one long list of numbers."""
    if form == "csv":
        return long_csv(records)
    if form not in FORMATS:
        raise UserError(f"unknown format '{form}': there are {', '.join(FORMATS)}")
    tables = all_tables(records)
    return markdown(tables) if form == "markdown" else latex(tables)


def all_tables(records: Sequence[Record]) -> list[Table]:
    """The overviews, the main tables, and every pair in detail."""
    return [*overview_tables(records), *main_tables(records), *detail_tables(records)]


def write_report(records: Sequence[Record], out: Path, experiment: str) -> str:
    """Write table.md, .tex, .csv and .json (other experiments: under their names) and figures.

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


def draw_figures(records: Sequence[Record], out: Path) -> list[Path]:
    """Draw a sensitivity study's curve for each knob, or other experiments' learning curves for each pair.

    Learning curves show the rows that log a mask rate or the accuracy of pseudo-labels.
    """
    if records and records[0].experiment == SENSITIVITY:
        return [path for group in group_records(records) for path in _draw_knob(group, out)]
    logged = sorted((r for r in records if r.last), key=lambda r: row_order(r.label))
    pairs = dict.fromkeys(r.pair for r in logged)
    return [path for pair in pairs for path in _draw_learning([r for r in logged if r.pair == pair], out)]


def knob_points(records: Sequence[Record]) -> dict[Any, list[float]]:
    """Value of the group's knob -> pooled accuracy (0..1) of each seed, averaged over all pairs.

    Values without a seed that has all pairs, or whose runs differ in other settings too, are left out.
    """
    columns = by_pair(records, "accuracy")
    averages = columns[AVERAGE] if AVERAGE in columns else next(iter(columns.values()))
    labels: dict[Any, dict[str, None]] = {}
    for r in records:
        labels.setdefault(r.settings[r.knob], {})[r.label] = None
    points = {value: averages.get(next(iter(rows)), {}) for value, rows in labels.items() if len(rows) == 1}
    return {value: [found / 100 for found in by_seed.values()] for value, by_seed in points.items() if by_seed}


def _draw_learning(records: Sequence[Record], out: Path) -> tuple[Path, ...]:
    from unihssl.experiments.plots import learning_curves  # slow to import, and tables do not need it

    kind = "learning" if records[0].experiment == BENCHMARK else records[0].experiment
    stem = f"{kind}-{records[0].pair.replace('/', '-')}"
    return learning_curves([r.folder for r in records], out / stem, names=[r.label for r in records])


def _draw_knob(records: Sequence[Record], out: Path) -> tuple[Path, ...]:
    from unihssl.experiments.plots import sensitivity_curve

    points = knob_points(records)
    if not points:
        return ()
    knob, row = records[0].knob, records[0].row
    pairs = list(dict.fromkeys(r.pair for r in records))
    title = f"{records[0].dataset}, {pairs[0] if len(pairs) == 1 else f'mean of {len(pairs)} pairs'}"
    if row == UNIHSSL:
        stem, paper_value = f"sensitivity-{knob}", getattr(UniHSSLParams(), knob) if knob in KNOB_VALUES else None
    else:
        stem, paper_value, title = f"sensitivity-{row.replace(':', '-')}-{knob}", None, f"{row}: {title}"
    return sensitivity_curve(points, out / stem, knob=knob, paper_value=paper_value, title=title)

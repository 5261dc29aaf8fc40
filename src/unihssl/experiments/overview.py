"""A benchmark at a glance: every row's means over all pairs, its way to the ceiling, and its margin to ours."""

from collections.abc import Sequence

from unihssl.experiments.paper import AVERAGE, CEILING, FLOOR, METHOD
from unihssl.experiments.results import BENCHMARK, Record
from unihssl.experiments.significance import compare
from unihssl.experiments.tables import Cell, Rows, Table, by_pair, group_records, held_out_ratio, row_order, summarise

COLUMNS = {
    "pooled": ("accuracy", "pooled"),
    "labeled": ("accuracy", "labeled"),
    "unlabeled": ("accuracy", "unlabeled"),
    "macro F1, unlabeled": ("macro_f1", "unlabeled"),
}
GAP = (
    f"gap closed: pooled accuracy between {FLOOR} (0%) and {CEILING}, which trains on the unlabeled domain's labels; "
    "over the seeds that all three have"
)
MARGIN = (
    f"against {METHOD}: pooled accuracy minus that of {METHOD}, and its 95% interval by the corrected resampled t-test "
    "over three seeds or more"
)


def overview_tables(records: Sequence[Record]) -> list[Table]:
    """One table for each benchmark with several rows, METHOD among them, and several pairs."""
    groups = [group for group in group_records(records) if group[0].experiment == BENCHMARK]
    return [table for group in groups if (table := _overview(group))]


def _overview(records: Sequence[Record]) -> Table | None:
    columns = {name: by_pair(records, *metric).get(AVERAGE, {}) for name, metric in COLUMNS.items()}
    pooled = columns["pooled"]
    if METHOD not in pooled or len(pooled) < 2:
        return None
    rows: list[tuple[str, tuple[Cell | str, ...]]] = []
    for label in sorted(pooled, key=row_order):
        means = [Cell(summarise(column.get(label, {}))) for column in columns.values()]
        rows.append((label, (*means, _gap_closed(pooled, label), _margin(pooled, label, held_out_ratio(records)))))
    name = f"{records[0].dataset}, {BENCHMARK}" if records[0].dataset else "own data"
    title = f"{name}: means over {len({r.pair for r in records})} pairs, %"
    remarks = (GAP, MARGIN) if {FLOOR, CEILING} <= pooled.keys() else (MARGIN,)
    return Table(title, ("", *columns, "gap closed", f"against {METHOD}"), tuple(rows), remarks=remarks)


def _gap_closed(pooled: Rows, label: str) -> str:
    if not {FLOOR, CEILING} <= pooled.keys():
        return "-"
    rows = [pooled[row] for row in (FLOOR, label, CEILING)]
    seeds = set.intersection(*map(set, rows))
    floor, found, ceiling = (sum(row[seed] for seed in seeds) for row in rows)
    return f"{(found - floor) / (ceiling - floor):.0%}" if ceiling > floor else "-"


def _margin(pooled: Rows, label: str, ratio: float) -> str:
    if label == METHOD:
        return ""
    found = compare(pooled[label], pooled[METHOD], ratio)
    return f"{found.mean:+.1f} ± {found.half_width:.1f}" if found else "-"

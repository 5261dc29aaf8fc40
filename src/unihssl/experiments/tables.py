"""Tables out of records, like the paper's: a row for each method, a column for each pair, means over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, mean, stdev
from typing import Any

from unihssl.data.catalog import DATASETS
from unihssl.data.split import RESERVED_SHARE
from unihssl.experiments import paper
from unihssl.experiments.designs import ABLATIONS
from unihssl.experiments.paper import AVERAGE, METHOD, ORDER, UNIHSSL, PaperTable
from unihssl.experiments.results import SENSITIVITY, Record
from unihssl.experiments.significance import LEVEL, TEST, BySeed, compare
from unihssl.experiments.table_notes import cautions, provenance

BY_CLASS = ("visda-2017",)  # data sets whose columns in the paper are classes
MORE_METRICS = {"isic-2019": {"macro_f1": "macro F1", "class_mean_accuracy": "balanced accuracy"}}

_VARIANTS = [variant for rows in ABLATIONS.values() for variant in rows]
Rows = dict[str, dict[int, float]]  # label -> seed -> value
Columns = dict[str, Rows]  # pair or class -> label -> seed -> value


@dataclass(frozen=True)
class Summary:
    """Mean and sample standard deviation over seeds; a single seed has no deviation."""

    seeds: int
    mean: float
    std: float | None


@dataclass(frozen=True)
class Cell:
    """Our result, the paper's figure, and the marks beside them."""

    summary: Summary | None = None
    paper: float | None = None
    note: int = 0  # number of the footnote on the paper's figure
    best: bool = False  # of its column
    differs: bool = False  # significantly from the reference row


@dataclass(frozen=True)
class Table:
    """A table to render: `columns[0]` heads the labels of the rows, the others their cells."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell | str, ...]], ...]  # (label, cells)
    footnotes: tuple[str, ...] = ()  # numbered from 1
    remarks: tuple[str, ...] = ()


def main_tables(records: Sequence[Record]) -> list[Table]:
    """The tables of each data set and experiment: pooled accuracy by pair (VisDA: by class), and its further metrics.

    >>> table = main_tables(read_records([Path("runs/pacs")]))[0]
    >>> table.columns, table.rows[0]
    (('', 'P/A', 'A/P', 'Avg'), ('supervised', (Cell(...), Cell(...), Cell(...))))
    """
    tables = []
    for group in group_records(records):
        first = group[0]
        name = f"{first.dataset}, {first.experiment}" if first.dataset else "own data"
        if first.experiment == SENSITIVITY:
            row = "" if first.row == UNIHSSL else f", {first.row}"
            tables.append(_by_pair(f"{name} of {first.knob}{row}", group, "accuracy", None))
        elif first.dataset in BY_CLASS:
            for pair in dict.fromkeys(r.pair for r in group):
                tables.append(_by_class(f"{name}, {pair}", [r for r in group if r.pair == pair]))
        else:
            tables.append(_by_pair(name, group, "accuracy", paper.table(first.dataset, first.experiment)))
            for metric, title in MORE_METRICS.get(first.dataset, {}).items():
                tables.append(_by_pair(f"{name}: {title}", group, metric, None))
    return tables


def group_records(records: Sequence[Record]) -> list[list[Record]]:
    """The records of each table: one data set and experiment; of a sensitivity study also one knob and method."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for r in records:
        varied = (r.knob, r.row) if r.experiment == SENSITIVITY else ()
        groups.setdefault((r.dataset, r.experiment, *varied), []).append(r)
    return list(groups.values())


def summarise(values: BySeed) -> Summary | None:
    if not values:
        return None
    return Summary(len(values), mean(values.values()), stdev(values.values()) if len(values) > 1 else None)


def held_out_ratio(records: Sequence[Record]) -> float:
    """Test samples for each training sample, by the records' settings."""
    settings = records[0].settings
    share = RESERVED_SHARE if settings.get("split") == "reserved" else float(settings.get("test_fraction", 0.1))
    return share / (1 - share)


def by_pair(records: Sequence[Record], metric: str, part: str = "pooled") -> Columns:
    """A group's values: its pairs in their usual order, and the average over them if there are several."""
    dataset = records[0].dataset
    printed = paper.table(dataset, records[0].experiment)
    usual = list(printed.columns if printed else DATASETS[dataset].all_pairs if dataset in DATASETS else ())
    pairs: dict[str, list[Record]] = {}
    for r in records:
        pairs.setdefault(r.pair, []).append(r)
    order = sorted(pairs, key=lambda pair: usual.index(pair) if pair in usual else len(usual))
    columns = {pair: values_by_row(pairs[pair], metric, part) for pair in order}
    if len(pairs) > 1:
        columns[AVERAGE] = _average(list(columns.values()))
    return columns


def paper_figure(printed: PaperTable | None, columns: Columns, variant: str, column: str) -> float | None:
    """The paper's mean; None if it has none, or if its average is over other columns than ours."""
    if printed is None or (column == AVERAGE and set(columns) != set(printed.columns)):
        return None
    return printed.mean(variant, column)


def _by_pair(title: str, records: Sequence[Record], metric: str, printed: PaperTable | None) -> Table:
    what = "accuracy on both test parts pooled" if metric == "accuracy" else "both test parts pooled"
    return _table(f"{title}: {what}, %", records, by_pair(records, metric), printed)


def _by_class(title: str, records: Sequence[Record]) -> Table:
    classes = DATASETS[records[0].dataset].classes
    columns = {name: values_by_row(records, f"class_accuracy/{name}") for name in classes}
    columns[AVERAGE] = values_by_row(records, "class_mean_accuracy")
    in_paper = records[0].pair in DATASETS[records[0].dataset].pairs
    printed = paper.table(records[0].dataset, records[0].experiment) if in_paper else None
    return _table(f"{title}: accuracy by class, both test parts pooled, %", records, columns, printed)


def values_by_row(records: Sequence[Record], metric: str, part: str = "pooled") -> Rows:
    rows: Rows = {}
    for record in records:
        value = record.value(metric, part)
        if value is not None:
            rows.setdefault(record.label, {})[record.seed] = value
    return rows


def _average(columns: Sequence[Rows]) -> Rows:
    """The average over pairs for each seed that has all of them; rows without such a seed are left out."""
    averages: Rows = {}
    for row in columns[0]:
        seeds = sorted(set.intersection(*(set(column.get(row, {})) for column in columns)))
        if seeds:
            averages[row] = {seed: fmean(column[row][seed] for column in columns) for seed in seeds}
    return averages


def _table(title: str, records: Sequence[Record], columns: Columns, printed: PaperTable | None) -> Table:
    variants = {r.label: r.variant for r in records}
    order = sorted(variants, key=row_order)
    footnotes: dict[str, int] = {}  # text -> number
    rows, marked, compared, ratio = [], False, False, held_out_ratio(records)
    for label in order:
        reference, line = reference_row(label, variants), []
        for column, by_row in columns.items():
            values = by_row.get(label, {})
            best = max((_shown(v) for v in by_row.values() if v), default=None)
            found = compare(values, by_row.get(reference, {}), ratio) if reference else None
            figure = paper_figure(printed, columns, variants[label], column)
            note = printed.notes.get((variants[label], column)) if printed and figure is not None else None
            number = footnotes.setdefault(note, len(footnotes) + 1) if note else 0
            differs = found is not None and found.p < LEVEL
            is_best = len(order) > 1 and bool(values) and _shown(values) == best
            line.append(Cell(summarise(values), figure, number, is_best, differs))
            marked, compared = marked or differs, compared or figure is not None
        rows.append((label, tuple(line)))
    remarks = cautions(records)
    if compared and printed:
        remarks += [f"in brackets: the paper's figure (Table {printed.number}) and ours minus it", *printed.remarks]
    if marked:
        remarks.append(f"* differs from {main_variant(variants)} ({TEST})")
    return Table(title, ("", *columns), tuple(rows), tuple(footnotes), (*remarks, *provenance(records)))


def _shown(values: BySeed) -> float:
    """The mean as printed, so that equal numbers are marked alike."""
    found = summarise(values)
    return round(found.mean, 1) if found else 0.0


def row_order(label: str) -> tuple[Any, ...]:
    """Sort key: the paper's baselines, values of knobs, other methods, the paper's Uni-HSSL and its variants, ours."""
    name = label.partition(" [")[0]
    if name == METHOD:
        return (4, label)
    if name in ORDER:
        return (0, ORDER.index(name), label)
    knob, equals, value = name.partition("=")
    if equals:
        try:
            return (1, 0, knob, float(value))
        except ValueError:
            return (1, 1, knob, value)
    if name in _VARIANTS:
        return (3, _VARIANTS.index(name), label)
    return (2, 0, label)


def main_variant(variants: dict[str, str]) -> str:
    """The row that others are compared with: our Uni-HSSL, else the paper's; in our ablation `robust`."""
    return next((whole for whole in (METHOD, UNIHSSL, "robust") if whole in variants.values()), UNIHSSL)


def reference_row(label: str, variants: dict[str, str]) -> str | None:
    """The label to compare with: the main variant with the same settings, or the only one there is."""
    main = main_variant(variants)
    candidates = [name for name, variant in variants.items() if variant == main]
    same_settings = [name for name in candidates if name.removeprefix(main) == label.removeprefix(variants[label])]
    chosen = same_settings or (candidates if len(candidates) == 1 else [])
    return chosen[0] if chosen and chosen[0] != label else None

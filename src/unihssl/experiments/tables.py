"""Tables out of records: methods down, pairs across, like the paper's; and every number of a pair in detail."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from unihssl.data.catalog import DATASETS
from unihssl.experiments import paper
from unihssl.experiments.designs import ABLATIONS
from unihssl.experiments.paper import AVERAGE, METHOD, ORDER, UNIHSSL, PaperTable
from unihssl.experiments.results import SENSITIVITY, Record
from unihssl.experiments.statistics import LEVEL, TEST, BySeed, Summary, p_value, summarise
from unihssl.experiments.table_notes import cautions, provenance

BY_CLASS = ("visda-2017",)  # the paper's columns are classes there
MORE_METRICS = {"isic-2019": {"macro_f1": "macro F1", "class_mean_accuracy": "balanced accuracy"}}

_VARIANTS = [variant for rows in ABLATIONS.values() for variant in rows]
Rows = dict[str, dict[int, float]]  # label -> seed -> value
Columns = dict[str, Rows]


@dataclass(frozen=True)
class Cell:
    """A mean over seeds; the paper's figure; what to print beside them."""

    summary: Summary | None = None
    paper: float | None = None
    note: int = 0  # number of the footnote on the paper's figure
    best: bool = False
    differs: bool = False  # from the reference row, beyond what seeds explain


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[str, ...]  # the first is that of the row's names
    rows: tuple[tuple[str, tuple[Cell | str, ...]], ...]
    footnotes: tuple[str, ...] = ()  # numbered from 1
    remarks: tuple[str, ...] = ()


def main_tables(records: Sequence[Record]) -> list[Table]:
    """For each data set and experiment: pooled accuracy, and what else is usual there."""
    tables = []
    for mine in groups(records):
        first = mine[0]
        name = f"{first.dataset or 'own data'}, {first.experiment}"
        if first.experiment == SENSITIVITY:
            of = "" if first.recipe == UNIHSSL else f", {first.recipe}"
            tables.append(_by_pair(f"{name} of {first.knob}{of}", mine, "accuracy", None))
        elif first.dataset in BY_CLASS:
            for pair in dict.fromkeys(r.pair for r in mine):
                tables.append(_by_class(f"{name}, {pair}", [r for r in mine if r.pair == pair]))
        else:
            tables.append(_by_pair(name, mine, "accuracy", paper.table(first.dataset, first.experiment)))
            for metric, title in MORE_METRICS.get(first.dataset, {}).items():
                tables.append(_by_pair(f"{name}: {title}", mine, metric, None))
    return tables


def groups(records: Sequence[Record]) -> list[list[Record]]:
    """Records whose rows stand together: of one data set and experiment, in a sensitivity study of one knob too."""
    found: dict[tuple[str, ...], list[Record]] = {}
    for r in records:
        varied = (r.knob, r.recipe) if r.experiment == SENSITIVITY else ()
        found.setdefault((r.dataset, r.experiment, *varied), []).append(r)
    return list(found.values())


def by_pair(records: Sequence[Record], metric: str, part: str = "pooled") -> Columns:
    """Of a group: its pairs in their usual order, and the average over them if there are several."""
    dataset = records[0].dataset
    printed = paper.table(dataset, records[0].experiment)
    usual = list(printed.columns if printed else DATASETS[dataset].all_pairs if dataset in DATASETS else ())
    pairs: dict[str, list[Record]] = {}
    for r in records:
        pairs.setdefault(r.pair, []).append(r)
    order = sorted(pairs, key=lambda pair: usual.index(pair) if pair in usual else len(usual))
    columns = {pair: values(pairs[pair], metric, part) for pair in order}
    if len(pairs) > 1:
        columns[AVERAGE] = _average(list(columns.values()))
    return columns


def paper_figure(printed: PaperTable | None, columns: Columns, variant: str, column: str) -> float | None:
    """None for an average over other columns than ours."""
    if printed is None or (column == AVERAGE and set(columns) != set(printed.columns)):
        return None
    return printed.mean(variant, column)


def _by_pair(title: str, records: Sequence[Record], metric: str, printed: PaperTable | None) -> Table:
    what = "accuracy on both test parts pooled" if metric == "accuracy" else "both test parts pooled"
    return _table(f"{title}: {what}, %", records, by_pair(records, metric), printed)


def _by_class(title: str, records: Sequence[Record]) -> Table:
    classes = DATASETS[records[0].dataset].classes
    columns = {name: values(records, f"class_accuracy/{name}") for name in classes}
    columns[AVERAGE] = values(records, "class_mean_accuracy")
    same = records[0].pair in DATASETS[records[0].dataset].pairs
    printed = paper.table(records[0].dataset, records[0].experiment) if same else None
    return _table(f"{title}: accuracy by class, both test parts pooled, %", records, columns, printed)


def values(records: Sequence[Record], metric: str, part: str = "pooled") -> Rows:
    rows: Rows = {}
    for record in records:
        value = record.value(metric, part)
        if value is not None:
            rows.setdefault(record.label, {})[record.seed] = value
    return rows


def _average(columns: Sequence[Rows]) -> Rows:
    """Over the pairs, for each seed that has them all; a row without such a seed has none."""
    averages: Rows = {}
    for row in columns[0]:
        seeds = sorted(set.intersection(*(set(column.get(row, {})) for column in columns)))
        if seeds:
            averages[row] = {seed: fmean(column[row][seed] for column in columns) for seed in seeds}
    return averages


def _table(title: str, records: Sequence[Record], columns: Columns, printed: PaperTable | None) -> Table:
    variants = {r.label: r.variant for r in records}
    order = sorted(variants, key=place)
    footnotes: dict[str, int] = {}
    rows, marked, compared = [], False, False
    for label in order:
        other, line = reference(label, variants), []
        for column, by_row in columns.items():
            mine = by_row.get(label, {})
            best = max((_shown(v) for v in by_row.values() if v), default=None)
            p = p_value(mine, by_row.get(other, {})) if other else None
            figure = paper_figure(printed, columns, variants[label], column)
            note = printed.notes.get((variants[label], column)) if printed and figure is not None else None
            number = footnotes.setdefault(note, len(footnotes) + 1) if note else 0
            differs = p is not None and p < LEVEL
            is_best = len(order) > 1 and bool(mine) and _shown(mine) == best
            line.append(Cell(summarise(mine), figure, number, is_best, differs))
            marked, compared = marked or differs, compared or figure is not None
        rows.append((label, tuple(line)))
    remarks = cautions(records)
    if compared and printed:
        remarks += [f"in brackets: the paper's figure (Table {printed.number}) and ours minus it", *printed.remarks]
    if marked:
        remarks.append(f"* differs from {main_variant(variants)} ({TEST})")
    return Table(title, ("", *columns), tuple(rows), tuple(footnotes), (*remarks, *provenance(records)))


def _shown(values: BySeed) -> float:
    """As printed: what reads alike is alike."""
    found = summarise(values)
    return round(found.mean, 1) if found else 0.0


def place(label: str) -> tuple[Any, ...]:
    """Baselines in the paper's order, other methods, the paper's Uni-HSSL and its variants, ours; knobs by value."""
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
    """What other rows are compared with: Uni-HSSL, whole in an ablation, the paper's if there is no other."""
    return next((whole for whole in (METHOD, UNIHSSL, "robust") if whole in variants.values()), UNIHSSL)


def reference(label: str, variants: dict[str, str]) -> str | None:
    """The row to compare with: Uni-HSSL set alike, or the only one there is."""
    main = main_variant(variants)
    there = [name for name, variant in variants.items() if variant == main]
    same = [name for name in there if name.removeprefix(main) == label.removeprefix(variants[label])]
    chosen = same or (there if len(there) == 1 else [])
    return chosen[0] if chosen and chosen[0] != label else None

"""Tables out of records: methods down, pairs across, like the paper's; and every number of a pair in detail."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unihssl.data.catalog import DATASETS
from unihssl.experiments import paper
from unihssl.experiments.grids import METHOD, SENSITIVITY, VARIANTS
from unihssl.experiments.paper import AVERAGE, ORDER, PaperTable
from unihssl.experiments.results import Record
from unihssl.experiments.statistics import LEVEL, TEST, BySeed, Summary, p_value, summarise

BY_CLASS = ("visda-2017",)  # the paper's columns are classes there
MORE_METRICS = {"isic-2019": {"macro_f1": "macro F1", "class_mean_accuracy": "balanced accuracy"}}


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
    for dataset, experiment in dict.fromkeys((r.dataset, r.experiment) for r in records):
        mine = [r for r in records if (r.dataset, r.experiment) == (dataset, experiment)]
        name = f"{dataset or 'own data'}, {experiment}"
        if experiment == SENSITIVITY:
            for knob in dict.fromkeys(r.variant.partition("=")[0] for r in mine):
                some = [r for r in mine if r.variant.partition("=")[0] == knob]
                tables.append(_by_pair(f"{name} of {knob}", some, "accuracy", None))
        elif dataset in BY_CLASS:
            for pair in dict.fromkeys(r.pair for r in mine):
                tables.append(_by_class(f"{name}, {pair}", [r for r in mine if r.pair == pair]))
        else:
            tables.append(_by_pair(name, mine, "accuracy", paper.table(dataset, experiment)))
            for metric, title in MORE_METRICS.get(dataset, {}).items():
                tables.append(_by_pair(f"{name}: {title}", mine, metric, None))
    return tables


def _by_pair(title: str, records: Sequence[Record], metric: str, printed: PaperTable | None) -> Table:
    usual = list(printed.columns) if printed else []
    if not usual and records[0].dataset in DATASETS:
        usual = list(DATASETS[records[0].dataset].all_pairs)
    pairs = list(dict.fromkeys(r.pair for r in records))
    pairs.sort(key=lambda pair: usual.index(pair) if pair in usual else len(usual))
    what = "accuracy on both test parts pooled" if metric == "accuracy" else "both test parts pooled"
    cells = {pair: values([r for r in records if r.pair == pair], metric) for pair in pairs}
    if len(pairs) > 1:
        cells[AVERAGE] = _average([cells[pair] for pair in pairs])
    comparable = printed is not None and set(pairs) == set(printed.columns) - {AVERAGE}
    return _table(f"{title}: {what}, %", records, cells, printed, comparable)


def _by_class(title: str, records: Sequence[Record]) -> Table:
    classes = DATASETS[records[0].dataset].classes
    printed = paper.table(records[0].dataset, records[0].experiment)
    cells = {name: values(records, f"class_accuracy/{name}") for name in classes}
    cells[AVERAGE] = values(records, "class_mean_accuracy")
    same = records[0].pair in DATASETS[records[0].dataset].pairs
    return _table(f"{title}: accuracy by class, both test parts pooled, %", records, cells, printed if same else None)


def values(records: Sequence[Record], metric: str, part: str = "pooled") -> dict[str, dict[int, float]]:
    """Row -> seed -> value."""
    rows: dict[str, dict[int, float]] = {}
    for record in records:
        value = record.value(metric, part)
        if value is not None:
            rows.setdefault(record.label, {})[record.seed] = value
    return rows


def _average(columns: Sequence[dict[str, dict[int, float]]]) -> dict[str, dict[int, float]]:
    """Over the pairs, for each seed that has them all."""
    averages: dict[str, dict[int, float]] = {}
    for row in columns[0]:
        seeds = set.intersection(*(set(column.get(row, {})) for column in columns))
        averages[row] = {s: sum(column[row][s] for column in columns) / len(columns) for s in sorted(seeds)}
    return averages


def _table(
    title: str,
    records: Sequence[Record],
    columns: dict[str, dict[str, dict[int, float]]],
    printed: PaperTable | None,
    comparable: bool = True,
) -> Table:
    """`comparable`: whether our average is over the same columns as the paper's."""
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
            figure = printed.mean(variants[label], column) if printed and (column != AVERAGE or comparable) else None
            note = printed.notes.get((variants[label], column)) if printed and figure is not None else None
            number = footnotes.setdefault(note, len(footnotes) + 1) if note else 0
            differs = p is not None and p < LEVEL
            is_best = len(order) > 1 and bool(mine) and _shown(mine) == best
            line.append(Cell(summarise(mine), figure, number, is_best, differs))
            marked, compared = marked or differs, compared or figure is not None
        rows.append((label, tuple(line)))
    remarks = list(_cautions(records))
    if compared and printed:
        remarks += [f"in brackets: the paper's figure (Table {printed.number}) and ours minus it", *printed.remarks]
    if marked:
        remarks.append(f"* differs from {METHOD} ({TEST})")
    return Table(title, ("", *columns), tuple(rows), tuple(footnotes), tuple(remarks))


def _shown(values: BySeed) -> float:
    """As printed: what reads alike is alike."""
    found = summarise(values)
    return round(found.mean, 1) if found else 0.0


def place(label: str) -> tuple[Any, ...]:
    """Baselines in the paper's order, then other methods, Uni-HSSL and what is left of it; values of a knob by size."""
    name = label.partition(" [")[0]
    if name in ORDER:
        return (0, ORDER.index(name), label)
    knob, equals, value = name.partition("=")
    if equals:
        try:
            return (1, 0, knob, float(value))
        except ValueError:
            return (1, 1, knob, value)
    if name in VARIANTS:
        return (3, list(VARIANTS).index(name), label)
    return (2, 0, label)


def reference(label: str, variants: dict[str, str]) -> str | None:
    """The row to compare with: Uni-HSSL set alike, or the only one there is."""
    there = [name for name, variant in variants.items() if variant == METHOD]
    same = [name for name in there if name.removeprefix(METHOD) == label.removeprefix(variants[label])]
    chosen = same or (there if len(there) == 1 else [])
    return chosen[0] if chosen and chosen[0] != label else None


def _cautions(records: Sequence[Record]) -> list[str]:
    dataset = DATASETS.get(records[0].dataset)
    if dataset is None or not dataset.caution:
        return []
    groups = {str(r.settings.get("group_by", "")) for r in records}
    said = [dataset.caution] if "" in groups else []
    return said + [f"split by {name}, where the paper splits by image" for name in sorted(groups - {""})]

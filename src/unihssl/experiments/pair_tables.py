"""Every number of every pair: as one table per pair, as rows for a program, and as a long CSV file."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from unihssl.csv_cells import safe_cell
from unihssl.data.catalog import DATASETS
from unihssl.experiments import paper, tables
from unihssl.experiments.paper import AVERAGE
from unihssl.experiments.results import LOGGED, PARTS, SOURCE, TRAINING, WHOLE, Record
from unihssl.experiments.significance import compare
from unihssl.experiments.tables import Cell, Columns, Summary, Table, by_pair, group_records, row_order, summarise

# Column -> metric and part.
WITH_DEVIATION = {
    "pooled": ("accuracy", "pooled"),
    "labeled": ("accuracy", "labeled"),
    "unlabeled": ("accuracy", "unlabeled"),
    "class mean": ("class_mean_accuracy", "pooled"),
    "class mean, labeled": ("class_mean_accuracy", "labeled"),
    "class mean, unlabeled": ("class_mean_accuracy", "unlabeled"),
    "macro F1": ("macro_f1", "pooled"),
    "macro F1, labeled": ("macro_f1", "labeled"),
    "macro F1, unlabeled": ("macro_f1", "unlabeled"),
}
# Column -> metric, and what it means.
MEANS = {
    "domain": ("domain_accuracy", "test samples whose domain is predicted correctly"),
    "oracle": (
        "oracle_routing_accuracy",
        "pooled accuracy of a routed method if every domain were predicted correctly",
    ),
    "mask": ("mask_rate", "unlabeled samples whose pseudo-label is trusted, at the end of training"),
    "pseudo": ("pseudo_accuracy", "correct pseudo-labels, at the end of training"),
    "train": (TRAINING, "unlabeled training samples, at most 500, that the model predicts correctly"),
}
CSV_COLUMNS = ("dataset", "experiment", "row", "pair", "part", "metric", "seeds", "mean", "std", "values")
COMPARED_COLUMNS = ("paper", "difference", "p")
FOLDERS = "folders"


def detail_tables(records: Sequence[Record]) -> list[Table]:
    """A table for each pair, with every metric in a column; the last explains the columns."""
    made = []
    for (dataset, experiment, pair), group in _by_pair_and_row(records).items():
        title = f"{dataset}, {experiment}, {pair}" if dataset else pair
        sources = {name: ("accuracy", name) for name in _sources(r for seeds in group.values() for r in seeds)}
        with_deviation = {column: WITH_DEVIATION[column] for column in PARTS} | sources | WITH_DEVIATION
        rows: list[tuple[str, tuple[Cell | str, ...]]] = []
        for label, seeds in group.items():
            cells = [_summary(seeds, *metric) for metric in with_deviation.values()]
            means = (_summary(seeds, name) for name, _ in MEANS.values())
            cells += [mean and replace(mean, std=None) for mean in means]
            rows.append((label, (str(len(seeds)), *map(Cell, cells))))
        columns = ("", "seeds", *with_deviation, *MEANS)
        made.append(Table(f"{title}: in detail, %", columns, tuple(rows)))
    legend = tuple(f"{column}: {text}" for column, (name, text) in MEANS.items() if _summary(records, name))
    return [*made[:-1], *(replace(last, remarks=legend) for last in made[-1:])]


def detail_rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """What --json prints and table.json holds: a dict for each pair and row, in percent.

    `values` (pooled accuracies), `folders` and `seed_numbers` are lists in one order. `average` is over all pairs.
    """
    averages = _averages(records)
    rows = []
    for (dataset, experiment, pair), group in _by_pair_and_row(records).items():
        for label, seeds in group.items():
            row: dict[str, Any] = {"dataset": dataset, "experiment": experiment, "pair": pair}
            row |= {"method": label, "seeds": len(seeds)}
            for column, metric in WITH_DEVIATION.items():
                found, key = _summary(seeds, *metric), _key(column)
                row |= {key: found.mean if found else None, f"{key}_std": found.std if found else None}
            for name, _ in MEANS.values():
                found = _summary(seeds, name)
                row[name] = found.mean if found else None
            for source in _sources(seeds):
                found = _summary(seeds, "accuracy", source)
                row.setdefault("sources", {})[source.removeprefix(SOURCE)] = found.mean if found else None
            row["average"] = averages.get((dataset, experiment, label))
            rows.append(row | _each_seed(seeds))
    return rows


def _key(column: str) -> str:
    return column.replace(",", "").replace(" ", "_").lower()


def _sources(records: Iterable[Record]) -> list[str]:
    """The sources of the unlabeled domain, where it has several, as parts of a result."""
    return list(dict.fromkeys(f"{SOURCE}{name}" for r in records for name in r.result.get("sources", {})))


def _averages(records: Sequence[Record]) -> dict[tuple[str, str, str], float]:
    """(data set, experiment, label) -> pooled accuracy averaged over the pairs, if there are several."""
    found = {}
    for group in group_records(records):
        for label, by_seed in by_pair(group, "accuracy").get(AVERAGE, {}).items():
            found[group[0].dataset, group[0].experiment, label] = fmean(by_seed.values())
    return found


def _each_seed(records: Sequence[Record]) -> dict[str, Any]:
    ordered = sorted(records, key=lambda r: r.seed)
    return {
        "seed_numbers": [r.seed for r in ordered],
        "values": [r.value("accuracy") for r in ordered],
        "warnings": sum(bool(r.result.get("warnings")) for r in ordered),
        FOLDERS: [str(r.folder) for r in ordered],
    }


def long_csv(records: Sequence[Record]) -> str:
    """One line for each row, pair, test part and metric, in percent over its seeds.

    The pair `Avg` is the average over pairs. `folders` are joined by semicolons, in the order of the values.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*CSV_COLUMNS, *COMPARED_COLUMNS, FOLDERS])
    for group in group_records(records):
        first, variants, ratio = group[0], {r.label: r.variant for r in group}, tables.held_out_ratio(group)
        folders = {(r.label, r.pair, r.seed): str(r.folder) for r in group}
        for metric, part in _measured(group):
            columns = by_pair(group, metric, part)
            for pair, by_row in columns.items():
                for label in sorted(by_row, key=row_order):
                    reference = tables.reference_row(label, variants)
                    found = compare(by_row[label], by_row.get(reference, {}), ratio) if reference else None
                    printed = _printed(first, columns, pair, variants[label], metric) if part == "pooled" else None
                    row = [first.dataset, first.experiment, label, pair, part, metric]
                    seed_folders = [folders.get((label, pair, seed), "") for seed in sorted(by_row[label])]
                    writer.writerow(
                        [
                            *map(safe_cell, row),
                            *_numbers(by_row[label], printed, found and found.p),
                            safe_cell(";".join(filter(None, seed_folders))),
                        ]
                    )
    return text.getvalue()


def _numbers(values: dict[int, float], printed: float | None, p: float | None) -> list[str]:
    """The columns from `seeds` to `p`."""
    found = summarise(values)
    assert found is not None
    each = " ".join(f"{seed}:{value:.3f}" for seed, value in sorted(values.items()))
    gap = None if printed is None else found.mean - printed
    numbers = [_text(found.mean), _text(found.std), each, _text(printed), _text(gap)]
    return [str(found.seeds), *numbers, "" if p is None else f"{p:.4g}"]


def _by_pair_and_row(records: Sequence[Record]) -> dict[tuple[str, str, str], dict[str, list[Record]]]:
    """(data set, experiment, pair) -> label -> the records of its seeds, labels in the order of the tables."""
    groups: dict[tuple[str, str, str], dict[str, list[Record]]] = {}
    for r in records:
        groups.setdefault((r.dataset, r.experiment, r.pair), {}).setdefault(r.label, []).append(r)
    return {key: {label: rows[label] for label in sorted(rows, key=row_order)} for key, rows in groups.items()}


def _measured(records: Sequence[Record]) -> list[tuple[str, str]]:
    classes = dict.fromkeys(c for r in records for c in r.result.get("pooled", {}).get("class_accuracy", {}))
    each = ["accuracy", "class_mean_accuracy", "macro_f1", *(f"class_accuracy/{name}" for name in classes)]
    parts = [(metric, part) for metric in each for part in (*PARTS, *_sources(records))]
    return parts + [(m, "") for m in (*WHOLE, *LOGGED, TRAINING)]


def _printed(record: Record, columns: Columns, pair: str, variant: str, metric: str) -> float | None:
    """The paper's figure, which is for VisDA a class or their mean, else the accuracy of a pair or the average."""
    printed = paper.table(record.dataset, record.experiment)
    if record.dataset in tables.BY_CLASS:
        name, _, of_class = metric.partition("/")
        column = {"class_accuracy": of_class, "class_mean_accuracy": AVERAGE}.get(name, "")
        return printed.mean(variant, column) if printed and pair in DATASETS[record.dataset].pairs else None
    return tables.paper_figure(printed, columns, variant, pair) if metric == "accuracy" else None


def _summary(records: Sequence[Record], metric: str, part: str = "") -> Summary | None:
    found = {r.seed: value for r in records if (value := r.value(metric, part)) is not None}
    return summarise(found)


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"

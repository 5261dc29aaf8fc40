"""Every number of every pair: as a table a pair, as rows for a program, and as a long CSV file."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from unihssl.data.catalog import DATASETS
from unihssl.experiments import paper
from unihssl.experiments.paper import AVERAGE
from unihssl.experiments.results import LAST, PARTS, TRAINING, WHOLE, Record
from unihssl.experiments.statistics import Summary, p_value, summarise
from unihssl.experiments.tables import BY_CLASS, Cell, Columns, Table, by_pair, groups, paper_figure, place, reference

# Column -> metric and part. Those without a deviation are shown as means alone.
WITH_DEVIATION = {
    "pooled": ("accuracy", "pooled"),
    "labeled": ("accuracy", "labeled"),
    "unlabeled": ("accuracy", "unlabeled"),
    "class mean": ("class_mean_accuracy", "pooled"),
    "macro F1": ("macro_f1", "pooled"),
}
MEANS = {
    "domain": ("domain_accuracy", ""),
    "oracle": ("oracle_routing_accuracy", ""),
    "mask": ("mask_rate", ""),
    "pseudo": ("pseudo_accuracy", ""),
    "train": (TRAINING, ""),
}
LEGEND = {
    "domain": "how often the domain of a sample is told right",
    "oracle": "pooled accuracy of a routed method if the domain were always told right",
    "mask": "unlabeled samples whose pseudo-label is trusted, at the end of training",
    "pseudo": "pseudo-labels that are right, at the end of training",
    "train": "unlabeled training samples (of some 500, where there are more) that the model predicts right",
}
CSV_COLUMNS = ("dataset", "experiment", "row", "pair", "part", "metric", "seeds", "mean", "std", "values")
COMPARED_COLUMNS = ("paper", "difference", "p")
FOLDERS = "folders"


def detail_tables(records: Sequence[Record]) -> list[Table]:
    """One for each pair; what the columns mean is said below the last."""
    tables = []
    for (dataset, experiment, pair), mine in _groups(records):
        rows = []
        for label in sorted(dict.fromkeys(r.label for r in mine), key=place):
            own = [r for r in mine if r.label == label]
            cells: list[Cell | str] = [str(len(own))]
            cells += [Cell(_summary(own, *what)) for what in WITH_DEVIATION.values()]
            for what in MEANS.values():
                found = _summary(own, *what)
                cells.append(Cell(found and Summary(found.seeds, found.mean, None)))
            rows.append((label, tuple(cells)))
        title = ", ".join(part for part in (dataset, experiment, pair) if part)
        columns = ("", "seeds", *WITH_DEVIATION, *MEANS)
        tables.append(Table(f"{title}: in detail, %", columns, tuple(rows)))
    there = [name for name, what in MEANS.items() if _summary(records, *what)]
    legend = tuple(f"{name}: {LEGEND[name]}" for name in there)
    return [*tables[:-1], *(replace(last, remarks=legend) for last in tables[-1:])]


def detail_rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """What --json prints and table.json holds: a row for each pair and method, in percent.

    `values` (pooled accuracies), `folders` and `seed_numbers` go seed by seed. `average` is that over all pairs.
    """
    averages = _averages(records)
    rows = []
    for (dataset, experiment, pair), mine in _groups(records):
        for label in sorted(dict.fromkeys(r.label for r in mine), key=place):
            own = [r for r in mine if r.label == label]
            row: dict[str, Any] = {"dataset": dataset, "experiment": experiment, "pair": pair}
            row |= {"method": label, "seeds": len(own)}
            for name, what in WITH_DEVIATION.items():
                found, key = _summary(own, *what), name.replace(" ", "_").lower()
                row |= {key: found.mean if found else None, f"{key}_std": found.std if found else None}
            for metric, part in MEANS.values():
                found = _summary(own, metric, part)
                row[metric] = found.mean if found else None
            row["average"] = averages.get((dataset, experiment, label))
            rows.append(row | _each_seed(own))
    return rows


def _averages(records: Sequence[Record]) -> dict[tuple[str, str, str], float]:
    """Of pooled accuracy over the pairs, where there are several, by data set, experiment and row."""
    found = {}
    for mine in groups(records):
        for label, by_seed in by_pair(mine, "accuracy").get(AVERAGE, {}).items():
            found[mine[0].dataset, mine[0].experiment, label] = fmean(by_seed.values())
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
    """One line for each number there is: a row, pair, test part and metric over its seeds, in percent.

    The pair `Avg` is the average over pairs, as the tables have it. The folders of the runs, with semicolons between
    them, are in the order of the values.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*CSV_COLUMNS, *COMPARED_COLUMNS, FOLDERS])
    for mine in groups(records):
        variants = {r.label: r.variant for r in mine}
        folders = {(r.label, r.pair, r.seed): str(r.folder) for r in mine}
        for metric, part in _measured(mine):
            columns = by_pair(mine, metric, part)
            for pair, by_row in columns.items():
                for label in sorted(by_row, key=place):
                    other = reference(label, variants)
                    p = p_value(by_row[label], by_row.get(other, {})) if other else None
                    printed = _printed(mine[0], columns, pair, variants[label], metric) if part == "pooled" else None
                    row = [mine[0].dataset, mine[0].experiment, label, pair, part, metric]
                    where = [folders.get((label, pair, seed), "") for seed in sorted(by_row[label])]
                    writer.writerow([*row, *_numbers(by_row[label], printed, p), ";".join(filter(None, where))])
    return text.getvalue()


def _numbers(values: dict[int, float], printed: float | None, p: float | None) -> list[str]:
    """From the number of seeds on to p."""
    found = summarise(values)
    assert found is not None
    each = " ".join(f"{seed}:{value:.3f}" for seed, value in sorted(values.items()))
    gap = None if printed is None else found.mean - printed
    numbers = [_text(found.mean), _text(found.std), each, _text(printed), _text(gap)]
    return [str(found.seeds), *numbers, "" if p is None else f"{p:.4g}"]


def _groups(records: Sequence[Record]) -> Iterator[tuple[tuple[str, str, str], list[Record]]]:
    for group in dict.fromkeys((r.dataset, r.experiment, r.pair) for r in records):
        yield group, [r for r in records if (r.dataset, r.experiment, r.pair) == group]


def _measured(records: Sequence[Record]) -> list[tuple[str, str]]:
    classes = dict.fromkeys(c for r in records for c in r.result.get("pooled", {}).get("class_accuracy", {}))
    each = ["accuracy", "class_mean_accuracy", "macro_f1", *(f"class_accuracy/{name}" for name in classes)]
    return [(metric, part) for metric in each for part in PARTS] + [(m, "") for m in (*WHOLE, *LAST, TRAINING)]


def _printed(record: Record, columns: Columns, pair: str, variant: str, metric: str) -> float | None:
    """The paper's figure; of VisDA it has classes and their mean, of others accuracies of pairs and their average."""
    printed = paper.table(record.dataset, record.experiment)
    if record.dataset in BY_CLASS:
        name, _, of_class = metric.partition("/")
        column = {"class_accuracy": of_class, "class_mean_accuracy": AVERAGE}.get(name, "")
        return printed.mean(variant, column) if printed and pair in DATASETS[record.dataset].pairs else None
    return paper_figure(printed, columns, variant, pair) if metric == "accuracy" else None


def _summary(records: Sequence[Record], metric: str, part: str) -> Summary | None:
    found = {r.seed: value for r in records if (value := r.value(metric, part)) is not None}
    return summarise(found)


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"

"""The figures that the paper prints (arXiv 2503.00286), with notes on those that cannot be right.

`paper.json` holds its tables 1, 3, 4, 5 and 6 with columns and rows named as in this package, for comparison only:
several averages do not follow from their rows, and some cells are impossible.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

METHOD = "unihssl"
UNIHSSL = f"{METHOD}:paper"  # the paper's method with its preset
METHODS = ("supervised", "flexmatch", "fixmatch", "simmatch", "cdan+sup", "mcc+sup", "biadapt", UNIHSSL)
FLOOR, CEILING = "supervised", "oracle"  # between which a share of the gap is closed
# The rows of a table in order.
ORDER: tuple[str, ...] = ("oracle", "supervised", "supervised+adabn", "flexmatch", "fixmatch", "freematch")
ORDER += ("adamatch", "simmatch", "cdan", "cdan+sup", "mcc", "mcc+sup", "biadapt")
AVERAGE = "Avg"


@dataclass(frozen=True)
class PaperTable:
    """A printed table: mean (and deviation) in percent by row and column."""

    number: int
    columns: tuple[str, ...]
    cells: dict[tuple[str, str], tuple[float, ...]]
    notes: dict[tuple[str, str], str]  # what is wrong with a cell
    remarks: tuple[str, ...]  # what is wrong with the table

    def mean(self, row: str, column: str) -> float | None:
        cell = self.cells.get((row, column))
        return cell[0] if cell else None


def table(dataset: str, experiment: str) -> PaperTable | None:
    """The paper's table of an experiment (`benchmark`, `ablation`) on a data set, if it has one."""
    return _tables().get((dataset, experiment))


@cache
def _tables() -> dict[tuple[str, str], PaperTable]:
    content = json.loads(files("unihssl.experiments").joinpath("paper.json").read_text(encoding="utf-8"))
    tables = {}
    for dataset, experiments in content.items():
        for experiment, given in experiments.items():
            columns = tuple(given["columns"])
            cells = {
                (row, column): tuple(cell)
                for row, printed in given["rows"].items()
                for column, cell in zip(columns, printed, strict=True)
            }
            notes = {(n["row"], n["column"]): n["text"] for n in given["notes"] if n["row"]}
            remarks = tuple(n["text"] for n in given["notes"] if not n["row"])
            tables[dataset, experiment] = PaperTable(given["number"], columns, cells, notes, remarks)
    return tables

"""What a model says about some samples, as arrays, as a table or as a CSV file."""

import csv
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from unihssl.csv_cells import safe_cell
from unihssl.errors import Setting, UserError
from unihssl.files import atomic

if TYPE_CHECKING:
    from unihssl.evaluation.model import Model

NO_REFERENCE = "this model was saved without features of its training samples, which novelty needs; train it again"


@dataclasses.dataclass(frozen=True)
class Predictions:
    """What a model predicts for each of N samples.

    >>> found = model.predictions("new_scans")
    >>> found.to_csv("preds.csv")
    >>> found.to_frame()["confidence"].mean()
    """

    names: tuple[str, ...]
    classes: np.ndarray  # (N,) as named in training
    probabilities: dict[str, np.ndarray]  # prediction rule -> (N, C), columns as in `model.classes_`
    unlabeled_domain: np.ndarray | None  # (N,) probability of the unlabeled domain
    oracle: tuple[str, str] | None = None  # the rules to use if the domain were known: labeled, unlabeled
    notes: tuple[str, ...] = ()
    novelty: np.ndarray | None = None  # (N,) percentiles, if the model has a reference
    features: np.ndarray | None = None  # (N, D), if asked for
    model: "Model | None" = dataclasses.field(default=None, repr=False, compare=False)  # whose predictions these are

    def __repr__(self) -> str:
        return f"<Predictions of {len(self.names)} samples; to_frame() shows them, with pandas>"

    def is_unknown(self, above: float) -> np.ndarray:
        """(N,) bool: which samples are probably of no class, as their novelty is above this percentile."""
        if not isinstance(above, int | float | np.number) or not 1 <= above <= 100:
            raise UserError(f"{Setting('unknown_above')} is a percentile from 1 to 100, such as 99; got {above}")
        if self.novelty is None:
            raise UserError(NO_REFERENCE)
        return np.asarray(self.novelty > above)

    def columns(self, max_risk: float | None = None, unknown_above: float | None = None) -> dict[str, list[Any]]:
        """A table by column: path, class, confidence, novelty, a probability for each class, and the domain's.

        Of an audited model confidences and probabilities are calibrated, and `abstain` says where to give no answer.
        `unknown` says where the novelty is above `unknown_above`, if that is given.
        """
        assert self.model is not None
        probabilities, count = self.model.calibrated(self), len(self.names)
        table: dict[str, list[Any]] = {"path": list(self.names), "class": self.classes.tolist()}
        table["confidence"] = _rounded(probabilities.max(1))
        if self.model.audited is not None:
            table["abstain"] = _yes_or_no(self.model.abstains(self, max_risk))
        if self.novelty is not None:
            table["novelty"] = _rounded(self.novelty, 2)
        if unknown_above is not None:
            table["unknown"] = _yes_or_no(self.is_unknown(unknown_above))
        table |= {f"p({c})": _rounded(p) for c, p in zip(self.model.classes_, probabilities.T, strict=True)}
        domain = self.unlabeled_domain
        table["p(unlabeled domain)"] = [None] * count if domain is None else _rounded(domain)
        return table

    def to_frame(self, max_risk: float | None = None, unknown_above: float | None = None) -> Any:
        """The table as a pandas DataFrame."""
        try:
            import pandas  # an optional package
        except ImportError:
            raise UserError("to_frame needs pandas: pip install pandas") from None
        return pandas.DataFrame(self.columns(max_risk, unknown_above))

    def to_csv(
        self, out: str | Path | TextIO, max_risk: float | None = None, unknown_above: float | None = None
    ) -> None:
        """Write the table as CSV, to a path or an open file. Texts that a spreadsheet would run get a quote first."""
        table = self.columns(max_risk, unknown_above)
        rows = [list(table), *([_cell(value) for value in row] for row in zip(*table.values(), strict=True))]
        if not isinstance(out, str | Path):
            csv.writer(out, lineterminator="\n").writerows(rows)
            return
        with atomic(Path(out)) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return safe_cell(value)
    return f"{value:.6f}" if isinstance(value, float) else value


def _rounded(values: np.ndarray, digits: int = 6) -> list[float]:
    return [round(value, digits) for value in values.astype(np.float64).tolist()]


def _yes_or_no(flags: np.ndarray) -> list[str]:
    return ["yes" if flag else "no" for flag in flags]

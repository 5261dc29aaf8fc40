"""Predictions as a CSV file."""

import csv
from pathlib import Path

from unihssl.evaluation.model import Model, Predictions
from unihssl.files import atomic


def write_predictions(path: Path, model: Model, predictions: Predictions, max_risk: float | None = None) -> None:
    """path, class, confidence, a probability for each class, and that of the unlabeled domain.

    Of an audited model confidences and probabilities are calibrated, and `abstain` says where to give no answer.
    """
    probabilities = model.calibrated(predictions)
    abstain = None if model.audited is None else model.abstains(predictions, max_risk)
    header = ["path", "class", "confidence", *([] if abstain is None else ["abstain"])]
    with atomic(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*header, *(f"p({c})" for c in model.classes_), "p(unlabeled domain)"])
        for i, (name, row) in enumerate(zip(predictions.names, probabilities, strict=True)):
            domain = "" if predictions.unlabeled_domain is None else f"{predictions.unlabeled_domain[i]:.6f}"
            best = row.argmax()
            answer = [name, model.classes_[best], f"{row[best]:.6f}"]
            answer += [] if abstain is None else ["yes" if abstain[i] else "no"]
            writer.writerow([*answer, *(f"{p:.6f}" for p in row), domain])

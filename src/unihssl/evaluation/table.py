"""Predictions as a CSV file."""

import csv
from pathlib import Path

from unihssl.evaluation.model import Model, Predictions
from unihssl.files import atomic


def write_predictions(path: Path, model: Model, predictions: Predictions) -> None:
    """path, class, confidence, a probability for each class, and that of the unlabeled domain."""
    probabilities = model.probabilities(predictions)
    with atomic(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "class", "confidence", *(f"p({c})" for c in model.classes_), "p(unlabeled domain)"])
        for i, (name, row) in enumerate(zip(predictions.names, probabilities, strict=True)):
            domain = "" if predictions.unlabeled_domain is None else f"{predictions.unlabeled_domain[i]:.6f}"
            best = row.argmax()
            writer.writerow([name, model.classes_[best], f"{row[best]:.6f}", *(f"{p:.6f}" for p in row), domain])

"""What the model says of a batch of images, as the service's answers."""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, Field

from unihssl.errors import UserError
from unihssl.report.pictures import data_uri
from unihssl.serving.predictor import Predictor

HEAT_SIDE = 320  # pixels of a heat map


NEAREST_SIDE = 160


class Neighbour(BaseModel):
    """A training image that is much like the one asked about."""

    domain: str = Field(description="labeled or unlabeled")
    label: str | None = Field(alias="class", description="Its class; null if it is of the unlabeled domain")
    image: str = Field(description="A data: address of a JPEG")


class Answer(BaseModel):
    """What the model says of one image."""

    name: str = Field("", description="The file's name as it was sent, or the image's position")
    label: str = Field(alias="class", description="The most probable class")
    confidence: float = Field(description="Its probability; calibrated if the model was audited")
    calibrated: bool = Field(description="Whether confidence and probabilities are calibrated by an audit")
    abstain: bool | None = Field(description="Whether to give no answer, by the audit; null without one")
    unlabeled_domain: float | None = Field(description="Probability of the unlabeled domain; null if not told")
    novelty: float | None = Field(description="How unlike all training images, 0 to 100; null if not told")
    probabilities: dict[str, float] = Field(description="By class")
    notes: list[str] = Field([], description="What to know of how the image was decoded; mostly empty")
    heat: str | None = Field(None, description="Where the network looks, as a data: address of a JPEG; if asked for")
    nearest: list[Neighbour] | None = Field(None, description="The most similar training images; if asked for")


class Answers(BaseModel):
    predictions: list[Answer]


class Question(NamedTuple):
    """A decoded image (H, W, C), and whether a heat map and the nearest training images are asked for."""

    pixels: np.ndarray
    heat: bool = False
    nearest: bool = False


def answer(predictor: Predictor, questions: Sequence[Question]) -> list[Answer]:
    """One answer for each question."""
    pixels = np.stack([question.pixels for question in questions])
    found = predictor.run(pixels)
    calibrated = "calibrated" in found
    probabilities = found["calibrated" if calibrated else "probabilities"].astype(np.float64)
    chosen = found["probabilities"].argmax(1)
    pictures = _heat(predictor, pixels, chosen, questions)
    names = predictor.classes
    return [
        Answer(
            **{"class": names[chosen[row]]},
            confidence=round(probabilities[row].max(), 6),
            calibrated=calibrated,
            abstain=bool(found["abstain"][row]) if "abstain" in found else None,
            unlabeled_domain=_number(found, "unlabeled_domain", row, 6),
            novelty=_number(found, "novelty", row, 2),
            probabilities=dict(zip(names, probabilities[row].round(6).tolist(), strict=True)),
            heat=pictures.get(row),
            nearest=_nearest(predictor, found, row) if question.nearest else None,
        )
        for row, question in enumerate(questions)
    ]


def _heat(
    predictor: Predictor, pixels: np.ndarray, classes: np.ndarray, questions: Sequence[Question]
) -> dict[int, str]:
    """Pictures by row, where they are asked for and the model has them."""
    rows = [row for row, question in enumerate(questions) if question.heat]
    if predictor.heat is None or not rows:
        return {}
    pictures = predictor.heat(pixels[rows], classes[rows])
    return {row: data_uri(picture, HEAT_SIDE) for row, picture in zip(rows, pictures, strict=True)}


def _nearest(predictor: Predictor, found: dict[str, np.ndarray], row: int) -> list[Neighbour] | None:
    if predictor.training is None:
        return None
    shown = []
    for place in found["nearest"][row]:
        with suppress(UserError, OSError):  # the file is gone since the service began
            image = predictor.training[int(place)]
            picture = data_uri(image.pixels, NEAREST_SIDE)
            shown.append(Neighbour(**{"class": image.label}, domain=image.role, image=picture))
    return shown


def _number(found: dict[str, np.ndarray], name: str, row: int, digits: int) -> float | None:
    return round(float(found[name][row]), digits) if name in found else None

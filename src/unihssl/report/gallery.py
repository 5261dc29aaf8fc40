"""Images of each domain that say most: most confident and right or wrong, most doubtful; and where the model looks."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from unihssl.errors import UserError
from unihssl.evaluation.metrics import PARTS
from unihssl.experiments.plots.from_run import classifier_of
from unihssl.models.classifier import Classifier
from unihssl.report.charts import shorten
from unihssl.report.heat import heat_maps, last_feature_map
from unihssl.report.pictures import data_uri, overlay
from unihssl.report.seen import Seen

EACH = 6  # images in a row
SIDE = 144  # pixels
LETTERS = 22  # of a file's name
IN_TURNS = "most confident", "most confident, right"
TURNS = "The classes take turns: of each predicted class the most confident image, then the second of each."


@dataclass(frozen=True)
class Picture:
    """An image, its heat map if there is one, and what the model says of it."""

    image: str
    heat: str
    name: str
    short_name: str
    predicted: str
    confidence: float
    label: str  # empty where it is not known
    right: bool | None


@dataclass(frozen=True)
class Row:
    """Images of one kind."""

    title: str
    pictures: list[Picture]
    text: str = ""


def galleries(seen: Seen, role: str) -> list[Row]:
    """The rows of one domain. Where its classes are not known, right and wrong are not told apart."""
    chosen = choose(seen.probabilities, seen.labels if seen.known else None)
    rows = np.concatenate([*chosen.values()]).astype(np.int64)
    if not len(rows):
        return []
    classes = [str(name) for name in seen.model.classes_]
    short = shorten([seen.names[row] for row in rows], LETTERS)
    pixels, heats = seen.pixels(rows), _heat(seen, rows, role)
    pictures = iter(
        Picture(
            data_uri(pixels[i], SIDE),
            data_uri(overlay(pixels[i], heats[i]), SIDE) if heats is not None else "",
            seen.names[row],
            short[seen.names[row]],
            classes[seen.predicted[row]],
            float(seen.confidence[row]),
            classes[seen.labels[row]] if seen.known else "",
            bool(seen.right[row]) if seen.known else None,
        )
        for i, row in enumerate(rows)
    )
    return [
        Row(title, [next(pictures) for _ in found], TURNS if title in IN_TURNS else "")
        for title, found in chosen.items()
    ]


def choose(probabilities: np.ndarray, labels: np.ndarray | None) -> dict[str, np.ndarray]:
    """Rows by what they show, none twice; classes take turns among the most confident, but not among wrong answers."""
    predicted, order = probabilities.argmax(1), np.argsort(-probabilities.max(1), kind="stable")
    if labels is None:
        chosen = {"most confident": _in_turns(order, predicted)}
    else:
        right = (predicted == labels)[order]
        chosen = {
            "most confident, right": _in_turns(order[right], predicted),
            "most confident, wrong": order[~right][:EACH],
        }
    left = order[~np.isin(order, np.concatenate([*chosen.values()]))]
    return chosen | ({"most doubtful": left[::-1][:EACH]} if len(left) else {})


def _in_turns(rows: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The first rows, no class a second time before every class had its first."""
    seen: dict[int, int] = {}
    turn = []
    for row in rows:
        turn.append(seen.get(int(classes[row]), 0))
        seen[int(classes[row])] = turn[-1] + 1
    return np.asarray(rows[np.argsort(np.array(turn, dtype=np.int64), kind="stable")][:EACH])


def _heat(seen: Seen, rows: np.ndarray, role: str) -> np.ndarray | None:
    """Heat maps (n, H, W) of the predicted classes; None where the network has no map of places."""
    try:
        network = _network(seen, role)
    except UserError:
        return None
    x = seen.inputs(rows)
    layer = last_feature_map(network, x)
    if layer is None:
        return None
    classes = torch.from_numpy(seen.predicted[rows]).to(x.device)
    return np.asarray(heat_maps(network, layer, x, classes, seen.probabilities.shape[1]).cpu().numpy())


def _network(seen: Seen, role: str) -> Classifier:
    """The network that answers in this domain; a routed method has one for each."""
    networks = seen.model.network
    if seen.routes and isinstance(networks, nn.ModuleDict) and set(seen.routes) <= set(networks):
        own = networks[seen.routes[PARTS.index(role)]]
        if isinstance(own, Classifier):
            return own
    return classifier_of(seen.model)

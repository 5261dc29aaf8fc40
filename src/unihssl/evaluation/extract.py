"""The features of a backbone, without training: what `unihssl features` writes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unihssl.config import Settings, fixed_window
from unihssl.data.batch_random import seed_for
from unihssl.data.cache import cache_folder
from unihssl.data.domain import UNKNOWN, Domain
from unihssl.data.grey_levels import plain_notes
from unihssl.data.intensity import Windows, decide_windows
from unihssl.data.readers import read
from unihssl.data.rendering import Rendering
from unihssl.data.store import fill_store, stored_size
from unihssl.data.survey import survey
from unihssl.data.views import Views
from unihssl.errors import Setting, UserError
from unihssl.files import atomic, make_folder
from unihssl.models.backbones import SMALL, Architecture, build_backbone, pick_device
from unihssl.models.encode import encode

BATCH = 64
Progress = Callable[[str], Callable[[int, int], None]]


@dataclass(frozen=True)
class Features:
    """Features of N samples; `labels` holds the name of each sample's class, "" where it is not known."""

    x: np.ndarray  # (N, D) float32
    labels: np.ndarray  # (N,) text
    names: np.ndarray  # (N,) text
    notes: tuple[str, ...] = ()

    def write(self, path: Path) -> None:
        """Write an .npz of `x`, `names` and, where classes are known, `y`: training takes it as a domain."""
        arrays: dict[str, Any] = {"x": self.x, "names": self.names}
        if (self.labels != "").any():
            arrays["y"] = self.labels
        make_folder(path.parent)
        with atomic(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)


def extract_features(source: Any, settings: Settings, progress: Progress) -> Features:
    """The features of a folder, a CSV or an array of images, from the view that predictions are made from.

    >>> extract_features("scans", Settings(backbone="resnet50"), Display().counter).x.shape
    (157, 2048)
    """
    domain = _domain(source, settings)
    if isinstance(domain.items, np.ndarray) and domain.items.ndim == 2:
        raise UserError(f"{domain.name}: these are feature vectors already, not images")
    encoder, architecture, width = _backbone(settings)
    device = torch.device(pick_device(settings.device))
    encoder.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    size = stored_size((domain,), settings.image_size, architecture.side, settings.channels)
    cache = cache_folder(settings.cache)
    measured = survey(domain, settings.channels, cache, progress("measuring"), settings.intensity).measured
    windows, notes = decide_windows(measured, settings.intensity, domain.name)  # from all: nothing is trained or tested
    if windows and not fixed_window(settings.intensity):
        notes.append(f"{domain.name}: {_how_to_compare(windows)}")
    how = Rendering(size, settings.channels, {kind: (w,) for kind, w in windows.items()}, trained=False)
    domain, store = fill_store(replace(domain, notes=(*domain.notes, *notes)), how, progress("decoding"), cache)
    notes = [] if windows else plain_notes(domain, store, np.arange(len(domain)))
    notes += _random_weights_notes(settings)
    views, report = Views(architecture.side, architecture.mean, architecture.std), progress("computing features")

    def batches() -> Iterator[Tensor]:
        for rows in torch.split(torch.arange(len(store)), BATCH):
            yield views.test(store.take(rows).to(device))
            report(int(rows[-1]) + 1, len(store))

    features = torch.empty(len(store), width)
    encode(encoder, batches(), features, torch.bfloat16 if settings.precision == "bf16" else None)
    labels = ["" if number == UNKNOWN else str(domain.classes[number]) for number in domain.labels]
    return Features(features.numpy(), np.array(labels), np.array(domain.names), (*domain.notes, *notes))


def _backbone(settings: Settings) -> tuple[nn.Module, Architecture, int]:
    """The backbone; without trained weights it has those that a run of this seed starts from."""
    s = settings
    with torch.random.fork_rng([]):
        torch.manual_seed(seed_for("weights", s.seed))
        return build_backbone(s.backbone, s.weights, channels=s.channels, input_size=s.input_size)


def _random_weights_notes(settings: Settings) -> list[str]:
    if settings.weights != "none":
        return []
    way = "a file of weights" if settings.backbone in SMALL else f"{Setting('weights', 'pretrained')} or a file"
    return [
        f"the weights of {settings.backbone} are random, by {Setting('seed', settings.seed)}: {way} gives trained ones"
    ]


def _how_to_compare(windows: Windows) -> str:
    """How the features of other images become comparable with these: each call decides windows anew."""
    ends = {pair for window in windows.values() for pair in zip(window.low, window.high, strict=True)}
    if len(ends) > 1:
        return "each channel or kind of file has grey levels of its own: for comparable features, list all in one CSV"
    low, high = (f"{end!r}".removesuffix(".0") for end in ends.pop())
    return f"{Setting('intensity', f'window:{low},{high}')} gives another folder the same grey levels"


def _domain(source: Any, settings: Settings) -> Domain:
    """The samples of a source, with classes where it has any."""
    listed = read(source, settings, "unlabeled")
    classes = tuple(sorted(listed.classes, key=str))
    number = {label: i for i, label in enumerate(classes)} | {None: UNKNOWN}
    labels = np.array([number[label] for label in listed.labels], dtype=np.int64)
    return Domain(listed.name, listed.items, tuple(listed.names), labels, classes, notes=listed.notes)

"""A frozen backbone (`train=head`): the features of each view are computed once, and kept in the cache."""

import copy
import hashlib
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unihssl.data.batch_random import BatchRandom, seed_for
from unihssl.data.frozen_views import FrozenViews, ViewName, draw_view, row_numbers
from unihssl.data.pair import DomainPair
from unihssl.data.store import Store, as_tensor
from unihssl.data.views import Views
from unihssl.errors import Setting, UserError
from unihssl.files import atomic, lock_if_possible, make_folder
from unihssl.models.backbones import Architecture
from unihssl.models.classifier import Classifier
from unihssl.models.encode import encode
from unihssl.plain_files import BAD_NUMPY
from unihssl.training.display import Display
from unihssl.training.forecast import TIMED_SECONDS, TOO_LONG, duration

FORMAT = 1  # raise it whenever the same images and backbone would give other features
BATCH = 64
SAVE_SECONDS = 30  # between two times that unfinished features are kept


class FrozenBackbone:
    """Computes features for training, and joins backbone and trained head in the end."""

    def __init__(
        self,
        encoder: nn.Module,
        width: int,
        architecture: Architecture,
        device: torch.device,
        autocast: torch.dtype | None,
        cache: Path | None,
        display: Display,
    ) -> None:
        self.encoder: nn.Module = encoder.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.width, self.device, self.autocast, self.display = width, device, autocast, display
        self.cache = cache / "features" if cache else None
        self.key = _key(asdict(architecture), *_bytes_of(encoder))
        self._views: list[FrozenViews] = []
        self._sizes: list[int] = []  # samples of each
        self._wanted: list[tuple[FrozenViews, str, int]] = []  # and how many views of images these are
        self._rehearsing, self._left, self._told = False, 0, False

    def make_encoder(self) -> tuple[nn.Module, int]:
        """What stands for the backbone while the head trains: its input is features already."""
        return nn.Identity(), self.width

    def freeze(self, role: str, store: Store, views: Views, count: int) -> tuple[Store, FrozenViews]:
        """Row numbers in place of a domain's images, and the views that give their features."""

        def features(name: ViewName) -> Tensor:
            if self._rehearsing:
                return torch.randn(len(store), self.width, device=self.device)
            return self._features(role, store, views, name).to(self.device)

        self._views.append(FrozenViews(views, count, features))
        self._sizes.append(len(store))
        return row_numbers(store, self.device), self._views[-1]

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """While entered, features are random ones. Later, `compute` gets the real ones of the views asked for here."""
        self._rehearsing = True
        try:
            yield
        finally:
            self._rehearsing = False
            self._wanted = [
                (views, kind, size * len(views.names(kind)))
                for views, size in zip(self._views, self._sizes, strict=True)
                for kind in dict.fromkeys((*views.forget(), "test"))  # the latter for `known`
            ]

    def compute(self) -> None:
        """Compute the features of those views, or read them from the cache."""
        self._left = sum(images for _, _, images in self._wanted)
        for views, kind, _ in self._wanted:
            views.load(kind)

    def attached(self, network: nn.Module) -> nn.Module:
        """A copy of the network with the backbone in front of every trained head: it takes images."""
        whole = copy.deepcopy(network)
        for number, part in enumerate([m for m in whole.modules() if isinstance(m, Classifier)]):
            part.encoder = copy.deepcopy(self.encoder) if number else self.encoder
        return whole

    def known(self, pair: DomainPair) -> DomainPair:
        """The domains with features of the test view in place of images, for the network without the backbone."""
        labeled, unlabeled = (
            replace(part, store=Store(views.load("test")[0], part.store.key))
            for part, views in zip(pair.parts.values(), self._views, strict=True)
        )
        return replace(pair, labeled=labeled, unlabeled=unlabeled)

    def _features(self, role: str, store: Store, views: Views, name: ViewName) -> Tensor:
        """Features of one view of all samples (N, D), from the cache if they are there."""
        self._left -= len(store)
        key = _key(self.key, store.key, str(self._precision(name)), _definition(views, name.kind), name)
        if self.cache is None:
            return self._computed(role, store, views, name)
        file, unfinished = self.cache / f"{key}.npz", self.cache / f"{key}.part.npz"
        with lock_if_possible(self.cache / "locks" / key):
            found = _read(file, self.width)
            if found is not None and len(found) == len(store):
                return found
            features = self._computed(role, store, views, name, unfinished)
            if error := self._keep(file, features):
                self.display.note(f"note: features are not cached: {error}")
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            return features

    def _keep(self, file: Path, features: Tensor) -> UserError | None:
        """Write features to the cache; what went wrong if that can't be done."""
        try:
            make_folder(file.parent)
            with atomic(file) as temporary, temporary.open("wb") as out:
                np.savez(out, features=features.numpy())  # a zip, which has a checksum
        except UserError as error:
            return error
        return None

    def _precision(self, name: ViewName) -> torch.dtype | None:
        """Full for the test view: its features are those that the finished model, which is tested on them, computes."""
        return None if name.kind == "test" else self.autocast

    def _computed(
        self, role: str, store: Store, views: Views, name: ViewName, unfinished: Path | None = None
    ) -> Tensor:
        """Features of all samples; the file `unfinished` has those that a process which was stopped had computed."""
        random = BatchRandom(self.device, seed=seed_for(f"{name.kind} features", name.number))
        progress = self.display.counter(f"features of {role} samples, {name.kind} view {name.number + 1}")
        features, before = torch.empty(len(store), self.width), 0
        found = _read(unfinished, self.width) if unfinished else None
        if found is not None and len(found) % BATCH == 0 and len(found) <= len(store):
            before = len(found)
            features[:before] = found
        begun = saved = time.monotonic()
        pause: float = SAVE_SECONDS  # until what is done is saved: longer each time, as all of it is written again

        def batches() -> Iterator[Tensor]:
            nonlocal saved, pause
            for rows in torch.split(torch.arange(len(store)), BATCH):
                images = store.take(rows.to(store.samples.device)).to(self.device)
                view = draw_view(views, name, images, random).contiguous(memory_format=torch.channels_last)
                done = int(rows[-1]) + 1
                if done <= before:  # drawn all the same: random numbers are used up in order
                    continue
                yield view
                now = time.monotonic()
                progress(done, len(store))
                if not self._told and (now - begun > TIMED_SECONDS or done == len(store)):
                    self._say_how_long((now - begun) / (done - before), len(store) - done + self._left)
                if unfinished and now - saved > pause and done < len(store):
                    failed = self._keep(unfinished, features[:done])
                    saved, pause = now, math.inf if failed else 1.5 * pause

        encode(self.encoder, batches(), features[before:], self._precision(name))
        return features

    def _say_how_long(self, seconds: float, left: int) -> None:
        """Once, when a few batches are done: how long the other images take, and how it could be less."""
        self._told = True
        if left <= 0:
            return
        line = f"features of {left:,} more views of images will take about {duration(left * seconds)}"
        ways = []
        if self.device.type == "cpu" and left * seconds >= TOO_LONG:
            if any(kind != "test" for _, kind, _ in self._wanted):
                ways.append(f"{Setting('feature_views', 0)} computes the test view alone")
                if self.autocast is None:
                    ways.append(f"{Setting('precision', 'bf16')} halves the others where the CPU has it")
            ways.append(f"a smaller {Setting('input_size')} or {Setting('backbone')} or a GPU takes less")
        self.display.note(f"{line} on this CPU: {'; '.join(ways)}" if ways else f"{line}, less where they are cached")


def _definition(views: Views, kind: str) -> dict[str, Any]:
    """What a view depends on; methods whose views are the same share the features."""
    drawn = {"weak_view", "least_area", "strong_view"}
    unused = {"test": drawn | {"flip"}, "strong": set(), "resized_crop": drawn - {"least_area"}}.get(kind, drawn)
    return {name: value for name, value in asdict(views).items() if name not in unused}


def _key(*parts: Any) -> str:
    digest = hashlib.sha256(f"features {FORMAT}\n".encode())
    for part in parts:
        digest.update(part if isinstance(part, bytes) else repr(part).encode())
    return digest.hexdigest()


def _bytes_of(encoder: nn.Module) -> Iterator[bytes]:
    for name, tensor in encoder.state_dict().items():
        yield name.encode()
        yield tensor.detach().cpu().contiguous().numpy().tobytes()


def _read(file: Path, width: int) -> Tensor | None:
    """Cached features (N, width); None if there are none, or of another width, or damaged."""
    with suppress(OSError, *BAD_NUMPY), np.load(file, allow_pickle=False) as saved:
        found = saved["features"]
        if found.ndim == 2 and found.shape[1] == width and found.dtype == np.float32:
            return as_tensor(found)
    return None

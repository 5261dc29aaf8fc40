"""Views whose features are known beforehand: what a training step sees of a frozen backbone."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from unihssl.data.batch_random import BatchRandom
from unihssl.data.store import Store
from unihssl.data.views import Views, WeakView


class ViewName(NamedTuple):
    """One view of all samples: its kind (test, strong, or that of a weak view), and which of several it is."""

    kind: str
    number: int = 0


class FrozenViews:
    """Takes the place of `Views` where samples are row numbers (B, 1): a view is one of a few computed once, at random.

    `features(name)` gives those of all samples (N, D). It is asked once for each view, when that is first needed.
    """

    def __init__(self, views: Views, count: int, features: Callable[[ViewName], Tensor]) -> None:
        """`count` is how many weak, and how many strong, views each sample has; with 0 all are the test view."""
        self.own, self.count, self.features = views, count, features
        self._known: dict[str, Tensor] = {}  # kind -> (count, N, D)

    def has_strong(self, rows: Tensor) -> bool:
        return self.count > 0

    def test(self, rows: Tensor) -> Tensor:
        """Features of the centre of the image (B, D)."""
        return self.load("test")[0, rows[:, 0]]

    def weak(self, rows: Tensor, random: BatchRandom, kind: WeakView | None = None) -> Tensor:
        """Features of one of the sample's weak views (B, D)."""
        return self._one_of(kind or self.own.weak_view, rows, random)

    def strong(self, rows: Tensor, random: BatchRandom) -> Tensor:
        """Features of one of the sample's strong views (B, D)."""
        return self._one_of("strong", rows, random)

    def names(self, kind: str) -> list[ViewName]:
        return [ViewName(kind, number) for number in range(1 if kind == "test" else self.count)]

    def load(self, kind: str) -> Tensor:
        """All features of a kind of view (count, N, D)."""
        if kind not in self._known:
            self._known[kind] = torch.stack([self.features(name) for name in self.names(kind)])
        return self._known[kind]

    def forget(self) -> list[str]:
        """Drop all features; returns the kinds of view that were asked for."""
        asked, self._known = list(self._known), {}
        return asked

    def _one_of(self, kind: str, rows: Tensor, random: BatchRandom) -> Tensor:
        if not self.count:
            return self.test(rows)
        return self.load(kind)[random.integers(self.count, len(rows)), rows[:, 0]]


def draw_view(views: Views, name: ViewName, images: Tensor, random: BatchRandom) -> Tensor:
    """The view of this name, of images (B, H, W, C)."""
    if name.kind == "test":
        return views.test(images)
    if name.kind == "strong":
        return views.strong(images, random)
    return views.weak(images, random, name.kind)  # type: ignore[arg-type]


def row_numbers(store: Store, device: torch.device) -> Store:
    """The samples' row numbers (N, 1) in place of the samples."""
    return Store(torch.arange(len(store), device=device).unsqueeze(1), store.key)

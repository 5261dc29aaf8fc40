"""Random numbers: a seed for every purpose, a stream for every view, the same however many processes share a batch."""

import copy
import zlib
from typing import Any

import numpy as np
import torch
from torch import Tensor


def seed_for(purpose: str, *parts: int) -> int:
    """Mix the purpose of a random stream and its position into one well-spread seed."""
    entropy = [zlib.crc32(purpose.encode()), *parts, len(parts)]  # the length: trailing zeros would be lost
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> np.uint64(1))


class BatchRandom:
    """One stream of random numbers for the samples of a batch, a row for each.

    Every process draws for the whole batch and keeps its own part, so that a sample gets the same numbers however
    many processes there are.
    """

    def __init__(self, device: torch.device | str = "cpu", shard: tuple[int, int] = (0, 1), seed: int = 0) -> None:
        """`shard` is this process's number, and how many processes there are."""
        self.generator = torch.Generator(device).manual_seed(seed)
        self.shard = shard
        self._options: dict[str, Any] = {"device": self.generator.device, "generator": self.generator}

    def uniform(self, count: int, *shape: int) -> Tensor:
        """Numbers in [0, 1) of shape (count, *shape), for this process's `count` samples."""
        return self.own(torch.rand(self.whole(count), *shape, **self._options))

    def normal(self, count: int, *shape: int) -> Tensor:
        """Standard normal numbers of shape (count, *shape)."""
        return self.own(torch.randn(self.whole(count), *shape, **self._options))

    def integers(self, below: int, count: int, *shape: int) -> Tensor:
        """Integers in 0..below-1 of shape (count, *shape), int64."""
        return self.own(torch.randint(below, (self.whole(count), *shape), **self._options))

    def whole(self, count: int) -> int:
        """Rows of all processes together, if this one has `count`."""
        return count * self.shard[1]

    def own(self, whole: Tensor) -> Tensor:
        """This process's rows of what was drawn for the whole batch."""
        rank, processes = self.shard
        return whole[rank::processes]

    def for_all(self) -> "BatchRandom":
        """The same stream, for samples that every process holds, as in a sweep."""
        stream = copy.copy(self)
        stream.shard = (0, 1)
        return stream


class RandomStreams:
    """A stream of random numbers for every name, so that the order in which views are asked for changes nothing.

    >>> random = RandomStreams()
    >>> random.reseed(7)
    >>> random["mixup"].uniform(4).shape
    torch.Size([4])
    """

    def __init__(self, device: torch.device | str = "cpu", shard: tuple[int, int] = (0, 1)) -> None:
        self.device, self.shard, self.seed = device, shard, 0
        self._streams: dict[str, BatchRandom] = {}

    def __getitem__(self, name: str) -> BatchRandom:
        if name not in self._streams:
            self._streams[name] = BatchRandom(self.device, self.shard, self._seed_of(name))
        return self._streams[name]

    def reseed(self, seed: int) -> None:
        """Start every stream anew."""
        self.seed = seed
        for name, stream in self._streams.items():
            stream.generator.manual_seed(self._seed_of(name))

    @property
    def generators(self) -> list[torch.Generator]:
        """Those in use so far, for a CUDA graph to register."""
        return [stream.generator for stream in self._streams.values()]

    def _seed_of(self, name: str) -> int:
        return self.seed ^ zlib.crc32(name.encode())


def seed_network(seed: int, device: torch.device) -> None:
    """Seed dropout and initial weights. `torch.manual_seed` asks every backend and takes 0.3 ms."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        index = device.index if device.index is not None else torch.cuda.current_device()
        torch.cuda.default_generators[index].manual_seed(seed)

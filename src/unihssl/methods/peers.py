"""The other processes of a run, as a method sees them. Alone, there are none and every call is free."""

from torch import Tensor


class Peers:
    """What is kept for the whole run (pseudo-labels, prototypes) must take in every process's part of the batch."""

    rank, count = 0, 1

    def gather(self, part: Tensor) -> Tensor:
        """The rows of all processes' parts, in the same order everywhere; gradients find their way back."""
        return part

    def own(self, whole: Tensor) -> Tensor:
        """This process's rows of a gathered tensor."""
        size = len(whole) // self.count
        return whole[self.rank * size : (self.rank + 1) * size]

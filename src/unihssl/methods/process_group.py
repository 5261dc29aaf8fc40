"""The processes that share a run, as a method sees them. With one process every call is free."""

from torch import Tensor


class ProcessGroup:
    """Each process holds a part of every batch; whatever is not a plain mean over samples must see the whole of it.

    Every process then computes the same loss of the same whole batch. Gradients come out right: each process's part
    receives the gradient of all their losses, and DDP's averaging divides by their number again.
    """

    rank, count = 0, 1

    def gather(self, part: Tensor) -> Tensor:
        """The rows of all processes in the order of the whole batch (B, ...); differentiable."""
        return part

    def own(self, whole: Tensor) -> Tensor:
        """This process's rows of a gathered tensor."""
        return whole[self.rank :: self.count]

    def mean(self, part: Tensor) -> Tensor:
        """The mean over the whole batch."""
        return self.gather(part).mean()

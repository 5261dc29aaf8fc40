"""Double precision, for tests that compare two ways to the same numbers.

Two ways add up in different orders. In single precision the last bit of a sum now and then decides whether a ReLU lets
a value through or a threshold is passed, and what follows is another result; on another CPU it is another sum.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def double_precision() -> Iterator[None]:
    """While entered, networks, buffers and constants are made as float64, and so is all that is computed with them."""
    _forget_constants()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)
        _forget_constants()


def _forget_constants() -> None:
    """Empty the package's caches of tensors, which were made in the precision of their time."""
    import unihssl.api  # noqa: F401 - all that training needs

    for name in [n for n in sys.modules if n.startswith("unihssl.data")]:
        for member in vars(sys.modules[name]).values():
            if hasattr(member, "cache_clear"):
                member.cache_clear()

"""What makes two runs of one seed equal: PyTorch's number of threads, and algorithms without chance.

Both belong to the process, so they are set while a run trains and then put back.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from unihssl.errors import Setting, UserError

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"  # which cuBLAS reads once
FIXED_WORKSPACES = (":4096:8", ":16:8")  # those with which its results do not depend on what else runs
NO_CHOICE = "does not have a deterministic implementation"  # in PyTorch's message


def prepare_cublas() -> None:
    """Give cuBLAS a fixed workspace, before CUDA starts. The variable stays, as cuBLAS goes by it."""
    if os.environ.get(WORKSPACE) in FIXED_WORKSPACES:
        return
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        raise UserError(
            f"{Setting('deterministic', True)} comes too late, as CUDA has been used in this process: set "
            f"{WORKSPACE}={FIXED_WORKSPACES[0]} in the environment before it starts"
        )
    os.environ[WORKSPACE] = FIXED_WORKSPACES[0]


@contextmanager
def pinned_threads(count: int) -> Iterator[None]:
    """PyTorch computes with this many CPU threads meanwhile; 0 leaves it alone."""
    if not count:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def deterministic_algorithms(wanted: bool) -> Iterator[None]:
    """Only algorithms that give the same result every time; an operation that has none is a `UserError`."""
    if not wanted:
        yield
        return
    cudnn = torch.backends.cudnn
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    chosen = cudnn.deterministic, cudnn.benchmark
    torch.use_deterministic_algorithms(True, warn_only=False)
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    except RuntimeError as error:
        reason, found, _ = str(error).partition(NO_CHOICE)
        if not found:
            raise
        raise UserError(f"{reason}{NO_CHOICE}: train with {Setting('deterministic', False)}") from error
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        cudnn.deterministic, cudnn.benchmark = chosen

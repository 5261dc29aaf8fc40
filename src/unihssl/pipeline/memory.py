"""Memory that runs out in training: one line that names the settings which help."""

from collections.abc import Iterator
from contextlib import contextmanager

from unihssl.errors import Setting, UserError, full_memory, resume_call
from unihssl.run_folder import RunFolder


@contextmanager
def memory_advice(folder: RunFolder, batch_size: int) -> Iterator[None]:
    """While entered, running out of memory is a `UserError` with the way out."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        whose = full_memory(error)
        if whose is None:
            raise
        half, size, head = (
            Setting("batch_size", max(2, batch_size // 2)),
            Setting("image_size"),
            Setting("train", "head"),
        )
        other = f"smaller batches ({half}) or images ({size}), or {head}, in a new run"
        place = Setting("placement", "host" if whose == "GPU" else "disk")
        again = f"{place} may help when it is resumed ({resume_call(folder.path)})" if folder.is_run else f"{place}"
        raise UserError(f"{folder.path}: the {whose}'s memory is full. Use {other}; {again}") from error

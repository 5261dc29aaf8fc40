"""Memory that runs out in training: one line that names the settings which help."""

from collections.abc import Iterator
from contextlib import contextmanager

from unihssl.config import Settings
from unihssl.errors import Setting, UserError, full_memory, resume_call
from unihssl.run_folder import RunFolder


@contextmanager
def memory_advice(folder: RunFolder, settings: Settings) -> Iterator[None]:
    """While entered, running out of memory is a `UserError` with the way out."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        whose = full_memory(error)
        if whose is None:
            raise
        half = Setting("batch_size", max(2, settings.batch_size // 2))
        if settings.train == "head":  # batches of features are small; those of images are of a fixed number
            fewer = f" or fewer views ({Setting('feature_views', 0)})" if settings.feature_views else ""
            raise UserError(
                f"{folder.path}: the {whose}'s memory is full. Use smaller images ({Setting('input_size')}), a smaller "
                f"{Setting('backbone')}{fewer}, in a new run"
            ) from error
        size, head = Setting("image_size"), Setting("train", "head")
        other = f"smaller batches ({half}) or images ({size}), or {head}, in a new run"
        place = Setting("placement", "host" if whose == "GPU" else "disk")
        again = f"{place} may help when it is resumed ({resume_call(folder.path)})" if folder.is_run else f"{place}"
        raise UserError(f"{folder.path}: the {whose}'s memory is full. Use {other}; {again}") from error

"""Where networks run."""

import torch

from unihssl.errors import UserError


def pick_device(wish: str) -> str:
    """cpu or cuda, from auto, cpu or cuda."""
    if wish not in ("auto", "cpu", "cuda"):
        raise UserError(f"device must be one of auto, cpu, cuda, got '{wish}'")
    available = torch.cuda.is_available()
    if wish == "cuda" and not available:
        raise UserError("device=cuda, but no CUDA GPU is available here: use cpu or auto")
    return "cuda" if available and wish != "cpu" else "cpu"

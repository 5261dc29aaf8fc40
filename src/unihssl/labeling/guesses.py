"""What a run's model takes an image for; computed only when somebody asks."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unihssl.labeling.images import Item

if TYPE_CHECKING:
    from unihssl.evaluation.model import Model


class Guesses:
    """The model of a run, loaded when the first guess is asked for."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._model: Model | None = None
        self._lock = threading.Lock()

    def __call__(self, item: Item) -> dict[str, Any]:
        """The predicted class and its confidence, calibrated if the run was audited."""
        from unihssl.evaluation.load import load_model

        with self._lock:
            self._model = self._model or load_model(self._run)
            found = self._model.predictions([item] if isinstance(item, Path) else item[None])
            return {"class": str(found.classes[0]), "confidence": float(self._model.calibrated(found).max())}

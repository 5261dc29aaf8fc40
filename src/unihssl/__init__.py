"""Heterogeneous semi-supervised learning: labels from one domain, images from another, one model for both.

>>> import unihssl
>>> model = unihssl.fit("scanner_a", "scanner_b", out="runs/first")
>>> model.predict("new_scans")
>>> unihssl.load("runs/first").predict_proba("new_scans")
"""

from typing import TYPE_CHECKING, Any

from unihssl.version import __version__

if TYPE_CHECKING:
    from unihssl.api import evaluate, export_run, fit
    from unihssl.errors import UserError
    from unihssl.estimator import HSSLClassifier
    from unihssl.evaluation.load import load_model as load
    from unihssl.evaluation.model import Model
    from unihssl.experiments.selection import select
    from unihssl.training.callbacks import Callback

__all__ = ["Callback", "HSSLClassifier", "Model", "UserError", "__version__", "evaluate", "export_run", "fit", "load"]
__all__ += ["select"]

_MODULES = {
    "Callback": "training.callbacks",
    "HSSLClassifier": "estimator",
    "Model": "evaluation.model",
    "load": "evaluation.load",
    "UserError": "errors",
    "evaluate": "api",
    "export_run": "api",
    "fit": "api",
    "select": "experiments.selection",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import on first use: `import unihssl` and the command line's help must not wait for torch."""
    if name not in _MODULES:
        raise AttributeError(f"module 'unihssl' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"unihssl.{_MODULES[name]}"), "load_model" if name == "load" else name)

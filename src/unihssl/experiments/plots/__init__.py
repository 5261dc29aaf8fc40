"""Figures of runs and grids. Each function writes a PNG and an SVG of one name and returns both paths.

matplotlib is loaded when the first figure is drawn: `pip install 'unihssl[plots]'`.
"""

from unihssl.experiments.plots.canvas import require_matplotlib
from unihssl.experiments.plots.confusion import confusion_matrices
from unihssl.experiments.plots.features import feature_map
from unihssl.experiments.plots.from_run import run_features, run_guesses
from unihssl.experiments.plots.learning import learning_curves
from unihssl.experiments.plots.select_runs import Wanted, chosen_runs, described, figure_names, is_run
from unihssl.experiments.plots.sensitivity import sensitivity_curve

__all__ = [
    "Wanted",
    "chosen_runs",
    "confusion_matrices",
    "described",
    "feature_map",
    "figure_names",
    "is_run",
    "learning_curves",
    "require_matplotlib",
    "run_features",
    "run_guesses",
    "sensitivity_curve",
]

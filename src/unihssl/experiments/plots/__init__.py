"""Figures of runs and grids. Each function writes a PNG and an SVG of one name and returns both paths.

matplotlib is needed, and imported when the first figure is drawn: `pip install 'unihssl[plots]'`.
"""

from unihssl.experiments.plots.canvas import require_matplotlib as require_matplotlib
from unihssl.experiments.plots.confusion import confusion_matrices as confusion_matrices
from unihssl.experiments.plots.features import feature_map as feature_map
from unihssl.experiments.plots.from_run import run_features as run_features
from unihssl.experiments.plots.from_run import run_result as run_result
from unihssl.experiments.plots.learning import learning_curves as learning_curves
from unihssl.experiments.plots.select_runs import RunFilter as RunFilter
from unihssl.experiments.plots.select_runs import figure_names as figure_names
from unihssl.experiments.plots.select_runs import is_run as is_run
from unihssl.experiments.plots.select_runs import run_title as run_title
from unihssl.experiments.plots.select_runs import select_runs as select_runs
from unihssl.experiments.plots.sensitivity import sensitivity_curve as sensitivity_curve

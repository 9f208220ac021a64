"""Pictures of a study: `data` and `beliefs` compute what they show, `drawing` and `panels` draw it with matplotlib."""

from pied.plots.beliefs import Cut, Predictions, cuts, importance, predictions
from pied.plots.data import Gaps, History, Region, gaps, history, region
from pied.plots.drawing import new_figure, plot_gap, plot_history, plot_region, plot_study
from pied.plots.fronts import TradeOffs, plot_front, trade_offs
from pied.plots.panels import KINDS, draw, plot_outputs, plot_residuals, plot_slices
from pied.plots.posteriors import draw_posterior, plot_fit, plot_posterior
from pied.plots.sweeps import draw_policy, draw_sweep, plot_policy, plot_sweep

__all__ = [
    "KINDS",
    "Cut",
    "Gaps",
    "History",
    "Predictions",
    "Region",
    "TradeOffs",
    "cuts",
    "draw",
    "draw_policy",
    "draw_posterior",
    "draw_sweep",
    "gaps",
    "history",
    "importance",
    "new_figure",
    "plot_fit",
    "plot_front",
    "plot_gap",
    "plot_history",
    "plot_outputs",
    "plot_policy",
    "plot_posterior",
    "plot_region",
    "plot_residuals",
    "plot_slices",
    "plot_study",
    "plot_sweep",
    "predictions",
    "region",
    "trade_offs",
]

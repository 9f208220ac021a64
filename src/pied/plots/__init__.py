"""Pictures of a study: `data` computes what they show as arrays, `drawing` draws it with matplotlib."""

from pied.plots.data import Gaps, History, Region, gaps, history, region
from pied.plots.drawing import new_figure, plot_gap, plot_history, plot_region, plot_study

__all__ = [
    "Gaps",
    "History",
    "Region",
    "gaps",
    "history",
    "new_figure",
    "plot_gap",
    "plot_history",
    "plot_region",
    "plot_study",
    "region",
]

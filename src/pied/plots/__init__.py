"""Pictures of a study: the data first, then the drawing."""

from pied.plots.drawing import (
    Gaps,
    History,
    Region,
    gaps,
    history,
    new_figure,
    plot_gap,
    plot_history,
    plot_region,
    plot_study,
    region,
)

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

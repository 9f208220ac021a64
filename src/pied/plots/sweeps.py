"""Pictures of sweeps: the optimum over one constant or limit as a curve with its band, over two as a map."""

from pathlib import Path
from typing import Any

import numpy as np

from pied.errors import SettingError
from pied.plots.drawing import BLUE, GREY, ORANGE, SKY, VERMILION, new_figure
from pied.study import Sweep, short

COLOURS = {"good": BLUE, "fair": ORANGE, "poor": VERMILION, "none": GREY}
"""Of the points, by how far they can be trusted."""


def plot_sweep(sweep: Sweep, *, axes: Any = None) -> Any:
    """Draw a sweep, and return the axes.

    Example: `docs/recipes.md`.

    Args:
        sweep: Over one constant or limit: a curve with its band; over two: a map, with marks where trust is poor.
        axes: Where to draw; by default in a new figure.
    """
    axes = new_figure((6.4, 4.4)).add_subplot() if axes is None else axes
    label = short(sweep.objective) + (f" [{sweep.unit}]" if sweep.unit else "")
    axes.set_xlabel(sweep.names[0])
    trust = np.array(sweep.trust)
    if len(sweep.names) == 2:
        _draw_map(axes, sweep, trust, label)
        return axes
    x = sweep.at(sweep.names[0])
    known = np.isfinite(sweep.values)
    axes.fill_between(x[known], sweep.lower[known], sweep.upper[known], color=SKY, alpha=0.6, label="probably")
    axes.plot(x[known], sweep.values[known], color=BLUE, linewidth=1.5)
    for word, colour in COLOURS.items():
        own = known & (trust == word)
        if own.any():
            axes.scatter(x[own], sweep.values[own], s=26, color=colour, zorder=3, label=f"trust: {word}")
    for place in x[~known]:
        axes.axvline(place, color=GREY, linestyle=":", linewidth=0.8)
    axes.set_ylabel(label)
    axes.legend(loc="best", fontsize="small")
    return axes


def _draw_map(axes: Any, sweep: Sweep, trust: Any, label: str) -> None:
    """Draw the optimum over two constants or limits."""
    first, second = (sweep.at(name) for name in sweep.names)
    across, up = np.unique(first), np.unique(second)
    values = np.full((len(up), len(across)), np.nan)
    values[np.searchsorted(up, second), np.searchsorted(across, first)] = sweep.values
    mesh = axes.pcolormesh(across, up, values, shading="nearest", cmap="viridis")
    axes.figure.colorbar(mesh, ax=axes, label=label)
    for word, mark in (("poor", "x"), ("none", ".")):
        own = trust == word
        if own.any():
            axes.scatter(first[own], second[own], marker=mark, s=20, color=COLOURS[word], label=f"trust: {word}")
            axes.legend(loc="best", fontsize="small")
    axes.set_ylabel(sweep.names[1])


def draw_sweep(sweep: Sweep, file: str | Path) -> None:
    """Draw a sweep to a file, whose suffix chooses the format.

    Example: `docs/recipes.md`.
    """
    axes = plot_sweep(sweep)
    try:
        axes.figure.savefig(file, dpi=150)
    except (OSError, ValueError) as error:  # no such folder, an unknown image format
        raise SettingError(f"the picture cannot be written to '{file}': {error}") from error

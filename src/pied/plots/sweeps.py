"""Pictures of sweeps: the optimum over one constant or limit as a curve with its band, over two as a map."""

from pathlib import Path
from typing import Any

import numpy as np

from pied.errors import SettingError
from pied.plots.drawing import BLUE, GREY, ORANGE, SKY, VERMILION, new_figure
from pied.study import Policy, Sweep, short

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


def plot_policy(policy: Policy, *, axes: Any = None) -> Any:
    """Draw the best objective and each setting over the first observed variable, and return the axes.

    Example: `docs/guide-running.md`.

    Args:
        policy: Over one observed variable; of several, those at the first value of each other are drawn.
        axes: One for the objective and one for each setting, below each other; by default in a new figure.
    """
    first, others = policy.names[0], policy.names[1:]
    begin = policy.results[0].given
    shown = [each for each in policy.results if all(each.given[name] == begin[name] for name in others)]
    heads = [policy.problem.objective, *policy.settings]
    if axes is None:
        axes = new_figure((6.4, 1.7 * len(heads))).subplots(len(heads), 1, sharex=True, squeeze=False)[:, 0]
    known = [each for each in shown if each.x is not None]
    x = [each.given[first] for each in known]
    low, high = zip(*(each.bounds[each.objective] for each in known), strict=True) if known else ((), ())
    axes[0].fill_between(x, low, high, color=SKY, alpha=0.6, label="probably")
    axes[0].plot(x, [each.value for each in known], color=BLUE, marker="o", markersize=4)
    axes[0].set_ylabel(short(policy.problem.objective))
    for panel, name in zip(axes[1:], policy.settings, strict=True):
        panel.plot(x, [each.x[name] for each in known if each.x is not None], color=BLUE, marker="o", markersize=4)
        panel.set_ylabel(name)
    axes[-1].set_xlabel(first)
    return axes


def draw_policy(policy: Policy, file: str | Path) -> None:
    """Draw a policy to a file, whose suffix chooses the format.

    Example: `docs/guide-running.md`.
    """
    _save(plot_policy(policy)[0].figure, file)


def draw_sweep(sweep: Sweep, file: str | Path) -> None:
    """Draw a sweep to a file, whose suffix chooses the format.

    Example: `docs/recipes.md`.
    """
    _save(plot_sweep(sweep).figure, file)


def _save(figure: Any, file: str | Path) -> None:
    """Write a figure."""
    try:
        figure.savefig(file, dpi=150)
    except (OSError, ValueError) as error:  # no such folder, an unknown image format
        raise SettingError(f"the picture cannot be written to '{file}': {error}") from error

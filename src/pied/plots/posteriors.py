"""Pictures of posteriors: all pairs of parameters, and predictions beside the data."""

from pathlib import Path
from typing import Any

import numpy as np

from pied.errors import SettingError
from pied.plots.drawing import BLUE, ORANGE, SKY, new_figure
from pied.study import Posterior

LEVELS = (0.5, 0.9)  # of the regions that are drawn
MOST_PAIRS = 8  # parameters of which all pairs can be read
BINS = 30
SHOWN = 600  # draws that are drawn as points


def plot_posterior(posterior: Posterior) -> Any:
    """Draw each parameter, each pair of parameters, and what the draws predict beside the data; return the figure.

    Example: `docs/guide-calibration.md`.
    """
    shown = dict(list(posterior.numbers.items())[:MOST_PAIRS])
    names, q = list(shown), len(shown)
    if not names:
        raise SettingError("there are no parameters that are numbers: nothing can be drawn")
    has_data = posterior.likelihood.squares.is_single
    figure = new_figure((2.0 * q + 1.0, 2.0 * q + 1.0 + 2.4 * has_data))
    grid = figure.add_gridspec(q + has_data, q, height_ratios=[1.0] * q + [1.3] * has_data)
    regions = [posterior.region(level) for level in LEVELS]
    few = np.linspace(0, len(posterior.V) - 1, min(SHOWN, len(posterior.V))).astype(int)
    for i, row in enumerate(names):
        for j, column in enumerate(names[: i + 1]):
            axes = figure.add_subplot(grid[i, j])
            if i == j:
                axes.hist(shown[row], bins=BINS, color=SKY, density=True)
                axes.axvline(float(np.median(shown[row])), color=BLUE, linewidth=1.2)
                axes.set_yticks([])
            else:
                depth = sum(region[few].astype(int) for region in regions)
                for inside, colour in zip(range(len(LEVELS) + 1), ("#D8D8D8", SKY, BLUE), strict=True):
                    own = few[depth == inside]
                    axes.scatter(shown[column][own], shown[row][own], s=4, color=colour, linewidths=0)
            if i == q - 1:
                axes.set_xlabel(column)
            if j == 0 and i:
                axes.set_ylabel(row)
            axes.tick_params(labelsize=7, labelbottom=i == q - 1, labelleft=j == 0 and i > 0)
    if has_data:
        plot_fit(posterior, axes=figure.add_subplot(grid[q, :]))
    figure.set_layout_engine("constrained")
    return figure


def plot_fit(posterior: Posterior, *, axes: Any = None) -> Any:
    """Draw the data of each output with their errors, and the band that the draws predict; return the axes.

    Example: `docs/guide-calibration.md`.
    """
    axes = new_figure((6.4, 3.2)).add_subplot() if axes is None else axes
    likelihood, problem = posterior.likelihood, posterior.problem
    if not likelihood.squares.is_single:
        raise SettingError("the data are not those of single outputs: they cannot be drawn beside them")
    names = list(dict.fromkeys(likelihood.names))
    bands = posterior.predict(names)
    place = np.arange(len(names))
    weights = np.abs(likelihood.squares.root).max(0)
    used = [problem.outputs.index(name) for name in likelihood.names]
    a, _ = likelihood.squares.apart(posterior.X[:1])
    data = likelihood.squares.middle[used] - a[0] / likelihood.squares.root[used, np.arange(len(used))]
    errors = (likelihood.sigma or float(np.median(posterior["sigma"]))) / weights
    axes.fill_between(place, bands.low[0], bands.high[0], color=SKY, label="probably, by the draws")
    axes.plot(place, bands.median[0], color=BLUE, linewidth=1.2)
    at = [names.index(name) for name in likelihood.names]
    axes.errorbar(at, data, errors, fmt="o", markersize=3, color=ORANGE, label="data")
    step = max(1, len(names) // 12)
    axes.set_xticks(place[::step], names[::step], fontsize=7)
    axes.legend(fontsize="small")
    return axes


def draw_posterior(posterior: Posterior, file: str | Path | Any, format: str | None = None) -> None:
    """Draw a posterior to a file, whose suffix chooses the format.

    Example: `docs/guide-calibration.md`.
    """
    try:
        plot_posterior(posterior).savefig(file, dpi=150, format=format)
    except (OSError, ValueError) as error:  # no such folder, an unknown image format
        raise SettingError(f"the picture cannot be written to '{file}': {error}") from error

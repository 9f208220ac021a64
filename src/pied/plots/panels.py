"""Draw what the belief says: cuts, predictions against measurements, residuals; and any picture by its name."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pied.errors import SettingError, did_you_mean
from pied.plots.beliefs import Cut, Predictions, cuts, predictions
from pied.plots.drawing import (
    BLUE,
    GREY,
    SKY,
    VERMILION,
    Axes,
    log_scale,
    mark_labels,
    new_figure,
    plot_gap,
    plot_history,
    plot_region,
    plot_study,
)
from pied.plots.fronts import plot_front
from pied.problem import Problem
from pied.study import Study, short

MOST_PANELS = 6
"""Variables, functions or outputs that are drawn; more would be too small to read."""
WIDTH, HEIGHT = 3.4, 2.7
"""Inches of one panel."""


def plot_slices(study: Study, *, shown: list[Cut] | None = None) -> tuple[Axes, ...]:
    """Draw objective and limits along each variable, through the recommended point; bands are the bounds.

    Choices are drawn as points with bars, integers and other steps as steps.

    Example: `docs/recipes.md`.

    Args:
        study: The study.
        shown: The data, if `cuts` was called already.
    """
    problem = study.problem
    shown = (cuts(study) if shown is None else shown)[:MOST_PANELS]
    functions = [0, *range(1, min(problem.k, MOST_PANELS))]
    figure = new_figure((WIDTH * len(shown), HEIGHT * len(functions)))
    drawn = []
    for row, i in enumerate(functions):
        for column, cut in enumerate(shown):
            axes = figure.add_subplot(len(functions), len(shown), row * len(shown) + column + 1)
            _draw_cut(axes, problem, cut, i)
            if column == 0:
                axes.set_ylabel(_function_label(problem, i))
            if row == len(functions) - 1:
                follows = f"\n({', '.join(cut.follows)} with it)" if cut.follows else ""
                axes.set_xlabel(_label(cut.name, problem.variables[cut.name].unit) + follows)
            drawn.append(axes)
    return tuple(drawn)


def _draw_cut(axes: Axes, problem: Problem, cut: Cut, i: int) -> None:
    low, middle, high = cut.lower[:, i], cut.median[:, i], cut.upper[:, i]
    if cut.labels:
        away = np.stack([np.maximum(middle - low, 0.0), np.maximum(high - middle, 0.0)])
        axes.errorbar(cut.along, middle, yerr=away, fmt="o", color=BLUE, ecolor=SKY, markersize=5, elinewidth=5)
        mark_labels(axes.xaxis, cut.labels)
    elif cut.is_stepped:
        axes.fill_between(cut.along, low, high, step="mid", color=SKY, linewidth=0)
        axes.step(cut.along, middle, where="mid", color=BLUE, linewidth=1.6)
    else:
        axes.fill_between(cut.along, low, high, color=SKY, linewidth=0)
        axes.plot(cut.along, middle, color=BLUE, linewidth=1.6)
    axes.axvline(cut.at, color=GREY, linestyle=":", linewidth=1.2)
    if i > 0:
        limit = problem.limits().get(problem.functions[i])
        axes.axhline(limit.value if limit else 0.0, color=VERMILION, linewidth=1.2, linestyle="--")
    if problem.variables[cut.name].log:
        axes.set_xscale(**log_scale(problem.variables[cut.name]))
    axes.spines[["top", "right"]].set_visible(False)


def plot_outputs(study: Study, *, shown: Predictions | None = None) -> tuple[Axes, ...]:
    """Draw each measurement against what all others predict for it, one panel for each output.

    Example: `docs/recipes.md`.

    Args:
        study: The study.
        shown: The data, if `predictions` was called already.
    """
    shown = predictions(study) if shown is None else shown
    return _panels(study.problem, lambda axes, j: _draw_output(axes, shown, j, study.problem))


def _draw_output(axes: Axes, shown: Predictions, j: int, problem: Problem) -> None:
    y, middle = shown.measured[:, j], shown.middle[:, j]
    known = np.isfinite(y) & np.isfinite(middle)
    y, middle = y[known], middle[known]
    low, high = shown.lower[known, j], shown.upper[known, j]
    away = np.stack([np.maximum(middle - low, 0.0), np.maximum(high - middle, 0.0)])
    axes.errorbar(middle, y, xerr=away, fmt="o", color=BLUE, ecolor=SKY, markersize=4.5, elinewidth=2.0)
    if len(y):
        ends = float(min(y.min(), middle.min())), float(max(y.max(), middle.max()))
        axes.plot(ends, ends, color=GREY, linewidth=1.0, linestyle="--")
    name = problem.outputs[j]
    axes.set_title(_label(name, problem.units.get(name, "")), loc="left", fontsize="medium")
    axes.set_xlabel("predicted from all others")
    axes.set_ylabel("measured")


def plot_residuals(study: Study, *, shown: Predictions | None = None) -> tuple[Axes, ...]:
    """Draw the error of each prediction by trial, in units of its half width: most lie between -1 and 1.

    Example: `docs/recipes.md`.

    Args:
        study: The study.
        shown: The data, if `predictions` was called already.
    """
    shown = predictions(study) if shown is None else shown
    return _panels(study.problem, lambda axes, j: _draw_residuals(axes, shown, j, study.problem))


def _draw_residuals(axes: Axes, shown: Predictions, j: int, problem: Problem) -> None:
    half = np.maximum((shown.upper - shown.lower)[:, j] / 2, 1e-300)
    away = (shown.measured - shown.middle)[:, j] / half
    axes.axhspan(-1.0, 1.0, color="0.92", zorder=0)
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    axes.scatter(shown.numbers, away, s=26, color=BLUE, edgecolors="black", linewidths=0.5, zorder=3)
    axes.set_title(problem.outputs[j], loc="left", fontsize="medium")
    axes.set_xlabel("trial")
    axes.set_ylabel("error / half width")
    axes.xaxis.get_major_locator().set_params(integer=True)


def _panels(problem: Problem, draw: Callable[[Axes, int], None]) -> tuple[Axes, ...]:
    """Draw one panel for each output, in rows of three."""
    count = min(problem.m, MOST_PANELS)
    columns = min(count, 3)
    rows = math.ceil(count / columns)
    figure = new_figure((WIDTH * columns, HEIGHT * rows))
    drawn = []
    for j in range(count):
        axes = figure.add_subplot(rows, columns, j + 1)
        draw(axes, j)
        axes.spines[["top", "right"]].set_visible(False)
        drawn.append(axes)
    return tuple(drawn)


def _function_label(problem: Problem, i: int) -> str:
    if i == 0:
        return _label(short(problem.objective), problem.unit)
    name = problem.functions[i]
    limit = problem.limits().get(name)
    text = name if limit is None else limit.quantity
    return _label(text if len(text) <= 24 else name[:24], problem.units.get(text, ""))


def _label(name: str, unit: str) -> str:
    return f"{name} [{unit}]" if unit else name


KINDS: dict[str, Callable[[Study], Any]] = {
    "history": lambda study: plot_history(study),
    "gap": lambda study: plot_gap(study),
    "front": plot_front,
    "slices": plot_slices,
    "region": lambda study: plot_region(study),
    "outputs": plot_outputs,
    "residuals": plot_residuals,
}
"""Pictures by name."""


def draw(study: Study, kind: str | None = None, *, file: str | Path | Any, format: str | None = None) -> None:
    """Draw a picture by its name and write it to a file.

    Example: `docs/recipes.md`.

    Args:
        study: The study.
        kind: One of `KINDS`; by default history, gap and, for two variables, the region in one picture; with several
            objectives, the front.
        file: Where to write it: a path, whose suffix chooses the format, or an open binary file.
        format: "png", "svg" or "pdf", where the file has no suffix.
    """
    if kind is not None and kind not in KINDS:
        raise SettingError(f"there is no picture '{kind}'.{did_you_mean(kind, KINDS)}")
    if kind is None and study.problem.has_front:
        kind = "front"
    drawn = plot_study(study) if kind is None else KINDS[kind](study)
    axes = drawn[0] if isinstance(drawn, tuple) else drawn
    try:
        axes.figure.savefig(file, dpi=150, format=format)
    except (OSError, ValueError) as error:  # no such folder, an unknown image format
        raise SettingError(f"the picture cannot be written to '{file}': {error}") from error

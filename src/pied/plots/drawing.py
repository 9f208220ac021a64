"""Draw the pictures of a study with matplotlib.

Each function takes optional axes and returns them. Without axes it makes a new figure, reachable as `axes.figure`;
no global state of matplotlib is used.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pied.errors import MissingExtra, SettingError
from pied.plots.data import Region, Truth, gaps, history, region
from pied.problem import Problem, Variable
from pied.records import State, Trial
from pied.study import Result, Study

# Okabe and Ito's colours, which colour-blind readers can tell apart; their greys differ in print.
BLUE, SKY, ORANGE, VERMILION, GREY = "#0072B2", "#9CCBEA", "#E69F00", "#D55E00", "#6E6E6E"
BELOW: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "ncols": 2, "fontsize": "small",
                         "frameon": False}  # fmt: skip
"""Where legends stand: below the axes, where they cover no data."""
MOST_TICKS = 12
"""Labels of a choice that fit along an axis."""
LONGEST_LABEL = 28
"""Characters of an objective's name that fit along an axis."""

Axes = Any
"""matplotlib.axes.Axes; not imported at the top, so that the package loads without matplotlib."""


def plot_history(
    study: Study | Result, *, problem: Problem | None = None, known: float | None = None, axes: Axes = None
) -> Axes:
    """Draw the value of each evaluation, feasible or not, and the best so far.

    Example: `docs/guide-simulator.md`.

    Args:
        study: A study, or a result together with `problem=`.
        problem: The statement, if a result is given: a result has outputs, and the statement turns them into values.
        known: The optimal value, if it is known; drawn as a line.
        axes: Where to draw; by default in a new figure.
    """
    problem, trials = _parts(study, problem)
    axes = _new_axes() if axes is None else axes
    shown = history(problem, trials)
    fine, bad = shown.is_feasible, ~shown.is_feasible & np.isfinite(shown.values)
    missing = ~np.isfinite(shown.values)
    if known is not None:
        axes.axhline(known, color="black", linestyle=":", linewidth=1.2, label=f"known optimum {known:.6g}")
    axes.step(
        shown.numbers,
        shown.best,
        where="post",
        color=BLUE,
        linewidth=1.8,
        label="best so far" + " with all limits met" * bool(problem.n),
    )
    axes.scatter(
        shown.numbers[bad], shown.values[bad], marker="x", s=34, linewidths=1.5, color=VERMILION, label="breaks a limit"
    )
    axes.scatter(
        shown.numbers[fine], shown.values[fine], s=30, color=BLUE, edgecolors="black", linewidths=0.6, zorder=3,
        label="all limits met" if problem.n else "measured",
    )  # fmt: skip
    if missing.any():
        axes.scatter(
            shown.numbers[missing], np.full(missing.sum(), 0.02), marker="v", s=26, color=GREY,
            transform=axes.get_xaxis_transform(), label="no value: failed, withdrawn or open",
        )  # fmt: skip
    _mark_design(axes, trials)
    axes.set_ylabel(_with_unit(_short(problem.objective), problem))
    axes.set_xlabel("trial")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(**BELOW)
    _tidy(axes)
    return axes


def plot_gap(
    study: Study | Result, *, problem: Problem | None = None, known: float | None = None, axes: Axes = None
) -> Axes:
    """Draw the gap after each trial, on a logarithmic scale.

    Example: `docs/guide-simulator.md`.

    Args:
        study: A study, or a result together with `problem=`.
        problem: The statement, if a result is given.
        known: The optimal value, if it is known; the true distance of the best feasible point from it is drawn too.
        axes: Where to draw; by default in a new figure.
    """
    problem, trials = _parts(study, problem)
    if problem.has_front:
        raise SettingError("several objectives have a front instead of a gap: draw the front")
    axes = _new_axes() if axes is None else axes
    shown = gaps(problem, trials)
    if isinstance(study, Study) and len(trials):
        shown.gap[-1] = _gap_now(study)  # as the answer has it
    open_, closed = np.isfinite(shown.gap) & (shown.gap > 0), shown.gap == 0
    axes.set_yscale("log")
    if open_.any():
        axes.plot(
            shown.numbers[open_], shown.gap[open_], drawstyle="steps-post", color=ORANGE, linewidth=1.8, marker="o",
            markersize=4.5, markeredgecolor="black", markeredgewidth=0.5, label="still possible improvement, at most",
        )  # fmt: skip
    if known is not None:
        away = np.abs(known - history(problem, trials).best)
        axes.step(shown.numbers, away, where="post", color="black", linestyle=":", label="true distance from optimum")
    if closed.any():
        axes.scatter(
            shown.numbers[closed], np.full(closed.sum(), 0.04), marker="v", s=24, facecolors="none", edgecolors=GREY,
            transform=axes.get_xaxis_transform(), label="0: nothing better is expected",
        )  # fmt: skip
    if not (open_.any() or closed.any()):
        axes.text(
            0.5,
            0.5,
            "not known yet: it follows from the next proposals",
            transform=axes.transAxes,
            ha="center",
            va="center",
            color=GREY,
        )
    elif closed.any():
        axes.set_ylim(bottom=0.2 * axes.dataLim.minposy)  # room for the marks of zero
    if axes.get_legend_handles_labels()[0]:
        axes.legend(**BELOW)
    if len(trials):
        axes.set_xlim(*_span(trials))
    _mark_design(axes, trials)
    axes.set_ylabel(_with_unit("still possible improvement", problem))
    axes.set_xlabel("trial")
    axes.xaxis.get_major_locator().set_params(integer=True)
    _tidy(axes)
    return axes


def plot_region(
    study: Study,
    *,
    truth: Truth | None = None,
    optimum: Mapping[str, Any] | None = None,
    shown: Region | None = None,
    axes: Axes = None,
) -> Axes:
    """Draw the feasible region of two variables under the belief, the evaluated points and the recommended one.

    Example: `docs/guide-simulator.md`.

    Args:
        study: The study.
        truth: The functions themselves, if they are known; their boundary is drawn too.
        optimum: The optimal point, if it is known.
        shown: The data, if `region` was called already.
        axes: Where to draw; by default in a new figure.
    """
    shown = region(study, truth=truth) if shown is None else shown
    axes = _new_axes() if axes is None else axes
    problem, (first, second) = study.problem, shown.names
    handles = _draw_beliefs(axes, shown, problem)
    handles += _draw_samples(axes, problem, study.trials, first, second)
    recommended = study.result().x
    if optimum is not None:
        handles.append(
            axes.scatter(
                *_numbers_of(problem, optimum, shown.names), marker="s", s=190, facecolors="none", edgecolors="black",
                linewidths=1.3, zorder=5, label="known optimum",
            )
        )  # fmt: skip
    if recommended is not None:
        handles.append(
            axes.scatter(
                *_numbers_of(problem, recommended, shown.names), marker="*", s=230, color=ORANGE, edgecolors="black",
                linewidths=0.9, zorder=6, label="recommended",
            )
        )  # fmt: skip
    for name, axis, scale in ((first, axes.xaxis, axes.set_xscale), (second, axes.yaxis, axes.set_yscale)):
        variable = problem.variables[name]
        axis.set_label_text(f"{name} [{variable.unit}]" if variable.unit else name)
        if variable.log:
            scale(**log_scale(variable))
        if variable.labels:
            mark_labels(axis, variable.labels)
    axes.set_xlim(shown.across[0], shown.across[-1])
    axes.set_ylim(shown.up[0], shown.up[-1])
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "ncols": 3}
    axes.legend(handles=handles, fontsize="small", frameon=False, **place)
    return axes


def log_scale(variable: Variable) -> dict[str, Any]:
    """Return matplotlib's words for the logarithmic scale of a variable, which may lie below 0."""
    if variable.lo > 0:
        return {"value": "log"}
    return {"value": "symlog", "linthresh": abs(variable.hi)}


def plot_study(
    study: Study,
    *,
    truth: Truth | None = None,
    known: float | None = None,
    optimum: Mapping[str, Any] | None = None,
    file: str | Path | None = None,
) -> tuple[Axes, ...]:
    """Draw history and gap, for two variables also the region, and write the picture to a file if one is given.

    Example: `docs/guide-simulator.md`.

    Args:
        study: The study.
        truth: The functions themselves, for the boundary of the true region.
        known: The optimal value, if it is known.
        optimum: The optimal point, if it is known.
        file: Where to write the picture; the suffix chooses the format.
    """
    has_region = study.problem.d == 2 and int(study.data.complete.sum()) >= 2
    figure = new_figure((11.0, 6.0) if has_region else (6.5, 5.6))
    grid = figure.add_gridspec(2, 2 if has_region else 1, width_ratios=(1.15, 1.0) if has_region else None)
    above = figure.add_subplot(grid[0, 0])
    below = figure.add_subplot(grid[1, 0], sharex=above)
    drawn: tuple[Axes, ...] = (plot_history(study, known=known, axes=above), plot_gap(study, known=known, axes=below))
    above.set_xlabel("")
    above.set_title("Value of each evaluation", loc="left", fontsize="medium")
    below.set_title("Gap: how much better any point could still be", loc="left", fontsize="medium")
    if has_region:
        side = plot_region(study, truth=truth, optimum=optimum, axes=figure.add_subplot(grid[:, 1]))
        side.set_title("Feasible region under the belief, and the evaluated points", loc="left", fontsize="medium")
        handles = side.get_legend().legend_handles
        side.get_legend().remove()
        figure.legend(
            handles=handles, loc="outside lower center", ncols=5, fontsize="small", frameon=False, markerscale=0.7
        )
        drawn = (*drawn, side)
    if file is not None:
        figure.savefig(file, dpi=150)
    return drawn


def _parts(study: Study | Result, problem: Problem | None) -> tuple[Problem, tuple[Trial, ...]]:
    """Return the problem and the trials."""
    if isinstance(study, Study):
        return study.snapshot.problem, study.snapshot.current
    if problem is None:
        raise SettingError("a result does not contain its problem: give the study instead, or problem=")
    return problem, study.trials


def _draw_beliefs(axes: Axes, shown: Region, problem: Problem) -> list[Any]:
    """Draw the feasible and the possibly feasible region, the true boundary and the contours of the objective."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    axes.set_facecolor("white")
    edge: dict[str, Any] = {"edgecolor": GREY, "linewidth": 0.5}
    handles: list[Any] = []
    if problem.n:
        possible = np.minimum(shown.optimistic, -shown.pessimistic)
        axes.contourf(shown.across, shown.up, shown.pessimistic, levels=[0.0, np.inf], colors=[SKY])
        if bool((possible > 0).any()):
            hatched = axes.contourf(
                shown.across, shown.up, possible, levels=[0.0, np.inf], colors=["none"], hatches=["////"]
            )
            hatched.set_edgecolor(GREY)
            hatched.set_linewidth(0.0)
        handles += [
            Patch(facecolor=SKY, label="all limits met, probably", **edge),
            Patch(facecolor="white", hatch="////", label="all limits perhaps met", **edge),
            Patch(facecolor="white", label="a limit is broken", **edge),
        ]
    if np.ptp(shown.objective) > 0:
        lines = axes.contour(shown.across, shown.up, shown.objective, levels=10, colors=GREY, linewidths=0.6)
        lines.set_linestyle("solid")
        axes.clabel(lines, fontsize=7, inline=True)
        kind = "expected" if shown.truth is None else "true"
        handles.append(Line2D([], [], color=GREY, linewidth=0.8, label=f"{_short(problem.objective)} ({kind})"))
    if shown.truth is not None and problem.n and shown.truth.min() < 0 < shown.truth.max():
        axes.contour(shown.across, shown.up, shown.truth, levels=[0.0], colors="black", linewidths=1.4, linestyles="--")
        handles.append(Line2D([], [], color="black", linewidth=1.4, linestyle="--", label="true boundary"))
    return handles


def _draw_samples(axes: Axes, problem: Problem, trials: Sequence[Trial], first: str, second: str) -> list[Any]:
    """Draw the evaluated points: feasible, infeasible, failed."""
    fine = history(problem, trials).is_feasible
    told = np.array([trial.state is State.TOLD for trial in trials], dtype=bool)
    failed = np.array([trial.state is State.FAILED for trial in trials], dtype=bool)
    places = [list(problem.variables).index(name) for name in (first, second)]
    x = np.array([[trial.x.array[place] for place in places] for trial in trials], dtype=float).reshape(-1, 2)
    handles = []
    for chosen, label, style in (
        (
            fine,
            "measured, all limits met",
            {"marker": "o", "s": 34, "color": BLUE, "edgecolors": "black", "linewidths": 0.6},
        ),
        (told & ~fine, "measured, breaks a limit", {"marker": "x", "s": 38, "color": VERMILION, "linewidths": 1.5}),
        (failed, "failed", {"marker": "v", "s": 30, "color": GREY}),
    ):
        if chosen.any():
            handles.append(axes.scatter(x[chosen, 0], x[chosen, 1], zorder=4, label=label, clip_on=False, **style))
    return handles


def _numbers_of(problem: Problem, x: Mapping[str, Any], names: Sequence[str]) -> list[float]:
    """Return some settings of a point as numbers; labels are their places."""
    boxes = [(problem.variables[name], x[name]) for name in names]
    return [each.code(value) for each, value in boxes]


def mark_labels(axis: Any, labels: Sequence[str]) -> None:
    """Write the labels of a choice along an axis, every so many where they are too many."""
    every = -(-len(labels) // MOST_TICKS)
    places = range(0, len(labels), every)
    axis.set_ticks(list(places), [labels[place] for place in places])


def _gap_now(study: Study) -> float:
    """Return the gap of a study; NaN while there is none."""
    width, _ = study.gap()
    return np.nan if width is None else width


def _mark_design(axes: Axes, trials: Sequence[Trial]) -> None:
    """Shade the trials of the initial design."""
    initial = [trial.number for trial in trials if trial.why.aim == "initial"]
    if initial:
        axes.axvspan(min(initial) - 0.5, max(initial) + 0.5, color="0.92", zorder=0)
        transform = axes.get_xaxis_transform()
        axes.text(min(initial) - 0.3, 0.08, "first points", fontsize=7, color=GREY, transform=transform)
        axes.set_xlim(*_span(trials))


def _span(trials: Sequence[Trial]) -> tuple[float, float]:
    return trials[0].number - 0.5, trials[-1].number + 0.5


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.88", linewidth=0.6)
    axes.set_axisbelow(True)


def _with_unit(text: str, problem: Problem) -> str:
    """Return a label with the unit of the objective."""
    return f"{text} [{problem.unit}]" if problem.unit else text


def _short(name: str) -> str:
    """Return a name that fits along an axis; a long formula becomes "objective"."""
    return name if len(name) <= LONGEST_LABEL else "objective"


def new_figure(size: tuple[float, float]) -> Any:
    """Return a new figure without a window and outside of matplotlib's global state.

    Example: `docs/recipes.md`.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("a plot", "matplotlib", "plots") from error
    return Figure(figsize=size, layout="constrained")


def _new_axes() -> Axes:
    return new_figure((6.4, 4.4)).add_subplot()
